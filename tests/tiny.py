"""Backbones small enough to train in a test, and specs of runs on them."""

from dataclasses import replace

import torch

from fpt.backbones import BACKBONES, Backbone
from fpt.backbones.gpt2 import gpt2_config
from fpt.spec import FOUR_GROUPS, RunSpec, canonical
from fpt.tasks import get_task
from fpt.training import sweep
from fpt.training.loop import Loop
from fpt.training.model import assemble

TINY = (
    Backbone("tiny", "gpt2", 2, 16, 2, 64, 50),
    Backbone("lstm-tiny", "lstm", 2, 16),
    Backbone("lstm-released-tiny", "lstm-released", 2, 16),
)
WEIGHTS = "tiny-weights"
CPU = torch.device("cpu")
FULL = ("attention", "feedforward", *FOUR_GROUPS)


def close(tensor, expected, rtol=1e-5, atol=1e-5):
    """Check that two tensors are equal but for rounding."""
    torch.testing.assert_close(tensor, expected, rtol=rtol, atol=atol)


def one_of(family, layers=2, width=16, **form):
    """A small backbone of a family."""
    form = {"longformer": {"window": 8}, "linformer": {"rank": 3}}.get(family, {}) | form
    has_heads = not family.startswith("lstm") and not family.endswith("-token")
    positions = 64 if has_heads and family != "t5-encoder" else 0
    name = "-".join([family, *form, "tiny"])
    return Backbone(name, family, layers, width, 2 * has_heads, positions, **form)


def register():
    """Make the backbones known by name; tests do it through the fixture `tiny`."""
    BACKBONES.update({architecture.name: architecture for architecture in TINY})


def measured_of(record):
    """The part of a record that two trainings of one spec in one packing share to the bit."""
    return {name: getattr(record, name) for name in ("status", "metrics", "curve")}


def columns_of(rows):
    """The columns of every parameter, by its name."""
    return {part.name: columns for part, columns in rows.parts()}


def spec(task="bit-xor", options=None, **changes):
    """A run of the frozen random arm, by default on bit-xor with strings of two bits."""
    if task == "bit-xor" and options is None:
        options = {"n": 2}
    values = {
        "data": canonical(get_task(task, **options or {}).identity),
        "backbone": "tiny",
        "init": "random",
        "weights": None,
        "trainable": FOUR_GROUPS,
        "lr": 0.01,
        "batch": 8,
        "steps": 12,
        "eval_every": 3,
        "seed": 0,
        "augment": False,
    }
    return RunSpec(**{**values, **changes})


def task_of(run):
    return get_task(run.task, **run.options)


def assembled(*runs, architecture=None):
    return assemble(runs, task_of(runs[0]), CPU, architecture)


def loop_of(*runs, **options):
    return Loop(runs, task_of(runs[0]), CPU, quiet=True, **options)


def swept(specs, store, **options):
    """Number of new records of a sweep, by default in this process."""
    return sweep.run(specs, store, device="cpu", **{"workers": 1, **options})


def gradients(*specs, masked=False):
    """Losses (K,) and gradients, by run and parameter, of one training step in double precision,
    dropout on; if `masked`, of padded sequences that are read at their last token."""
    task = task_of(specs[0])
    model, rows, frozen = assembled(*specs)
    model.double().train()
    for part in (rows, frozen):
        part.bind(part.values.double())
    batch = task.train_batch([run.seed for run in specs], 5, 8, "cpu")
    batch = replace(batch, inputs=batch.inputs.double())
    if masked:
        last = torch.tensor([15, 0, 3, 14, 7, 9, 15, 2]).expand(len(specs), -1)
        mask = torch.arange(16) <= last[..., None]
        batch = replace(batch, last=last, mask=mask, targets=batch.targets[..., :1])
    loss = task.losses(model(batch, step=5), batch.targets).flatten(1).mean(1)
    rows.differentiate(loss.sum())
    columns = columns_of(rows).items()
    return loss.detach(), [{name: row[where] for name, where in columns} for row in rows.grads]


def random_values(model, seed=0):
    """Far from the initial ones, so that every parameter matters; they fit in bfloat16."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            gain = float("Norm" in type(module).__name__)
            for name, parameter in module.named_parameters(recurse=False):
                noise = torch.randn(parameter.shape, generator=draw) * 0.3
                parameter.copy_((noise + gain * (name == "weight")).bfloat16())


def pretrained(**changes):
    return spec(**{"init": "pretrained", "weights": WEIGHTS, **changes})


def save_weights(folder):
    """A GPT-2 with its head, as transformers stores one, in `folder`/WEIGHTS."""
    from transformers import GPT2LMHeadModel  # processes that save none start at once

    model = GPT2LMHeadModel(gpt2_config(TINY[0], TINY[0].vocabulary))
    random_values(model)
    model.save_pretrained(folder / WEIGHTS)


def clock_of_steps(monkeypatch):
    """Lets the loop's time be the steps made since, the one number of the list returned."""
    clock, begin = [0.0], Loop.train_step

    def step(self):
        clock[0] += 1
        begin(self)

    monkeypatch.setattr(Loop, "train_step", step)
    monkeypatch.setattr("fpt.training.loop.time.monotonic", lambda: clock[0])
    return clock
