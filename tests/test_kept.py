"""Kept parameters: those that were tested, beside their record, whole or missing."""

import hashlib
from dataclasses import replace
from functools import partial

import pytest
import torch
from refusals import refuses
from safetensors.torch import load
from tiny import CPU, WEIGHTS, clock_of_steps, measured_of, pretrained, spec, swept, task_of

from fpt.records import Store
from fpt.training.device import threads
from fpt.training.kept import trained_model
from fpt.training.train import Job, train

pytestmark = pytest.mark.usefixtures("tiny")


def kept(specs, store, **options):
    """Trained, with the parameters of all."""
    return train(specs, Job(store, {run.key for run in specs}, "cpu", **options))


def scores(model, run):
    """Test accuracy and loss, of all examples at once."""
    (batch,) = task_of(run).eval_batches("test", 1000, CPU)
    with torch.no_grad():
        logits = model(batch)
    right = (logits.argmax(-1) == batch.targets).double().mean().item()
    return right, task_of(run).losses(logits, batch.targets).mean().item()


# ----------------------------------------------------------------------------------- what is kept


# The last parameters are others than the best ones, which were tested.
def test_a_kept_model_is_the_one_that_was_tested(store):
    """Runs of one pack that train different parts, and a run on a backbone of its own."""
    pack = [
        pretrained(lr=0.05),
        pretrained(seed=1, trainable=("output",)),
        pretrained(trainable=("input", "layernorm", "output")),
    ]
    full = spec(trainable=("attention", "feedforward", *pack[0].trainable))
    for record in kept(pack, store) + kept([full], store):
        assert store.read(record.key) == record
        content = store.parameters_path(record.key).read_bytes()
        assert record.parameters == hashlib.sha256(content).hexdigest()
        tensors = load(content)
        assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
        assert "output.weight" in tensors
        assert ("input.weight" in tensors) == ("input" in record.spec.trainable)
        # The names of files that were kept earlier.
        norms = "layernorm" in record.spec.trainable
        assert ("body.gpt2.ln_f.weight" in tensors) == norms
        expected = (record.metrics["test_accuracy"], record.metrics["test_loss"])
        assert scores(trained_model(record, store), record.spec) == pytest.approx(
            expected, rel=1e-5
        )


def test_a_pack_that_was_stopped_keeps_the_same(store, tiny, monkeypatch):
    """One run leaves after six steps; the pack is stopped after nine, by a clock of steps."""
    specs = [pretrained(lr=1e-9, patience=1), pretrained(seed=1)]
    uninterrupted = Store(tiny / "uninterrupted" / "records")
    assert [record.metrics["steps"] for record in kept(specs, uninterrupted)] == [6, 12]
    clock = clock_of_steps(monkeypatch)
    keep = {run.key for run in specs}
    assert swept(specs, store, budget=8.5, keep=keep) == 0
    assert clock == [9.0]
    assert len(kept(specs, store)) == 2
    assert clock == [12.0]
    for run in specs:
        path = store.parameters_path(run.key)
        assert path.read_bytes() == uninterrupted.parameters_path(run.key).read_bytes()


def test_a_pack_goes_on_with_the_threads_that_it_began_with(store, monkeypatch):
    """Which change the last bits of its sums."""
    clock_of_steps(monkeypatch)
    with threads(2):
        assert kept([pretrained()], store, deadline=8.5) == []
    with threads(1):
        (record,) = kept([pretrained()], store)
        assert torch.get_num_threads() == 1
    assert record.environment["threads"] == 2


# ------------------------------------------------------------------------------ what is missing


def test_a_record_without_the_parameters_asked_for_is_missing(store):
    """And a run that is trained without `keep` has none."""
    run = pretrained()
    keep = {run.key}
    train_kept = partial(swept, [run], store)
    assert train_kept() == 1
    before = store.read(run.key)
    refuses(lambda: trained_model(before, store), f"parameters of run {run.key}", "`keep: true`")
    assert store.digests([run.key], keep) == {run.key: None}
    assert train_kept(keep=keep) == 1
    assert measured_of(store.read_all([run.key], keep)[run.key]) == measured_of(before)
    # It serves where parameters are asked for, and where they are not.
    assert train_kept(keep=keep) == train_kept() == 0


def test_damaged_parameters_are_moved_aside_and_trained_again(store):
    """Here those of another run."""
    run, mate = pretrained(), pretrained(seed=1)
    record = kept([run, mate], store)[0]
    path = store.parameters_path(run.key)
    path.write_bytes(store.parameters_path(mate.key).read_bytes())
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*moved to {path.name}.corr"):
        assert store.read_all([run.key], keep={run.key}) == {}
    assert not path.exists()
    assert store.read(run.key) == record  # for whom needs no parameters
    assert len(kept([run, mate], store)) == 1
    assert store.read_all([run.key], keep={run.key}).keys() == {run.key}


def test_a_model_needs_the_weights_that_its_run_saw(store, tiny):
    record = kept([pretrained()], store)[0]
    changed = replace(record, environment=record.environment | {"weights_digest": "0" * 64})
    words = f"are not those that run {record.key}"
    refuses(lambda: trained_model(changed, store), f"'{WEIGHTS}'", words)
    (tiny / "backbones" / WEIGHTS / "model.safetensors").unlink()
    refuses(lambda: trained_model(record, store), f"weights '{WEIGHTS}' are in none of")
