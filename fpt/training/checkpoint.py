"""Checkpoints of a pack: tensors and history in one safetensors file, written atomically.

There is no generator state in them: every random draw is keyed by run and step (`fpt.tasks.rng`).
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..files import set_aside, write_atomic

# What reading something else in place of a checkpoint raises.
UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError)


def _opened(path: Path) -> Any:
    if not path.is_file():
        raise ValueError("it is no file")  # a pipe would be waited for
    return safe_open(path, "pt")


def _digest(tensors: Mapping[str, Tensor], history: str) -> str:
    total = hashlib.sha256(history.encode())
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def write(path: Path, tensors: Mapping[str, Tensor], history: Mapping[str, Any]) -> None:
    text = json.dumps(history)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"history": text, "digest": _digest(plain, text)}
    write_atomic(path, save(plain, metadata))


def members(path: Path) -> list[str]:
    """Keys of the runs of the pack that is stored in `path`; [] where it cannot be read."""
    try:
        with _opened(path) as file:
            return list(map(str, json.loads((file.metadata() or {})["history"])["keys"]))
    except UNREADABLE:
        return []


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and history; None where there is no checkpoint, or a damaged one (set aside)."""
    if not path.exists():
        return None
    try:
        with _opened(path) as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if _digest(tensors, metadata.get("history", "")) != metadata.get("digest"):
            raise ValueError("its digest does not fit its content")
        history = json.loads(metadata["history"])
        if not isinstance(history, dict):
            raise ValueError("its history is no history")
        return tensors, history
    except UNREADABLE as error:
        discard(path, error)
        return None


def discard(path: Path, why: Exception) -> None:
    """Move a damaged checkpoint aside, and say so."""
    aside = set_aside(path)
    warnings.warn(
        f"The checkpoint {path.name} is damaged ({why}); it was moved to {aside.name} and its pack "
        "starts again.",
        stacklevel=2,
    )


def check_tensors(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """ValueError where `tensors` lack one of `like`, or have it of another type or shape."""
    for name, wanted in like.items():
        if name not in tensors:
            raise ValueError(f"it has no {name!r}")
        found = tensors[name]
        if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
            raise ValueError(
                f"its {name!r} is {found.dtype} of {tuple(found.shape)}, not {wanted.dtype} of "
                f"{tuple(wanted.shape)}"
            )
