"""Training in bf16 on a CPU: chosen once for an experiment, recorded, and close to fp32."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from refusals import refusal
from safetensors.torch import load
from test_any_backbone import run_of
from test_config import written
from tiny import (
    CPU,
    assembled,
    close,
    loop_of,
    measured_of,
    spec,
    task_of,
)

from fpt import config
from fpt.records import Store
from fpt.spec import probe_of
from fpt.training import device as devices
from fpt.training import sweep
from fpt.training.evaluation import evaluate
from fpt.training.kept import retrained
from fpt.training.packing.layers import RootMeanSquareInBf16
from fpt.training.probe import probe
from fpt.training.train import Job, train

KINDS = ("llama", "qwen3", "gemma")  # the last one multiplies by 1 + gain


@pytest.fixture
def llama(put):
    """A run on a tiny Llama."""
    return run_of(put("llama"), steps=12, eval_every=3)


def loss_and_norm(run, precision, runs=1):
    """Losses and gradient norms of the first step of a pack, by run."""
    loop = loop_of(
        *(replace(run, lr=run.lr * (1 + row)) for row in range(runs)), precision=precision
    )
    loop.train_step()
    return loop.sums[0], loop.sums[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runs", [1, 2])
def test_a_step_is_that_of_fp32_but_for_rounding(kind, runs, put):
    """On strings with zeros too, whose tokens are the bias of the input net alone."""
    run = run_of(put(kind))
    exact, exact_norm = loss_and_norm(run, "fp32", runs)
    rounded, norm = loss_and_norm(run, "bf16", runs)
    assert torch.equal(loss_and_norm(run, "auto", runs)[0], exact)  # usual on a CPU
    assert not torch.equal(exact, rounded)
    close(rounded, exact, 0.02, 0.02)
    close(norm, exact_norm, 0.05, 0.05)


def test_the_gradients_of_a_norm_are_those_of_its_formula():
    draw = torch.Generator().manual_seed(0)
    x, gain, weights = (
        torch.randn(shape, generator=draw) for shape in ((2, 5, 8), (2, 8), (2, 5, 8))
    )
    inputs = (x.requires_grad_(), gain.requires_grad_())
    rounded = RootMeanSquareInBf16.apply(x, gain, 1e-5)
    exact = gain[:, None] * x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    gradients, expected = (
        torch.autograd.grad((output * weights).sum(), inputs) for output in (rounded, exact)
    )
    close(gradients[0], expected[0], 0.02, 0.02)
    close(gradients[1], expected[1], 0.02, 0.02)


# --------------------------------------------------------------------------------------- records


def trained(runs, store, precision, **options):
    job = Job(store, precision=precision, cache=store.folder.parent / "cache", **options)
    return train(runs, job)


def test_a_record_says_its_arithmetic_and_the_processor(llama, tmp_path):
    (exact,) = trained([llama], Store(tmp_path / "a" / "records"), "auto")
    (rounded,) = trained([llama], Store(tmp_path / "b" / "records"), "bf16")
    assert exact.environment["precision"] == "fp32"
    assert "instructions" not in exact.environment
    assert rounded.environment["precision"] == "bf16 autocast"
    flags = Path("/proc/cpuinfo").read_text()
    for instruction in rounded.environment["instructions"].split():
        assert instruction == "none" or f" {instruction} " in flags
    assert exact.key == rounded.key
    assert exact.curve != rounded.curve
    assert rounded.metrics["test_accuracy"] == pytest.approx(
        exact.metrics["test_accuracy"], abs=0.15
    )


def test_a_checkpoint_of_another_arithmetic_is_not_gone_on_from(llama, tmp_path):
    (in_bf16,) = trained([llama], Store(tmp_path / "a" / "records"), "bf16")
    store = Store(tmp_path / "b" / "records")
    for _ in range(4):
        assert trained([llama], store, "fp32", deadline=0.0) == []
    with pytest.warns(UserWarning, match="starts again"):
        (record,) = trained([llama], store, "bf16")
    assert measured_of(record) == measured_of(in_bf16)


def test_records_are_verified_in_their_own_arithmetic(llama, tmp_path):
    store = Store(tmp_path / "a" / "records")
    (record,) = trained([llama], store, "bf16", keep={llama.key})
    check = retrained(record, store, CPU)
    assert check.matches
    assert check.reason == ""
    kept = load(store.parameters(record))
    assert {tensor.dtype for tensor in kept.values()} == {torch.float32}


def test_runs_of_two_arithmetics_are_not_mixed(llama, tmp_path):
    """But records of a GPU count beside those of a CPU, each in the precision that is usual."""
    store = Store(tmp_path / "a" / "records")
    runs = [llama, replace(llama, seed=1)]
    train_in = partial(sweep.run, store=store, workers=1, cache=tmp_path / "cache")
    assert train_in([llama], precision="bf16") == 1
    for precision in ("auto", "fp32", "bf32"):
        refusal(lambda precision=precision: train_in(runs, precision=precision))
    assert store.keys() == {llama.key}
    assert train_in(runs, precision="bf16") == 1
    record = store.read(llama.key)
    store.write(replace(record, environment=record.environment | {"kind": "cuda"}))
    store.path(runs[1].key).unlink()
    assert train_in(runs, precision="auto") == 1
    assert store.read(runs[1].key).environment["precision"] == "fp32"


def test_probes_and_evaluations_are_in_bf16_too(llama):
    run = probe_of(replace(llama, data=spec().data))  # strings of two bits
    exact, rounded = (
        probe(run, task_of(run), CPU, precision).curve[0]["train_loss"]
        for precision in ("fp32", "bf16")
    )
    assert exact != rounded == pytest.approx(exact, abs=0.05)
    losses = {}
    for precision in ("auto", "fp32", "bf16"):
        model, _, _ = assembled(llama)
        model.compute_in(precision, "cpu")
        losses[precision] = evaluate(model, "valid")[0]["loss"]
    assert losses["auto"] == losses["fp32"] != losses["bf16"]


# ------------------------------------------------------------------------------------ the choice


def test_a_tier_chooses_for_all_its_runs(tmp_path):
    assert config.load("smoke", written(tmp_path, {})).precision == "auto"
    for precision in devices.PRECISIONS:
        path = written(tmp_path, {"precision": precision})
        assert config.load("smoke", path).precision == precision
    for wrong in ("bf32", None):
        path = written(tmp_path, {"precision": wrong})
        refusal(lambda path=path: config.load("smoke", path))
