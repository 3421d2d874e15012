"""Backbones small enough to train in a test, and specs of runs on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from fpt.backbones import BACKBONES, Backbone
from fpt.backbones.gpt2 import gpt2_config
from fpt.records import Record
from fpt.sections.arms import FROZEN
from fpt.spec import RunSpec, canonical
from fpt.tasks import Task, get_task
from fpt.training.loop import Loop
from fpt.training.model import Model, assemble
from fpt.training.packing import PackedParameters

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

TINY = (
    Backbone("tiny", "gpt2", 2, 16, 2, 64, 50),
    Backbone("lstm-tiny", "lstm", 2, 16),
    Backbone("lstm-released-tiny", "lstm-released", 2, 16),
)
WEIGHTS = "tiny-weights"
CPU = torch.device("cpu")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FULL = ("attention", "feedforward", *FROZEN)


def register() -> None:
    """Make the backbones known by name; tests do it through the fixture `tiny`."""
    BACKBONES.update({architecture.name: architecture for architecture in TINY})  # type: ignore[attr-defined]


def measured_of(record: Record) -> dict[str, object]:
    """The part of a record that two trainings of one spec in one packing share to the bit."""
    return {name: getattr(record, name) for name in ("status", "metrics", "curve")}


def columns_of(rows: PackedParameters) -> dict[str, slice]:
    """The columns of every parameter, by its name."""
    return {part.name: columns for part, columns in rows.parts()}


def spec(task: str = "bit-xor", options: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    """A run of the frozen random arm, by default on bit-xor with strings of two bits."""
    if task == "bit-xor" and options is None:
        options = {"n": 2}
    values: dict[str, Any] = {
        "data": canonical(get_task(task, **options or {}).identity),
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


def assembled(
    *runs: RunSpec, architecture: Backbone | None = None
) -> tuple[Model, PackedParameters, PackedParameters]:
    return assemble(runs, task_of(runs[0]), CPU, architecture)


def loop_of(*runs: RunSpec, **options: Any) -> Loop:
    return Loop(runs, task_of(runs[0]), CPU, quiet=True, **options)


def random_values(model: nn.Module) -> None:
    """Far from the initial ones, so that every parameter matters; they fit in bfloat16."""
    draw = torch.Generator().manual_seed(0)
    gains = {
        id(module.get_parameter("weight"))
        for module in model.modules()
        if type(module).__name__ in ("LayerNorm", "T5LayerNorm")
    }
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw) * 0.3
            parameter.copy_((noise + float(id(parameter) in gains)).bfloat16())


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
