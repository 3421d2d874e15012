"""Training in bf16 on a CPU: chosen once for an experiment, recorded, and close to fp32."""

import copy
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from refusals import refusal
from safetensors.torch import load
from test_any_backbone import put, run_of
from tiny import (
    CPU,
    assembled,
    close,
    loop_of,
    measured_of,
    pretrained,
    spec,
    task_of,
)

from fpt import config
from fpt.records import Record, Store
from fpt.spec import probe_of
from fpt.training import device as devices
from fpt.training import sweep
from fpt.training.kept import retrained
from fpt.training.model import evaluate
from fpt.training.packing.layers import PackedRMSNorm
from fpt.training.probe import probe
from fpt.training.train import Job, train

__all__ = ["put"]
KINDS = ("llama", "qwen3", "gemma")  # the last one multiplies by 1 + gain


@pytest.fixture
def llama(put):
    """A run on a tiny Llama."""
    return run_of(put("llama")[1], steps=12, eval_every=3)


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
    run = run_of(put(kind)[1])
    exact, exact_norm = loss_and_norm(run, "fp32", runs)
    rounded, norm = loss_and_norm(run, "bf16", runs)
    assert torch.equal(loss_and_norm(run, "auto", runs)[0], exact)  # usual on a CPU
    assert not torch.equal(exact, rounded)
    close(rounded, exact, 0.02, 0.02)
    close(norm, exact_norm, 0.05, 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_norms_of_a_pack_are_transformers_but_for_one_rounding(kind, put):
    run = run_of(put(kind)[1])
    model, _, _ = assembled(run, replace(run, lr=0.1))
    norms = [part for part in model.backbone.modules() if isinstance(part, PackedRMSNorm)]
    assert {norm.scales_by_gain for norm in norms} == {kind != "gemma"}
    norm = norms[0]
    norm.weight = torch.nn.Parameter(1 + torch.rand(2, 16))  # for each run its own
    x = torch.randn(4, 5, 16).bfloat16()
    x[0, 0] = 0.0
    exact = x.float().requires_grad_()
    x.requires_grad_()
    direction = torch.randn(4, 5, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    expected = norm(exact)
    if norm.scales_by_gain:
        assert torch.equal(y, expected.bfloat16())
    close(y.float(), expected, 0.02, 0.02)
    gradients = torch.autograd.grad((y.float() * direction).sum(), (x, norm.weight))
    exact_gradients = torch.autograd.grad((expected * direction).sum(), (exact, norm.weight))
    for ours, theirs in zip(gradients, exact_gradients, strict=True):
        close(ours.float(), theirs, 0.02, 0.02 * float(theirs.std()))


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


def test_a_pack_that_was_stopped_goes_on_to_the_bit(llama, tmp_path):
    runs = [llama, replace(llama, lr=0.02)]
    uninterrupted = trained(runs, Store(tmp_path / "a" / "records"), "bf16")
    store, parts = Store(tmp_path / "b" / "records"), list[Record]()
    assert trained(runs, store, "bf16", deadline=0.0) == []
    while not parts:  # each call makes one step
        parts = trained(runs, store, "bf16", deadline=0.0)
    assert list(map(measured_of, parts)) == list(map(measured_of, uninterrupted))


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


@pytest.mark.parametrize("runs", [1, 2])
def test_backbones_of_our_own_train_in_bf16(runs, tiny):
    lstm = spec(backbone="lstm-tiny", trainable=("input", "output"), dropout=0.0)
    for run in (pretrained(dropout=0.0), lstm):
        exact, _ = loss_and_norm(run, "fp32", runs)
        rounded, _ = loss_and_norm(run, "bf16", runs)
        close(rounded, exact, 0.03, 0.03)


# ------------------------------------------------------------------------------------ the choice


def test_a_profile_chooses_for_all_its_runs(tmp_path):
    params = yaml.safe_load(Path("params.yaml").read_text())
    path = tmp_path / "params.yaml"
    assert config.load("smoke").precision == "auto"
    for precision in devices.PRECISIONS:
        chosen = copy.deepcopy(params)
        chosen["smoke"]["precision"] = precision
        path.write_text(json.dumps(chosen))
        assert config.load("smoke", path).precision == precision
    for wrong in ("bf32", 16, None, ["bf16"]):
        chosen["smoke"]["precision"] = wrong
        path.write_text(json.dumps(chosen))
        refusal(lambda: config.load("smoke", path))
