"""Data: sources on the Hugging Face hub, prepared arrays, their digests, and the manifest.

A data set is decoded or generated once into `data/prepared/<key>.safetensors`, verified on every
load, and held on the device that trains. `data/manifest.json`, committed, names source, revision,
licence and digest of the data that the records of this project were made with; other data are used
too, with a note that stays on the record.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from .errors import FptError
from .files import lock, set_aside, write_atomic
from .paths import DATA, PREPARED

log = logging.getLogger("fpt")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Source:
    """A data set repository on the hub."""

    repo: str
    revision: str
    licence: str
    files: dict[str, str]  # split -> file in the repository


SOURCES = {
    "mnist": Source(
        repo="ylecun/mnist",
        revision="77f3279092a1c1579b2250db8eafed0ad422088c",
        licence="MIT",
        files={s: f"mnist/{s}-00000-of-00001.parquet" for s in ("train", "test")},
    ),
    "cifar10": Source(
        repo="uoft-cs/cifar10",
        revision="0b2714987fa478483af9968de7c934580d0bb9a2",
        licence="unknown",
        files={s: f"plain_text/{s}-00000-of-00001.parquet" for s in ("train", "test")},
    ),
    "homology": Source(
        repo="Hauser7733/TAPE_Remote_Homology",
        revision="main",
        licence="unknown (TAPE itself: BSD-3-Clause)",
        files={
            split: f"data/{name}-00000-of-00001.parquet"
            for split, name in {
                "train": "train",
                "valid": "validation",
                "test": "test_fold_holdout",
                "superfamily": "test_superfamily_holdout",
                "family": "test_family_holdout",
            }.items()
        },
    ),
}


@dataclass(frozen=True)
class Dataset:
    """How a set of arrays is known and made.

    `key` names the prepared file and the manifest entry and ends with the preparation version;
    `source` is its identity as JSON; `build` decodes or generates the arrays, deterministically.
    """

    key: str
    source: dict[str, Any] = field(compare=False)
    build: Callable[[], Arrays] = field(compare=False)


def fetch(name: str, split: str) -> Path:
    """The local path of one source file, downloaded through the hub client where it is missing.

    Raises FptError where neither the hub cache nor the network has it.
    """
    from huggingface_hub import hf_hub_download

    source = SOURCES[name]
    file = source.files[split]
    try:
        found = hf_hub_download(source.repo, file, repo_type="dataset", revision=source.revision)
    except Exception as error:  # whatever the client raised, the user can do the same about it
        raise FptError(
            f"{file} of the data set {source.repo} (revision {source.revision}) is neither in the "
            f"Hugging Face cache nor downloadable ({type(error).__name__}): connect once with "
            "HF_HUB_OFFLINE unset, or point HF_HUB_CACHE at a cache that holds it."
        ) from error
    return Path(found)


def hub_identity(name: str, preparation: int) -> dict[str, Any]:
    """The identity of a hub data set: repository, revision, preparation version."""
    source = SOURCES[name]
    return {"source": source.repo, "revision": source.revision, "preparation": preparation}


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _write(path: Path, arrays: Arrays) -> None:
    # One metadata entry only: with several, safetensors would not fix their order in the file.
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomic(path, save(content, metadata={"digest": arrays_digest(arrays)}))


def _read(path: Path) -> tuple[dict[str, Tensor], str]:
    """Arrays and digest of a prepared file; ValueError where it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            stored = (file.metadata() or {}).get("digest")
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if arrays_digest({name: tensor.numpy() for name, tensor in tensors.items()}) != stored:
        raise ValueError("its content does not have the digest that it states")
    return tensors, str(stored)


def _prepared(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    """Verified arrays and digest, prepared where they are missing; one process at a time."""
    with lock(path.with_suffix(".lock"), wait=True):
        if path.exists():
            try:
                return _read(path)
            except ValueError as error:
                log.warning(
                    "%s is damaged (%s): kept as %s and prepared again.",
                    path.name,
                    error,
                    set_aside(path).name,
                )
        _write(path, dataset.build())
        return _read(path)


@cache
def _loaded(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    return _prepared(dataset, path)


@cache
def _on_device(dataset: Dataset, path: Path, device: str) -> dict[str, Tensor]:
    tensors, _ = _loaded(dataset, path)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def prepared_path(dataset: Dataset) -> Path:
    return PREPARED / f"{dataset.key}.safetensors"


def load(dataset: Dataset, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The arrays of `dataset` on `device`, prepared on first use and cached for the process."""
    return _on_device(dataset, prepared_path(dataset), str(device))


def dataset_digest(dataset: Dataset) -> str:
    """SHA-256 of the arrays of `dataset` as they are here (prepares them if needed)."""
    return _loaded(dataset, prepared_path(dataset))[1]


def read_manifest() -> dict[str, Any]:
    """The committed manifest: data set key -> source, licence, examples, digest, floors."""
    path = DATA / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else {}


def manifest_entry(key: str) -> dict[str, Any]:
    """The manifest's entry of a data set; empty where it is not listed."""
    return read_manifest().get(key, {})


def data_note(task: object) -> str | None:
    """What a record of `task` must say of its data: None where they are the manifest's.

    Prepares the data if needed. Tasks generated on the fly have nothing to note.
    """
    dataset = getattr(task, "dataset", None)
    if dataset is None:
        return None
    digest, expected = dataset_digest(dataset), manifest_entry(dataset.key).get("digest")
    if expected is None:
        return f"data set {dataset.key} (digest {digest[:12]}) is not in data/manifest.json"
    if expected != digest:
        return (
            f"data set {dataset.key} has digest {digest[:12]}, not {expected[:12]} as in "
            "data/manifest.json"
        )
    return None
