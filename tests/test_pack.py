"""Packs: K runs trained together are K runs trained alone, and Adam is PyTorch's."""

import pytest
import torch
from tiny import close, columns_of, loop_of, pretrained, spec
from torch import nn

pytestmark = pytest.mark.usefixtures("tiny")


def trace(loop, steps):
    """Losses and gradient norms (steps, K) of training steps, and the last values (K, P)."""
    points = []
    for _ in range(steps):
        loop.reset_sums()
        loop.train_step()
        points.append(loop.sums[:2].clone())
    curve = torch.stack(points)
    return curve[:, 0], curve[:, 1], loop.rows.values


def mixed(**common):
    """Runs that differ in all that pack mates may differ in."""
    return [
        pretrained(**{"seed": 0, "lr": 0.01} | common),
        pretrained(**{"seed": 1, "lr": 0.003, "clip": 0.05} | common),
        pretrained(**{"seed": 1, "lr": 0.03, "trainable": ("input", "output")} | common),
        pretrained(**{"seed": 2, "lr": 0.01, "trainable": ("layernorm", "positions")} | common),
    ]


def as_alone(specs, steps=4):
    """Losses, norms and values of a pack are those of its runs trained alone; its loop."""
    packed = loop_of(*specs)
    loss, norm, values = trace(packed, steps)
    columns = columns_of(packed.rows)
    for row, run in enumerate(specs):
        single = loop_of(run)
        alone_loss, alone_norm, alone_values = trace(single, steps)
        close(loss[:, row], alone_loss[:, 0], 2e-4, 1e-6)
        close(norm[:, row], alone_norm[:, 0], 1e-3, 1e-6)
        own = torch.cat([values[row, columns[name]] for name in columns_of(single.rows)])
        close(own, alone_values[0], 0, 3e-2 * run.lr)
    return packed


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    ("task", "options"),
    [("bit-xor", {"n": 3}), ("bit-memory", {"n": 8, "patterns": 2, "patch": 4})],
)
def test_packed_runs_are_single_runs(dropout, task, options):
    packed = as_alone(mixed(task=task, options=options, dropout=dropout), 6)
    assert packed.sums[2, 1] == 1  # the second run is clipped


@pytest.mark.parametrize("name", ["lstm-tiny", "lstm-released-tiny"])
def test_frozen_lstms_pack_too(name):
    common = {"backbone": name, "trainable": ("input", "layernorm", "output"), "seed": 3}
    as_alone([spec(lr=0.01, **common), spec(lr=0.03, **common)])


def test_sequences_of_different_lengths_pack(tiny):
    """Padding depends on the pack mates' sequences; what a run computes must not."""
    options = {"max_length": 40, "train": 60, "valid": 20, "test": 30}
    common = {"task": "listops", "options": options, "batch": 4, "dropout": 0.1}
    as_alone([pretrained(seed=seed, **common) for seed in range(3)])


def test_a_column_that_a_run_does_not_train_stays():
    specs = mixed()
    loop = loop_of(*specs)
    before = loop.rows.values.clone()
    trace(loop, 3)
    for row, run in enumerate(specs):
        for part, columns in loop.rows.parts():
            same = torch.equal(before[row, columns], loop.rows.values[row, columns])
            assert same is (part.group not in run.trainable), (row, part.name)


def same_curve(loop, index, run, *names):
    """The run's curve in a pack is that of the run alone."""
    alone = loop_of(run)
    alone.run()
    for packed, single in zip(loop.progress[index].curve, alone.progress[0].curve, strict=True):
        for name in names:
            assert packed[name] == pytest.approx(single[name], rel=1e-3)


@pytest.mark.parametrize(
    ("leaving", "status"), [({"patience": 1}, "done"), ({"lr": 1e30}, "diverged")]
)
def test_a_run_that_leaves_does_not_disturb_the_others(leaving, status):
    common = {"steps": 24, "eval_every": 3, "options": {"n": 3}}
    few = {"seed": 2, "lr": 0.003, "trainable": ("input", "output")}
    stays = [pretrained(**common), pretrained(**few, **common)]
    leaver = pretrained(seed=1, **common, **leaving)
    loop = loop_of(stays[0], leaver, stays[1])
    assert loop.run()
    assert loop.progress[1].metrics["steps"] < 24
    assert loop.progress[1].status == status
    for index, run in ((0, stays[0]), (2, stays[1])):
        assert loop.progress[index].metrics["steps"] == 24
        same_curve(loop, index, run, "train_loss", "valid_loss")


def test_a_run_that_stays_is_evaluated_in_its_own_order_of_tokens():
    """Each run has one of its own, and the first run leaves."""
    common = {"eval_every": 3, "options": {"n": 5}, "order": "shuffled"}
    stays = pretrained(seed=1, **common)
    loop = loop_of(pretrained(seed=0, lr=1e-9, patience=1, **common), stays)
    assert loop.run()
    assert [progress.metrics["steps"] for progress in loop.progress] == [6, 12]
    same_curve(loop, 1, stays, "valid_loss")


@pytest.mark.parametrize("clip", [1.0, 0.05])
def test_adam_and_clipping_are_pytorchs(clip):
    """A single run against torch.optim.Adam and clip_grad_norm_ on copies of its parameters."""
    run = pretrained(clip=clip, dropout=0.1)
    ours = loop_of(run)
    _, norms, values = trace(ours, 8)
    theirs = loop_of(run)
    parameters = [p for p in theirs.model.parameters() if p.requires_grad]
    assert len(parameters) == len(ours.rows.slices)
    optimiser = torch.optim.Adam(parameters, lr=run.lr)
    for step in range(8):
        optimiser.zero_grad(set_to_none=False)
        batch = theirs.task.train_batch([run.seed], step, run.batch, "cpu")
        logits = theirs.model.train()(batch, step=step)
        theirs.task.losses(logits, batch.targets).flatten(1).mean(1).sum().backward()
        norm = nn.utils.clip_grad_norm_(parameters, run.clip)
        assert norms[step, 0].item() == pytest.approx(norm.item(), rel=1e-4)
        optimiser.step()
    close(values, theirs.rows.values, 0, 1e-2 * run.lr)
