"""Prepared data sets: arrays that are decoded or generated once and verified on every load.

`load` writes the arrays of a data set to `data/prepared/<key>.safetensors` on first use, compares
their digest whenever it reads them, and holds them on the device that trains.

The committed `data/manifest.json` lists source, licence, digest and trivial baselines of the data
that the records of this project were made with. Other data are used too, with a note on the record.
Data of a reader's own are known by their content (`own_data`).
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
from .hub import Repository

log = logging.getLogger("fpt")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Dataset:
    """How a set of arrays is known and made."""

    key: str  # names the prepared file and the manifest's entry; ends with a version or a digest
    source: dict[str, Any] = field(compare=False)  # identity as JSON, part of the key of every run
    build: Callable[[], Arrays] = field(compare=False)  # decodes or generates, deterministically
    repository: Repository | None = field(default=None, compare=False)  # where `build` reads


def hub_dataset(
    name: str, preparation: int, repository: Repository, build: Callable[[], Arrays], **more: Any
) -> Dataset:
    """The data set `name` that `build` decodes from files of `repository`, in that version of the
    preparation; `more` belongs to its identity."""
    source = {"source": repository.name, "revision": repository.revision}
    return Dataset(
        f"{name}-v{preparation}", {**source, "preparation": preparation, **more}, build, repository
    )


@cache
def own_data(name: str, build: Callable[[], Arrays]) -> Dataset:
    """A data set of the reader's own, known by its content: edited data are another data set, with
    another prepared file and other keys of runs.

    Calls `build` at once, and once per process if it is a function of a module. FptError if the
    data cannot be read.
    """
    try:
        arrays = build()
    except (OSError, ValueError) as error:
        raise FptError(f"The data of {name!r} cannot be read ({error}).") from error
    digest = arrays_digest(arrays)
    source = {"source": "own", "digest": digest}
    return Dataset(f"{name}-{digest[:16]}", source, lambda: arrays)


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def prepared_path(dataset: Dataset) -> Path:
    return PREPARED / f"{dataset.key}.safetensors"


def load(dataset: Dataset, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The arrays of `dataset` on `device`, prepared on first use and cached for the process."""
    return _on_device(dataset, prepared_path(dataset), str(device))


def dataset_digest(dataset: Dataset) -> str:
    """SHA-256 of the arrays of `dataset` as they are here (prepares them if needed)."""
    return _loaded(dataset, prepared_path(dataset))[1]


@cache
def _on_device(dataset: Dataset, path: Path, device: str) -> dict[str, Tensor]:
    tensors, _ = _loaded(dataset, path)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


@cache
def _loaded(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    """Verified arrays and digest. One process prepares what is missing or damaged; what is whole is
    read without a lock, since the disk may be read-only."""
    if path.exists():
        with suppress(ValueError):  # the warning follows under the lock
            return _read(path)
    with lock(path.with_suffix(".lock"), wait=True):
        if path.exists():
            try:
                return _read(path)  # another process has prepared it meanwhile
            except ValueError:
                aside = set_aside(path).name
                log.warning("%s is damaged: kept as %s and prepared again.", path.name, aside)
        _write(path, dataset.build())
        return _read(path)


def _read(path: Path) -> tuple[dict[str, Tensor], str]:
    """Arrays and digest of a prepared file; ValueError if it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            stated = (file.metadata() or {}).get("digest")
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    digest = arrays_digest({name: tensor.numpy() for name, tensor in tensors.items()})
    if digest != stated:
        raise ValueError("its content does not have the digest that it states")
    return tensors, digest


def _write(path: Path, arrays: Arrays) -> None:
    # One metadata entry only: with several, safetensors would not fix their order in the file.
    content = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_atomic(path, save(content, metadata={"digest": arrays_digest(arrays)}))


def read_manifest() -> dict[str, Any]:
    """The committed manifest: key of a data set -> source, licence, examples, digest, floors."""
    path = DATA / "manifest.json"
    return read_json(path) if path.exists() else {}


def manifest_entry(key: str) -> dict[str, Any]:
    """The manifest's entry of a data set; empty if it is not listed."""
    return read_manifest().get(key, {})


def data_note(task: object) -> str | None:
    """What a record of `task` must say of its data: None if they are the manifest's, or generated
    on the fly. Prepares the data if needed."""
    dataset = getattr(task, "dataset", None)
    if dataset is None:
        return None
    digest = dataset_digest(dataset)
    expected = manifest_entry(dataset.key).get("digest", dataset.source.get("digest"))
    if expected is None:
        return _unlisted(dataset.key, digest)
    if expected == digest:
        return None
    found = f"data set {dataset.key} has digest {digest[:12]}"
    return f"{found}, not {expected[:12]} as in data/manifest.json"


def _unlisted(key: str, digest: str) -> str:
    return f"data set {key} (digest {digest[:12]}) is not in data/manifest.json"


def listed_since() -> list[str]:
    """Notes of older records on data sets that the manifest has listed since, unchanged."""
    return [_unlisted(key, entry["digest"]) for key, entry in read_manifest().items()]
