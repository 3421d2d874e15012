"""Checkpoints of a pack: tensors and history in one safetensors file, written atomically.

There is no generator state in them: every random draw is keyed by run and step (`fpt.rng`).
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

from .files import set_aside, write_atomic


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
        with safe_open(path, "pt") as file:
            return list(map(str, json.loads((file.metadata() or {})["history"])["keys"]))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):
        return []


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and history; None where there is no checkpoint, or a damaged one (set aside)."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if _digest(tensors, metadata.get("history", "")) != metadata.get("digest"):
            raise ValueError("its digest does not fit its content")
        history = json.loads(metadata["history"])
        if not isinstance(history, dict):
            raise ValueError("its history is no history")
        return tensors, history
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        aside = set_aside(path)
        warnings.warn(
            f"The checkpoint {path.name} is damaged ({error}); it was moved to {aside.name} "
            "and its pack starts again.",
            stacklevel=2,
        )
        return None
