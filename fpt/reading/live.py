"""A live run, in seconds: the weights of a model, and an arm that learns while you watch.

Nothing here is stored. The last digits of a live run depend on the processor, so none of
them stands in a table.
"""

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from ..backbones import backbone, build
from ..backbones.initialisations import INITS, initial_state
from ..backbones.weights import OWN_WEIGHTS
from ..errors import FptError
from ..names import arm as arm_named
from ..spec import RunSpec, canonical
from ..tasks import get_task
from ..training.device import threads
from ..training.loop import Loop

# Of arms that need another rate than frozen ones.
RATES = {"fully trained": 0.001, "LSTM": 0.001, "LSTM of the released code": 0.001}
FROZEN_RATE = 0.003


def load(model: str = "nano", weights: str | None = None) -> dict[str, Tensor]:
    """The pretrained weights of a model by name, in float32, its table of positions as
    `positions`; `weights` names others than its own. FptError if they are not here."""
    architecture = backbone(model)
    weights = weights or OWN_WEIGHTS.get(model, model)
    return initial_state(architecture, build(architecture), "pretrained", weights, 0)


def learn(
    task: str = "bit-xor",
    model: str = "nano",
    arm: str = "language",
    steps: int = 300,
    seed: int = 0,
    rate: float | None = None,
    std: float | None = None,
    weights: str | None = None,
    **options: Any,
) -> pd.DataFrame:
    """The learning curve of one run, trained now: a row for each evaluation, with `step`,
    `accuracy` on validation in percent, `loss` in nats, and the names of task, model and
    arm.

    `arm` is a name of fpt/arms.yaml, `std` the standard deviation of a frozen N(0, std),
    `weights` names other weights than the model's own, such as nano-bit-memory-0, and
    `options` are those of the task, such as n of bit-xor. FptError for a name that is not
    known, or weights that are not here.
    """
    row = arm_named(arm)
    init = row.init
    if row.procedure != "sgd":
        raise FptError(f"{arm!r} is fitted without steps, so there is no curve to watch.")
    if std is not None and (init != "random" or row.trainable == "all"):
        raise FptError(f"`std` is of N(0, std), and {arm!r} draws no such weights.")
    architecture = backbone(f"{row.backbone}-{model}" if row.backbone else model)
    weights = weights or OWN_WEIGHTS.get(model, model)
    data = get_task(task, **(options or ({"n": 5} if task == "bit-xor" else {})))
    spec = RunSpec(
        data=canonical(data.identity),
        backbone=architecture.name,
        init=init,
        weights=weights if INITS[init].reads_weights else None,
        trainable=row.groups(architecture),
        lr=rate or RATES.get(arm, FROZEN_RATE),
        batch=16,
        steps=steps,
        eval_every=max(1, steps // 30),
        seed=seed,
        eval_items=min(256, data.sizes["valid"]),
        augment=False,
        order=row.order,
    )
    loop = Loop([spec], data, torch.device("cpu"), quiet=True, metrics=None)
    if std is not None:
        scale_matrices(loop, std)
    with threads(1):  # small steps gain nothing from more, and lose much beside other work
        loop.run()
    curve = pd.DataFrame(loop.progress[0].curve)
    return pd.DataFrame(
        {
            "task": task,
            "model": model,
            "arm": arm if std is None else f"N(0, {std:g})",
            "step": curve["step"].astype(int),
            "accuracy": 100 * curve["valid_accuracy"],
            "loss": curve["valid_loss"],
        }
    )


@torch.no_grad()
def scale_matrices(loop: Loop, std: float) -> None:
    """Give the frozen matrices of a run, drawn from N(0, 0.02), another deviation."""
    for parameter in loop.model.backbone.parameters():
        if parameter.dim() > 1 and not parameter.requires_grad:
            parameter.mul_(std / 0.02)
