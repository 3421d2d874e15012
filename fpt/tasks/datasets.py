"""Prepared data sets: arrays that are decoded or generated once and verified on every load.

`load` writes the arrays of a data set to `data/prepared/<key>.safetensors` on first use,
checks their digest whenever it reads the file, and keeps them on the device that trains.

The committed `data/manifest.json` lists source, licence, digest and trivial baselines of
the data that the records of this project were made with. Other data are used too, and the
record says so. A reader's own data are identified by their content (`fpt.tasks.own`).
"""

import hashlib
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

from ..files import lock, read_json, set_aside, write_atomic
from ..project import project
from .sources import Repository

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Dataset:
    """How a set of arrays is identified and made."""

    # Names the prepared file and the manifest's entry; ends with a version or a digest.
    key: str
    # The identity as JSON, which is part of the key of every run.
    source: dict[str, Any] = field(compare=False)
    # Decodes or generates the arrays, deterministically.
    build: Callable[[], Arrays] = field(compare=False)


def hub_dataset(
    name: str,
    preparation: int,
    repository: Repository,
    build: Callable[[], Arrays],
    **more: Any,
) -> Dataset:
    """The data set `name` that `build` decodes from files of `repository`; `preparation` is
    the version of that code, and `more` also belongs to the identity."""
    source = {
        "source": repository.name,
        "revision": repository.revision,
        "preparation": preparation,
        **more,
    }
    return Dataset(f"{name}-v{preparation}", source, build)


def arrays_digest(arrays: Mapping[str, Any]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names; of arrays, or
    of what makes one block after another (`fpt.tasks.sequences.Padded`)."""
    digest = hashlib.sha256()
    # The order in which the arrays were made does not matter; their types and shapes do.
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        for part in [array] if isinstance(array, np.ndarray) else array.parts():
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def prepared_path(dataset: Dataset) -> Path:
    return project().prepared / f"{dataset.key}.safetensors"


def load(dataset: Dataset, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """The arrays of `dataset` on `device`, prepared on first use and cached for the
    process."""
    return _on_device(dataset, prepared_path(dataset), str(device))


def dataset_digest(dataset: Dataset) -> str:
    """SHA-256 of the arrays of `dataset` as they are here (prepares them if needed)."""
    return _loaded(dataset, prepared_path(dataset))[1]


# Kept for the process: every batch of every run asks for them.
@cache
def _on_device(dataset: Dataset, path: Path, device: str) -> dict[str, Tensor]:
    tensors, _ = _loaded(dataset, path)
    return {name: tensor.to(device) for name, tensor in tensors.items()}


@cache
def _loaded(dataset: Dataset, path: Path) -> tuple[dict[str, Tensor], str]:
    """Verified arrays and digest; what is missing or damaged is prepared first. Reading
    takes no lock, so a whole file may lie on a read-only disk."""
    prepared = read_arrays(path)
    if prepared is not None:
        return prepared
    with lock(path.with_suffix(".lock"), wait=True):
        # Another process may have prepared it meanwhile.
        prepared = read_arrays(path)
        if prepared is not None:
            return prepared
        if path.exists():
            set_aside(path, "its digest does not fit", "is prepared again")
        arrays = {
            name: np.ascontiguousarray(array) for name, array in dataset.build().items()
        }
        digest = write_arrays(path, arrays)
    return {name: torch.tensor(array) for name, array in arrays.items()}, digest


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write a safetensors file of contiguous arrays with their digest, which is
    returned."""
    digest = arrays_digest(arrays)
    # One metadata entry only: safetensors would not fix the order of several in the file.
    write_atomic(path, save(dict(arrays), metadata={"digest": digest}))
    return digest


def read_arrays(path: Path) -> tuple[dict[str, Tensor], str] | None:
    """What `write_arrays` wrote, and the digest; None if it is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            stated = (file.metadata() or {}).get("digest")
    except (SafetensorError, FileNotFoundError):
        return None
    digest = arrays_digest({name: tensor.numpy() for name, tensor in tensors.items()})
    return (tensors, digest) if digest == stated else None


def read_manifest() -> dict[str, Any]:
    """The committed manifest: key of a data set -> source, licence, examples, digest,
    floors."""
    path = project().data / "manifest.json"
    return read_json(path) if path.exists() else {}


def data_note(dataset: Dataset | None, digest: str) -> str | None:
    """A record's note if `digest` is not that of the data in the manifest; None if it is,
    or if the data are generated while training."""
    if dataset is None:
        return None
    # A reader's own data state their digest themselves.
    entry = read_manifest().get(dataset.key, dataset.source)
    expected = entry.get("digest")
    if expected == digest:
        return None
    if expected is None:
        return f"data set {dataset.key} (digest {digest[:12]}) is not in data/manifest.json"
    return (
        f"data set {dataset.key} has digest {digest[:12]}, not {expected[:12]} as in "
        "data/manifest.json"
    )
