"""The progress of a training: the state of its runs, their metrics when they end, its
checkpoint, and its bar.

A checkpoint is one file of arrays with their digest. It needs no generator state, since
every random draw is keyed by run and step (`fpt.tasks.rng`).
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import current_process
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import numpy as np
from torch import Tensor
from tqdm import auto, std

from ..files import set_aside
from ..spec import RunSpec
from ..tasks.datasets import read_arrays, write_arrays
from .evaluation import evaluate
from .model import Model

EVALUATIONS_AFTER_THRESHOLD = 2
TRAIN_ITEMS = 1000  # training examples, without augmentation, that a run is scored on
Metrics = Callable[[Model, RunSpec], Sequence[dict[str, Any]]]  # of each run of a model
Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors by name, and the history


@dataclass
class Progress:
    """The state of one run beside its tensors; plain JSON values, so a checkpoint can hold
    it."""

    curve: list[dict[str, float]] = field(default_factory=list)
    best_accuracy: float = -math.inf
    best_step: int = 0
    waited: int = 0  # evaluations since the best one
    seconds: float = 0.0  # its share of the pack's wall time
    process_seconds: float = 0.0  # its share of the processor time of the pack's process
    tokens: int = 0  # that it was trained on, padding included
    status: str = "running"
    metrics: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # beside seconds
    start: dict[str, float] = field(default_factory=dict)  # see `fpt.training.evaluation`

    def ends(self, spec: RunSpec, step: int) -> bool:
        """Whether the run ends at this step."""
        if self.status == "diverged" or step >= spec.steps:
            return True
        if 0 < spec.patience <= self.waited:
            return True
        if not spec.threshold:
            return False
        accuracies = [point["valid_accuracy"] for point in self.curve]
        first = reached(accuracies, spec.threshold)
        return first is not None and len(accuracies) > first + EVALUATIONS_AFTER_THRESHOLD


def tested(model: Model, spec: RunSpec) -> list[dict[str, Any]]:
    """The metrics of a record, for the parameters that validation has chosen. The test set
    is read here and nowhere else, once a run."""
    metrics = [
        {f"test_{name}": value for name, value in scores.items()}
        for scores in evaluate(model, "test", spec.test_items)
    ]
    if model.task.sizes["train"]:
        # If it is endless, its examples are like those of the test.
        trained = evaluate(model, "train", TRAIN_ITEMS)
        for of_run, scores in zip(metrics, trained, strict=True):
            of_run["train_accuracy"] = scores["accuracy"]
            of_run["train_items"] = scores["items"]
    return metrics


def reached(accuracies: Sequence[float], threshold: float) -> int | None:
    """Index of the first of two consecutive evaluations at or above `threshold`, if any."""
    for index, pair in enumerate(pairwise(accuracies)):
        if min(pair) >= threshold:
            return index
    return None


# ------------------------------------------------------------------------------ checkpoints


def write_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], history: Mapping[str, Any]
) -> None:
    """Write tensors and history, JSON values, to `path`, whole or not at all."""
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    arrays = {name: tensor.numpy() for name, tensor in on_cpu.items()}
    text = json.dumps(history).encode()
    write_arrays(path, {**arrays, "history": np.frombuffer(text, np.uint8)})


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Tensors and history; None if there is no checkpoint, or a damaged one (moved
    aside)."""
    stored = read_arrays(path)
    if stored is None:
        if path.exists():
            set_aside(path, "its digest does not fit", "its pack starts again")
        return None
    tensors, _ = stored
    return tensors, json.loads(tensors.pop("history").numpy().tobytes())


# ------------------------------------------------------------------------------------- bars


def in_jupyter() -> bool:
    """Whether bars are widgets of a notebook, which only its own process can draw."""
    return auto.notebook_tqdm is not std.tqdm and "TQDM_DISABLE" not in os.environ


def progress_bar(total: int, title: str, quiet: bool = False, **options: Any) -> Any:
    """A tqdm bar in a terminal or in Jupyter, none in a log, if `quiet`, or if
    TQDM_DISABLE=1 is set. `options` are tqdm's."""
    if quiet or not in_jupyter():
        # None: shown in a terminal alone. A process may have no standard error.
        is_off = quiet or sys.stderr is None or "TQDM_DISABLE" in os.environ
        options["disable"] = is_off or None
    # A terminal that does not know its size has no lines for tqdm.
    return auto.tqdm(total=total, desc=title, nrows=get_terminal_size().lines, **options)


def log_line(text: str, quiet: bool = False) -> None:
    """A line on standard error where there is no terminal for a bar: in a log."""
    is_off = quiet or sys.stderr is None or "TQDM_DISABLE" in os.environ
    if not is_off and not in_jupyter() and not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def pack_bar(total: int, title: str, step: int, quiet: bool) -> Any:
    """The bar of a pack that goes on at `step`, below that of its sweep: one line per
    worker."""
    line = (current_process()._identity or (1,))[-1]
    return progress_bar(total, title, quiet, initial=step, position=line, leave=False)
