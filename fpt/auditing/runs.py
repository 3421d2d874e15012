"""The runs of an audit: a pack is trained, tested example by example, and written to its
folder.

Each run is one JSON file that its key names, as the records of the pipeline are. So an
audit that was stopped goes on, and the same audit again only reads.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ..backbones import Backbone
from ..errors import FptError
from ..files import read_json, set_aside, write_json
from ..isolation import usual_settings
from ..records.content import check_digest, digest
from ..spec import RunSpec
from ..tasks import Task
from ..training import device as devices
from ..training import sweep
from ..training.evaluation import scores
from ..training.loop import Loop
from ..training.model import Model
from ..training.train import memory_for

SMALLER = "a smaller batch or fewer workers"  # where the memory is too small
# Of a run that diverged before its first evaluation.
NOT_EVALUATED = {"valid_accuracy": 0.0, "valid_loss": 0.0}


@dataclass(frozen=True)
class Machine:
    """Where an audit trains: a device, a precision, and how many packs side by side."""

    device: str
    precision: str
    workers: int

    @property
    def arithmetic(self) -> str:
        """What it computes in: the same precision may be another on another device."""
        return devices.arithmetic(devices.choose(self.device).type, self.precision)


def machine_for(device: str, workers: int | None, wide: bool) -> Machine:
    """One pack at a time on a GPU, else one for each core. Wide backbones compute in bf16
    on a processor that has instructions for it, where that is faster."""
    on_gpu = devices.choose(device).type == "cuda"
    has_bf16 = devices.bf16_instructions() != "none"
    precision = "bf16" if wide and has_bf16 and not on_gpu else devices.AUTO
    return Machine(device, precision, workers or (1 if on_gpu else sweep.cores()))


@dataclass(frozen=True)
class Pack:
    """Runs that are trained together: one fold, one arm, one body; they differ in seed and
    rate. Those that are not reported never read the test examples."""

    fold: int
    task: Task
    arm: str
    architecture: Backbone
    specs: tuple[RunSpec, ...]
    is_reported: bool

    @property
    def run_steps(self) -> int:
        return sum(spec.steps for spec in self.specs)

    def parts(self) -> list["Pack"]:
        """Its runs in packs that are no larger than those of a sweep."""
        tokens = self.specs[0].batch * self.task.length
        most = max(1, sweep.MAX_TOKENS_PER_STEP // tokens)
        starts = range(0, len(self.specs), most)
        return [replace(self, specs=self.specs[start : start + most]) for start in starts]


def train_pack(
    pack: Pack, machine: Machine, deadline: float
) -> list[dict[str, Any]] | None:
    """The contents of the runs' files: the score of each test example (1 for right, or 1
    minus the squared error), the best validation score with its loss and step, and whether
    training diverged. None if the pack is not done by `deadline`, a time of
    `time.monotonic()`."""
    # Building its model may take seconds.
    if time.monotonic() > deadline:
        return None
    with usual_settings(gradients=True), memory_for(pack.specs, SMALLER):
        loop = Loop(
            pack.specs,
            pack.task,
            devices.choose(machine.device),
            quiet=True,
            architecture=pack.architecture,
            precision=machine.precision,
            metrics=correct_answers if pack.is_reported else None,
        )
        # A pack that is late would bring the audit over its time; what was done is lost.
        if not loop.run(deadline):
            return None
    contents = []
    for progress in loop.progress:
        by_step = {point["step"]: point for point in progress.curve}
        best = by_step.get(progress.best_step, NOT_EVALUATED)
        contents.append(
            {
                "correct": progress.metrics.get("correct", []),
                "valid_score": best["valid_accuracy"],
                "valid_loss": best["valid_loss"],
                "best_step": progress.best_step,
                "curve": progress.curve,
                "diverged": progress.status == "diverged",
            }
        )
    return contents


def correct_answers(model: Model, spec: RunSpec) -> list[dict[str, Any]]:
    """How right each run of `model` is on each test example. A run whose answers are no
    numbers is wrong."""
    parts = [batch["accuracy"][..., 0].float().cpu() for batch in scores(model, "test")]
    correct = torch.cat(parts, 1).nan_to_num(nan=0.0)
    return [{"correct": of_run.tolist()} for of_run in correct]


class Results:
    """The results of an audit in a folder, one file for each run, with its digest. Each has
    the seconds since the one before, so that an audit that goes on, or is read again, knows
    how long its runs took. A damaged file is moved aside and counts as missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last = time.monotonic()
        self._contents: dict[str, dict[str, Any]] = {}

    def __contains__(self, key: str) -> bool:
        path = self._path(key)
        if key not in self._contents and path.exists():
            try:
                content = read_json(path)
                check_digest(content)
            except (FptError, ValueError) as error:
                set_aside(path, error, "is made again")
            else:
                self._contents[key] = content
        return key in self._contents

    def read(self, key: str) -> dict[str, Any]:
        """The content of a result that is there."""
        return self._contents[key]

    def write(self, key: str, content: Mapping[str, Any]) -> None:
        now = time.monotonic()
        timed = {**content, "seconds": now - self._last}
        self._contents[key] = timed | {"digest": digest(timed)}
        write_json(self._path(key), self._contents[key])
        self._last = now

    def minutes(self) -> float:
        """The time that all results took together, by the clock."""
        keys = [path.stem for path in self.folder.glob("*.json") if path.stem in self]
        return math.fsum(self.read(key)["seconds"] for key in keys) / 60

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def best_rates(results: Results, packs: Sequence[Pack], count: int) -> list[float]:
    """The best `count` rates of packs whose runs differ in rate, the best first: by the
    mean best validation score, then the least loss there."""
    runs = pd.DataFrame(
        {"lr": spec.lr, **results.read(spec.key)} for pack in packs for spec in pack.specs
    )
    # A rate that diverges once comes last, however good its other runs are.
    measures = {"diverged": "any", "valid_score": "mean", "valid_loss": "mean"}
    rates = runs.groupby("lr", sort=False).agg(measures)
    order = rates.sort_values([*measures], ascending=[True, False, True])
    return [float(rate) for rate in order.index[:count]]
