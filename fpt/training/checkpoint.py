"""Checkpoints: tensors and a history of JSON values in one file of arrays with their digest.

They need no generator state, since every random draw is keyed by run and step (`fpt.tasks.rng`).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..files import set_aside
from ..tasks.datasets import read_arrays, write_arrays


@dataclass
class Progress:
    """The state of one run beside its tensors; plain JSON values, so a checkpoint can hold it."""

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
    """Write tensors and history to `path`, whole or not at all."""
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    text = json.dumps(history).encode()
    write_arrays(path, {**arrays, "history": np.frombuffer(text, np.uint8)})


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and history; None if there is no checkpoint, or a damaged one (moved aside)."""
    stored = read_arrays(path)
    if stored is None:
        if path.exists():
            set_aside(path, "its digest does not fit", "its pack starts again")
        return None
    tensors, _ = stored
    return tensors, json.loads(tensors.pop("history").numpy().tobytes())
