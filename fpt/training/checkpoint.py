"""Checkpoints of a pack: tensors and history in one safetensors file, written atomically.

They need no generator state, since every random draw is keyed by run and step (`fpt.tasks.rng`).
"""

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..files import set_aside, write_atomic


@dataclass
class Progress:
    """What one run has shown so far; plain JSON values, so a checkpoint can hold it."""

    curve: list[dict[str, float]] = field(default_factory=list)
    best_accuracy: float = -math.inf
    best_step: int = 0
    waited: int = 0  # evaluations since the best one
    seconds: float = 0.0  # its share of the pack's wall time
    process_seconds: float = 0.0  # its share of the processor time of the pack's process
    status: str = "running"
    metrics: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # beside seconds


def write(path: Path, tensors: Mapping[str, Tensor], history: Mapping[str, Any]) -> None:
    text = json.dumps(history)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomic(path, save(plain, {"history": text, "digest": _digest(plain, text)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and history; None if there is no checkpoint, or a damaged one (moved aside)."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if _digest(tensors, metadata.get("history", "")) != metadata.get("digest"):
            raise ValueError("its digest does not fit its content")
        return tensors, json.loads(metadata["history"])
    except (SafetensorError, OSError, ValueError) as error:
        aside = set_aside(path)
        warnings.warn(
            f"The checkpoint {path.name} is damaged ({error}); it was moved to {aside.name} and "
            "its pack starts again.",
            stacklevel=2,
        )
        return None


def _digest(tensors: Mapping[str, Tensor], history: str) -> str:
    total = hashlib.sha256(history.encode())
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
