"""Pretrain a backbone on one of the tasks: bit-memory and images.

The paper's section 3.2 asks whether language is special as pretraining; its other sources
are the Bit Memory task and images (Table 2). The loop is that of all runs, with every group
trained from a random initialisation; the backbone and its positions are kept as they were
at the best validation, the input and output nets are dropped. Tokens are given at positions
0 to length - 1, as in the paper; later positions keep their initial values.
"""

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import backbone, build
from ..backbones.initialisations import initial_state
from ..errors import FptError
from ..spec import RunSpec, canonical
from ..tasks import Task, get_task
from ..training import device as devices
from ..training.loop import Loop
from .language_model import config_of
from .metadata import CHECKPOINT, finished, write
from .plans import TaskPretraining

# Measurements on validation during training.
EVALUATIONS = 10


def spec_of(plan: TaskPretraining, task: Task) -> RunSpec:
    """The run that trains all groups of the plan's backbone on `task`."""
    return RunSpec(
        data=canonical(task.identity),
        backbone=plan.backbone,
        init="random",
        weights=None,
        trainable=tuple(sorted(backbone(plan.backbone).groups)),
        lr=plan.lr,
        batch=plan.batch,
        steps=plan.steps,
        eval_every=max(1, plan.steps // EVALUATIONS),
        seed=plan.seed,
        dropout=plan.dropout,
        augment=task.augmented,
    )


def pretrain(plan: TaskPretraining, out: Path, *, budget: float = math.inf) -> bool:
    """Train `plan` into the folder `out` as `fpt.pretraining.ensure.pretrain` does.
    FptError if the run diverges.

    Writes config.json, model.safetensors (bf16) and pretraining.json (plan, curve, scores,
    cost, data digest).
    """
    task = get_task(plan.task)
    if finished(out, plan=asdict(plan), data_digest=task.digest()):
        return True
    device = devices.choose()
    devices.keep_memory()
    loop = Loop(
        [spec_of(plan, task)],
        task,
        device,
        out / CHECKPOINT,
        [plan.name],
    )
    if not loop.run(time.monotonic() + budget):
        return False
    progress = loop.progress[0]
    if progress.status == "diverged":
        raise FptError(
            f"The pretraining {plan.name!r} diverged by step {loop.step} with learning "
            f"rate {plan.lr}, so no weights were written; use a lower one."
        )
    architecture = backbone(plan.backbone)
    metadata: dict[str, Any] = {
        "plan": asdict(plan),
        "tokens": loop.step * plan.batch * task.length,
        **progress.metrics,
        "floors": task.floors(),
        "data": task.identity,
        "data_digest": task.digest(),
        "seconds": progress.seconds,
        **devices.environment(device),
        "curve": progress.curve,
    }
    write(out, config_of(architecture), trained_state(loop, plan), metadata)
    return True


def trained_state(loop: Loop, plan: TaskPretraining) -> dict[str, Tensor]:
    """The tensors of the backbone and its positions at the best validation, by the names
    under which they are stored."""
    architecture = backbone(plan.backbone)
    state = {
        part.name.removeprefix("backbone."): loop.selected[0][columns].view(part.shape)
        for part, columns in loop.rows.parts()
        if part.group not in ("input", "output")
    }
    if architecture.positions:
        # No token of the task stood at later positions.
        start = initial_state(architecture, build(architecture), "random", None, plan.seed)
        later = start["positions"][loop.task.length :]
        state["positions"] = torch.cat([state["positions"], later])
    if architecture.family != "gpt2":
        return state
    # By the names of transformers; its token embeddings are not trained.
    stored = {
        "wpe.weight": state.pop("positions"),
        "wte.weight": torch.zeros(1, architecture.width),
    }
    return stored | {name.removeprefix("gpt2."): tensor for name, tensor in state.items()}
