"""Backbones small enough to train in a test, and specs of runs on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from fpt.backbones import BACKBONES, Backbone
from fpt.backbones.gpt2 import gpt2_config
from fpt.records import Record
from fpt.sections.arms import FROZEN
from fpt.spec import RunSpec, canonical
from fpt.tasks import Task, get_task
from fpt.training.loop import Loop
from fpt.training.packing import PackedParameters

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

TINY = (
    Backbone("tiny", "gpt2", 2, 16, 2, 64, 50),
    Backbone("lstm-tiny", "lstm", 2, 16),
    Backbone("lstm-released-tiny", "lstm-released", 2, 16),
)
WEIGHTS = "tiny-weights"


def register() -> None:
    """Make the backbones known by name; tests do it through the fixture `tiny`."""
    BACKBONES.update({each.name: each for each in TINY})  # type: ignore[attr-defined]


def measured_of(record: Record) -> dict[str, object]:
    """The part of a record that two trainings of one spec in one packing share to the bit."""
    return {name: getattr(record, name) for name in ("status", "metrics", "curve")}


def columns_of(rows: PackedParameters) -> dict[str, slice]:
    """The columns of every parameter, by its name."""
    return {part.name: columns for part, columns in rows.parts()}


def spec(task: str = "bit-xor", options: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """A run of the frozen random arm on bit-xor with strings of two bits, changed as said."""
    given = {"n": 2} if task == "bit-xor" and options is None else options or {}
    values: dict[str, Any] = {
        "data": canonical(get_task(task, **given).identity),
        "backbone": "tiny",
        "init": "random",
        "weights": None,
        "trainable": FROZEN,
        "lr": 0.01,
        "batch": 8,
        "steps": 12,
        "eval_every": 3,
        "seed": 0,
        "augment": False,
    }
    return RunSpec(**{**values, **changes})


def task_of(run: RunSpec) -> Task:
    return get_task(run.task, **run.options)


def pretrained(**changes: Any) -> RunSpec:
    return spec(**{"init": "pretrained", "weights": WEIGHTS, **changes})


def save_weights(folder: Path) -> "GPT2LMHeadModel":
    """A GPT-2 with its head, as transformers stores one, in `folder`/WEIGHTS. Its values are far
    from the initial ones, so that every parameter matters; they fit in bfloat16."""
    from transformers import GPT2LMHeadModel  # processes that save none start at once

    model = GPT2LMHeadModel(gpt2_config(TINY[0], TINY[0].vocabulary))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw) * 0.3
            parameter.copy_((noise + float(".ln_" in name and "weight" in name)).bfloat16())
    model.save_pretrained(folder / WEIGHTS)
    return model.eval()


def clock_of_steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Lets the loop's time be the steps made since, the one number of the list returned."""
    clock, begin = [0.0], Loop.train_step

    def step(self: Loop) -> None:
        clock[0] += 1
        begin(self)

    monkeypatch.setattr(Loop, "train_step", step)
    monkeypatch.setattr("fpt.training.loop.time.monotonic", lambda: clock[0])
    return clock
