"""Packs: K runs trained together are K runs trained alone, and Adam is PyTorch's."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tiny import columns_of, pretrained, spec, task_of
from torch import Tensor, nn

from fpt.spec import RunSpec
from fpt.training.loop import Loop
from fpt.training.model import assemble

CPU = torch.device("cpu")
FROZEN = ("input", "layernorm", "output", "positions")
pytestmark = pytest.mark.usefixtures("tiny")


def loop_of(*specs: RunSpec) -> Loop:
    return Loop(specs, task_of(specs[0]), CPU)


def trace(loop: Loop, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Losses and gradient norms (steps, K) of training steps, and the last values (K, P)."""
    seen, before = [], torch.zeros(2, len(loop.alive))
    for _ in range(steps):
        loop.train_step()
        seen.append(loop.sums[:2] - before)
        before = loop.sums[:2].clone()
    found = torch.stack(seen)
    return found[:, 0], found[:, 1], loop.rows.values


def mixed(**common: object) -> list[RunSpec]:
    """Runs that differ in all that pack mates may differ in."""
    return [
        pretrained(**{"seed": 0, "lr": 0.01} | common),
        pretrained(**{"seed": 1, "lr": 0.003, "clip": 0.05} | common),
        pretrained(**{"seed": 1, "lr": 0.03, "trainable": ("input", "output")} | common),
        pretrained(**{"seed": 2, "lr": 0.01, "trainable": ("layernorm", "positions")} | common),
    ]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    ("task", "options"),
    [("bit-xor", {"n": 3}), ("bit-memory", {"n": 8, "patterns": 2, "patch": 4})],
)
def test_packed_runs_are_single_runs(dropout: float, task: str, options: dict[str, int]) -> None:
    specs = mixed(task=task, options=options, dropout=dropout)
    packed = loop_of(*specs)
    loss, norm, _ = trace(packed, 6)
    assert packed.sums[2, 1] == 6  # the second run is always clipped
    for row, one in enumerate(specs):
        single = loop_of(one)
        alone_loss, alone_norm, values = trace(single, 6)
        torch.testing.assert_close(loss[:, row], alone_loss[:, 0], rtol=2e-4, atol=1e-6)
        torch.testing.assert_close(norm[:, row], alone_norm[:, 0], rtol=1e-3, atol=1e-6)
        columns = columns_of(packed.rows)
        common = torch.cat([packed.rows.values[row, columns[it]] for it in columns_of(single.rows)])
        torch.testing.assert_close(common, values[0], rtol=0, atol=3e-2 * one.lr)


def test_packed_gradients_are_single_gradients() -> None:
    """In double precision, where they agree to rounding: nothing is approximated."""
    specs = mixed(dropout=0.1)

    def gradients(chosen: Sequence[RunSpec]) -> list[dict[str, Tensor]]:
        task = task_of(chosen[0])
        model, rows, fixed = assemble(chosen, task, CPU)
        model.double()
        for part in (rows, fixed):
            part.bind(part.values.double())
        batch = task.train_batch([run.seed for run in chosen], 5, 8, CPU)
        model.train()
        logits = model(replace(batch, inputs=batch.inputs.double()), step=5)
        rows.differentiate(task.losses(logits, batch.targets).flatten(1).mean(1).sum())
        assert rows.grads is not None
        columns = columns_of(rows).items()
        return [{name: row[place] for name, place in columns} for row in rows.grads]

    for run, packed in zip(specs, gradients(specs), strict=True):
        (alone,) = gradients([run])
        for name, gradient in alone.items():
            assert gradient.abs().max() > 0, name
            # float32 remains in the loss
            torch.testing.assert_close(packed[name], gradient, rtol=1e-5, atol=1e-8)


def test_a_column_that_a_run_does_not_train_stays() -> None:
    specs = mixed()
    loop = loop_of(*specs)
    before = loop.rows.values.clone()
    trace(loop, 3)
    groups = {part.name: part.group for part in loop.rows.slices}
    for row, run in enumerate(specs):
        for name, columns in columns_of(loop.rows).items():
            same = torch.equal(before[row, columns], loop.rows.values[row, columns])
            assert same is (groups[name] not in run.trainable), (row, name)


@pytest.mark.parametrize("why", ["patience", "divergence"])
def test_a_run_that_leaves_does_not_disturb_the_others(why: str) -> None:
    leaving = {"patience": {"patience": 1}, "divergence": {"lr": 1e30}}[why]
    common = {"steps": 24, "eval_every": 3, "options": {"n": 3}}
    few = {"seed": 2, "lr": 0.003, "trainable": ("input", "output")}
    stays = [pretrained(**{"seed": 0} | common), pretrained(**few | common)]
    leaver = pretrained(**{"seed": 1} | common | leaving)
    loop = loop_of(stays[0], leaver, stays[1])
    assert loop.run()
    assert loop.progress[1].metrics["steps"] < 24
    assert loop.progress[1].status == {"patience": "done", "divergence": "diverged"}[why]
    for index, run in ((0, stays[0]), (2, stays[1])):
        alone = loop_of(run)
        alone.run()
        assert loop.progress[index].metrics["steps"] == 24
        for packed, single in zip(loop.progress[index].curve, alone.progress[0].curve, strict=True):
            assert packed["train_loss"] == pytest.approx(single["train_loss"], rel=1e-3)
            assert packed["valid_loss"] == pytest.approx(single["valid_loss"], rel=1e-3)


def test_a_run_that_stays_is_evaluated_in_its_own_order_of_tokens() -> None:
    """Each run has one of its own, and the first run leaves."""
    common = {"eval_every": 3, "options": {"n": 5}, "order": "shuffled"}
    leaves = pretrained(seed=0, lr=1e-9, patience=1, **common)
    stays = pretrained(seed=1, **common)
    loop = loop_of(leaves, stays)
    assert loop.run()
    assert [progress.metrics["steps"] for progress in loop.progress] == [6, 12]
    alone = loop_of(stays)
    alone.run()
    for packed, single in zip(loop.progress[1].curve, alone.progress[0].curve, strict=True):
        assert packed["valid_loss"] == pytest.approx(single["valid_loss"], rel=1e-3)


@pytest.mark.parametrize("clip", [1.0, 0.05])
def test_adam_and_clipping_are_pytorchs(clip: float) -> None:
    """A single run against torch.optim.Adam and clip_grad_norm_ on copies of its parameters."""
    run = pretrained(clip=clip, dropout=0.1)
    ours = loop_of(run)
    _, norms, values = trace(ours, 8)
    theirs = loop_of(run)
    parameters = [p for p in theirs.model.parameters() if p.requires_grad]
    names = [n for n, p in theirs.model.named_parameters() if p.requires_grad]
    assert len(names) == len(ours.rows.slices)
    optimiser = torch.optim.Adam(parameters, lr=run.lr)
    for step in range(8):
        optimiser.zero_grad(set_to_none=False)
        batch = theirs.task.train_batch([run.seed], step, run.batch, CPU)
        theirs.model.train()
        logits = theirs.model(batch, step=step)
        theirs.task.losses(logits, batch.targets).flatten(1).mean(1).sum().backward()
        norm = nn.utils.clip_grad_norm_(parameters, run.clip)
        assert norms[step, 0].item() == pytest.approx(norm.item(), rel=1e-4)
        optimiser.step()
    torch.testing.assert_close(values, theirs.rows.values, rtol=0, atol=1e-2 * run.lr)


def test_losses_are_means_per_run() -> None:
    logits, targets = torch.randn(2, 3, 4, 5), torch.randint(5, (2, 3, 4))
    each = task_of(spec()).losses(logits, targets).flatten(1).mean(1)
    for row, found in enumerate(each):
        mean = nn.functional.cross_entropy(logits[row].flatten(0, 1), targets[row].flatten())
        torch.testing.assert_close(found, mean)


def as_alone(specs: list[RunSpec]) -> None:
    """Losses and values of a pack are those of its runs trained alone."""
    packed, _, values = trace(loop_of(*specs), 4)
    for row, run in enumerate(specs):
        alone, _, single = trace(loop_of(run), 4)
        torch.testing.assert_close(packed[:, row], alone[:, 0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(values[row], single[0], rtol=0, atol=3e-2 * run.lr)


@pytest.mark.parametrize("name", ["lstm-tiny", "lstm-released-tiny"])
def test_frozen_lstms_pack_too(name: str) -> None:
    common = {"backbone": name, "trainable": ("input", "layernorm", "output"), "seed": 3}
    as_alone([spec(lr=0.01, **common), spec(lr=0.03, **common)])


def test_sequences_of_different_lengths_pack(tiny, monkeypatch) -> None:
    """Padding depends on the pack mates' sequences; what a run computes must not."""
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tiny)
    options = {"max_length": 40, "train": 60, "valid": 20, "test": 30}
    common = {"task": "listops", "options": options, "batch": 4, "dropout": 0.1}
    as_alone([pretrained(seed=seed, **common) for seed in range(3)])
