"""A body trained whole on one of the tasks, then stripped of its nets: bit-memory and images.

The paper's section 3.2 asks whether language is special as the thing a body was pretrained on; its
other sources are the Bit Memory task and images (Table 2). Training is the one loop of all runs,
with every group trained from a random start; what is kept is the body and its positions, as they
were at the best look at the validation set. Tokens are given at positions 0 to length - 1, as in
the paper; later rows of the table stay as they were drawn, and pretraining.json says so.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ..backbones import backbone, build
from ..backbones.initialisations import body_state
from ..backbones.weights import State, file_digest
from ..files import FptError, write_json
from ..spec import RunSpec, canonical
from ..tasks import Task, get_task
from ..training import device as devices
from ..training.loop import Loop
from .body import body_config, describe, finished, write_body
from .streams import amount

LOOKS = 10  # at the validation set
# What differs from the plan's own settings, for the weights that ship with the package: as much as
# one CPU thread does in tens of minutes.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bit-memory": {"tokens": 1_920_000},
    "shapes": {"tokens": 20_000_000, "batch": 32},
    "cifar10": {"tokens": 3_000_000, "batch": 32},
    "mnist": {"tokens": 3_000_000, "batch": 32},
}


@dataclass(frozen=True)
class TaskPretraining:
    """What is estimated when a body is pretrained on a task; all of it is written beside the
    weights."""

    task: str
    backbone: str
    tokens: int
    seed: int = 0
    batch: int = 16  # sequences per step
    lr: float = 1e-3  # Adam, constant
    dropout: float = 0.0

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.batch * get_task(self.task).length))

    @property
    def name(self) -> str:
        """The identity of the resulting weights; it says the tokens where they are not the usual
        ones."""
        usual = SETTINGS.get(self.task, {}).get("tokens")
        cut = "" if self.tokens == usual else f"@{amount(self.tokens)}"
        return f"{self.backbone}-{self.task}{cut}-{self.seed}"


def spec_of(plan: TaskPretraining, task: Task) -> RunSpec:
    """The run that trains all groups of the plan's body on `task`."""
    return RunSpec(
        data=canonical(task.identity),
        backbone=plan.backbone,
        init="random",
        weights=None,
        trainable=tuple(sorted(backbone(plan.backbone).groups)),
        lr=plan.lr,
        batch=plan.batch,
        steps=plan.steps,
        eval_every=max(1, plan.steps // LOOKS),
        seed=plan.seed,
        dropout=plan.dropout,
        augment=task.augmented,
    )


class KeepingLoop(Loop):
    """A loop of one run that hands over the parameters that it tested."""

    def finish_runs(self) -> None:
        self.kept = self.best.clone()  # a run that leaves takes its parameters along
        super().finish_runs()

    def save(self) -> None:
        """Unless the run has ended: a checkpoint without its parameters could not be exported."""
        if self.alive:
            super().save()

    def body(self) -> State:
        """The trained body by its own names, and the rows of `positions` that were used."""
        columns = self.rows.columns()
        return {
            slot.name.removeprefix("backbone."): self.kept[0, columns[slot.name]].view(slot.shape)
            for slot in self.rows.slices
            if slot.group not in ("input", "output")
        }


def whole_table(plan: TaskPretraining, seen: Tensor) -> Tensor:
    """The trained rows `seen` of the positions, before those that the random start has there."""
    spec = backbone(plan.backbone)
    start = body_state(spec, build(spec), "random", None, plan.seed)
    return torch.cat([seen.cpu(), start["positions"][len(seen) :]])


def pretrain(plan: TaskPretraining, out: Path, *, budget: float = math.inf) -> bool:
    """Train `plan` into the directory `out`; True when finished, False when `budget` s ran out.

    Writes config.json, model.safetensors (bf16) and pretraining.json (plan, curve, scores, cost,
    data digest). An unfinished run leaves `out/checkpoint.safetensors` and goes on there; a
    finished one is not made again.
    """
    task, spec = get_task(plan.task), backbone(plan.backbone)
    if finished(out, plan=asdict(plan), data_digest=task.digest()):
        describe(out, body_config(spec))  # a lost config.json costs no training
        return True
    device = devices.choose()
    path = out / "checkpoint.safetensors"
    loop = KeepingLoop([spec_of(plan, task)], task, device, path)
    with tqdm(total=plan.steps, desc=plan.name, disable=None) as bar:
        if not loop.run(time.monotonic() + budget, bar):
            return False
    progress = loop.progress[0]
    if progress.status == "diverged":
        raise FptError(
            f"The pretraining {plan.name!r} diverged by step {loop.step} with learning rate "
            f"{plan.lr}, so no weights were written; use a lower one."
        )
    state = loop.body()
    if spec.positions:
        state["positions"] = whole_table(plan, state["positions"])
    write_body(out, spec, state)
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "tokens": loop.step * plan.batch * task.length,
        **progress.metrics,
        "floors": task.floors(),
        "data": task.identity,
        "data_digest": task.digest(),
        "weights_digest": file_digest(out / "model.safetensors"),
        "positions_seen": task.length if spec.positions else 0,
        "seconds": progress.seconds,
        **devices.environment(device),
        "curve": progress.curve,
    }
    write_json(out / "pretraining.json", record)
    path.unlink(missing_ok=True)
    return True
