"""Data: sources on the Hugging Face hub, prepared arrays, their digests, and the manifest.

A data set is decoded or generated once into `data/prepared/<key>.safetensors`, verified on every
load, and held on the device that trains. `data/manifest.json`, committed, names source, revision,
licence and digest of the data that the records of this project were made with; other data are used
too, with a note that stays on the record. Data of a reader's own are known by their content
(`own_data`).
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from ..files import DATA, PREPARED, FptError, lock, read_json, set_aside, write_atomic
from . import hub

log = logging.getLogger("fpt")
Arrays = dict[str, np.ndarray]


def any_arrays(arrays: Arrays) -> None:
    """The check of a data set that has none."""


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
        revision=hub.LOCKED,
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
    **{
        f"glue-{subset}": Source(
            repo="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            licence="differs by subset, see the data set's card",
            files={
                split: f"{subset}/{name}-00000-of-00001.parquet"
                for split, name in {"train": "train", "test": "validation"}.items()
            },
        )
        for subset in ("cola", "sst2", "mrpc", "rte", "qnli")
    },
}


@dataclass(frozen=True)
class Dataset:
    """How a set of arrays is known and made.

    `key` names the prepared file and the manifest entry and ends with the preparation version;
    `source` is its identity as JSON; `build` decodes or generates the arrays, deterministically;
    `check` raises ValueError where arrays cannot be this data set, just built or read from a file.
    """

    key: str
    source: dict[str, Any] = field(compare=False)
    build: Callable[[], Arrays] = field(compare=False)
    check: Callable[[Arrays], None] = field(default=any_arrays, compare=False)


def fetch(name: str, split: str) -> Path:
    """The local path of one source file of a prepared data set, as `fpt.tasks.hub` finds it."""
    source = SOURCES[name]
    return hub.fetch(source.repo, source.files[split], source.revision, "dataset")


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


@cache
def own_data(name: str, build: Callable[[], Arrays]) -> Dataset:
    """A data set of the reader's own, known by its content: edited data are another data set, with
    another prepared file and other keys of runs. Calls `build` at once; give it a function of a
    module, not a lambda, and that is once in a process. FptError if the data cannot be read."""
    try:
        arrays = build()
    except (OSError, ValueError) as error:
        raise FptError(f"The data of {name!r} cannot be read ({error}).") from error
    digest = arrays_digest(arrays)

    def check(found: Arrays) -> None:
        if arrays_digest(found) != digest:
            raise ValueError(f"it is not the data set {name}-{digest[:16]}")

    source = {"source": "own", "digest": digest}
    return Dataset(f"{name}-{digest[:16]}", source, lambda: arrays, check)


def check_array(arrays: Arrays, name: str, dtype: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array `name`; ValueError where it is missing or of another type or shape (None: any)."""
    if name not in arrays:
        raise ValueError(f"there is no array {name!r}")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        there in (None, here) for here, there in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name!r} is {array.dtype} of {array.shape}, not {dtype} of ({wanted})")
    return array


def check_below(name: str, array: np.ndarray, most: int) -> None:
    """ValueError where a value is not one of 0 to `most` - 1."""
    if len(array) and not (array.min() >= 0 and array.max() < most):
        found = f"{array.min()} to {array.max()}"
        raise ValueError(f"{name!r} has values from {found}, not from 0 to {most - 1}")


def _write(path: Path, arrays: Arrays) -> None:
    # One metadata entry only: with several, safetensors would not fix their order in the file.
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomic(path, save(content, metadata={"digest": arrays_digest(arrays)}))


def _read(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    """Arrays and digest of a prepared file; ValueError where it is damaged or another's."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            stored = (file.metadata() or {}).get("digest")
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    except (SafetensorError, OSError, TypeError) as error:  # NumPy has no bfloat16
        raise ValueError(str(error)) from error
    if arrays_digest(arrays) != stored:
        raise ValueError("its content does not have the digest that it states")
    for key, entry in read_manifest().items():
        if entry["digest"] == stored and key != dataset.key:
            raise ValueError(f"it is the data set {key}")
    dataset.check(arrays)
    return tensors, str(stored)


def _build(dataset: Dataset) -> Arrays:
    arrays = dataset.build()
    try:
        dataset.check(arrays)
    except ValueError as error:
        raise FptError(
            f"The data set {dataset.key} cannot be made of its source: {error}; fetch it again."
        ) from error
    return arrays


def _prepared(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    """Verified arrays and digest, prepared where they are missing; one process at a time. What is
    whole is read without a lock: the disk may be read-only."""
    if path.exists():
        with suppress(ValueError):  # said below
            return _read(dataset, path)
    with lock(path.with_suffix(".lock"), wait=True):
        if path.exists():
            try:
                return _read(dataset, path)
            except ValueError as error:
                log.warning(
                    "%s is damaged (%s): kept as %s and prepared again.",
                    path.name,
                    error,
                    set_aside(path).name,
                )
        _write(path, _build(dataset))
        return _read(dataset, path)


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
    found = read_json(path) if path.exists() else {}
    for key, entry in found.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("digest"), str):
            raise FptError(f"{path}: {key!r} has no digest; take the committed file again.")
    return found


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
    digest = dataset_digest(dataset)
    expected = manifest_entry(dataset.key).get("digest", dataset.source.get("digest"))
    if expected is None:
        return _unlisted(dataset.key, digest)
    if expected != digest:
        return (
            f"data set {dataset.key} has digest {digest[:12]}, not {expected[:12]} as in "
            "data/manifest.json"
        )
    return None


def _unlisted(key: str, digest: str) -> str:
    return f"data set {key} (digest {digest[:12]}) is not in data/manifest.json"


def listed_since() -> list[str]:
    """What older records may note of data sets that the manifest has by now, unchanged."""
    return [_unlisted(key, entry.get("digest", "")) for key, entry in read_manifest().items()]
