"""Training on a GPU: the same model as on a CPU, in both precisions, and what is built on it.

FPT_TEST_CUDA=1 lets the tests see the GPU.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_any_backbone import run_of
from tiny import CPU, WEIGHTS, close, one_of, pretrained, spec, task_of

import fpt
from fpt.backbones import BACKBONES
from fpt.backbones.base import FAMILIES
from fpt.records import Store
from fpt.spec import FOUR_GROUPS, probe_of
from fpt.training import device as devices
from fpt.training import sweep
from fpt.training.loop import Loop
from fpt.training.model import assemble
from fpt.training.train import Job, train

pytestmark = [
    pytest.mark.usefixtures("tiny"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
# The released LSTM begins in a state that is drawn on the device.
SAME_ON_EVERY_DEVICE = sorted(FAMILIES.keys() - {"generic", "lstm-released"})
OPTIONS = {
    "bit-memory": {"n": 50},
    "digits": {},
    "listops": {"min_length": 4, "max_length": 24, "train": 200, "valid": 50, "test": 50},
}
CUDA = torch.device("cuda")
GENERIC = ("llama", "gemma", "gpt_neox", "bert", "albert", "modernbert", "t5", "vit")


def sequences(count):
    """(count, 6, 3) numbers, and whether the first of each is positive."""
    numbers = np.random.default_rng(0).normal(size=(count, 6, 3)).astype(np.float32)
    return numbers, (numbers[:, 0, 0] > 0).astype(int)


def first_step(run, device, precision, architecture=None):
    """Loss and gradients of a run, on one batch whatever the device."""
    task = task_of(run)
    model, rows, _ = assemble([run], task, device, architecture)
    model.compute_in(precision, device.type)
    model.train()
    batch = task.train_batch([run.seed], 0, 8, CPU)
    batch = replace(batch, inputs=batch.inputs.to(device), targets=batch.targets.to(device))
    with devices.autocast(device, precision):
        logits = model(batch, step=0)
    loss = task.losses(logits, batch.targets).flatten(1).mean(1)
    rows.differentiate(loss.sum())
    return loss.detach().cpu(), rows.grads.detach().cpu()


def check_step(run, architecture=None):
    loss, grads = first_step(run, CPU, "fp32", architecture)
    exact, exact_grads = first_step(run, CUDA, "fp32", architecture)
    close(exact, loss, 1e-3, 1e-4)
    assert (exact_grads - grads).norm() <= 1e-2 * grads.norm()
    rounded, rounded_grads = first_step(run, CUDA, "bf16", architecture)
    close(rounded, loss, 5e-2, 5e-2)
    assert (rounded_grads - grads).norm() <= 0.2 * grads.norm()


@pytest.mark.parametrize("family", SAME_ON_EVERY_DEVICE)
def test_a_step_is_that_of_a_cpu_but_for_rounding(family, monkeypatch):
    architecture = one_of(family)
    monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    groups = {"input", "output", *(group for _, group in FAMILIES[family].groups)}
    for trainable in (groups, groups & {*FOUR_GROUPS}):
        trained = tuple(sorted(trainable))
        check_step(spec(backbone=architecture.name, dropout=0.0, trainable=trained), architecture)


@pytest.mark.parametrize("kind", GENERIC)
def test_a_step_of_a_generic_backbone(kind, put):
    check_step(run_of(put(kind)))


@pytest.mark.parametrize("task", OPTIONS)
def test_a_pack_of_a_task_learns_on_a_gpu(task):
    run = spec(task, OPTIONS[task])
    loop = Loop(
        [replace(run, seed=seed, draw=0) for seed in (0, 1)], task_of(run), CUDA, quiet=True
    )
    assert loop.run()
    assert all(progress.status == "done" for progress in loop.progress)


def test_records_say_which_gpu_and_a_stopped_pack_goes_on(tmp_path):
    store = Store(tmp_path / "records")
    runs = [pretrained(seed=seed, steps=60) for seed in (0, 1)]
    assert train(runs, Job(store, deadline=0.0, cache=tmp_path)) == []
    records = train(runs, Job(store, cache=tmp_path))
    assert {record.environment["kind"] for record in records} == {"cuda"}
    assert {record.environment["precision"] for record in records} == {"bf16 autocast"}
    assert sweep.run([probe_of(pretrained())], store) == 1


def test_an_estimator_fits_on_a_gpu_and_predicts_on_a_cpu(tmp_path):
    inputs, labels = sequences(60)
    model = fpt.FrozenTransformer("tiny", weights=WEIGHTS, steps=60, device="cuda", progress=False)
    on_gpu = model.fit(inputs, labels).predict_proba(inputs)
    model.save(tmp_path / "saved")
    loaded = fpt.FrozenTransformer.load(tmp_path / "saved")
    on_cpu = loaded.set_params(device="cpu").predict_proba(inputs)
    assert np.abs(on_gpu - on_cpu).max() < 0.05


def test_an_audit_runs_on_a_gpu(tmp_path):
    inputs, labels = sequences(80)
    audit = fpt.audit(
        inputs, labels, "tiny", weights=WEIGHTS, minutes=1, steps=20, draws=3,
        folder=tmp_path, progress=False,
    )  # fmt: skip
    assert audit.verdict
