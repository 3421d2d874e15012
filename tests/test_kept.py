"""Kept parameters: those that were tested, beside their record, whole or missing."""

import hashlib
import json
from dataclasses import replace

import pytest
import torch
import yaml
from made import SETTINGS
from safetensors.torch import load
from tiny import CPU, TINY, WEIGHTS, clock_of_steps, measured_of, pretrained, spec, task_of

from fpt import config
from fpt.analysis.study import Study
from fpt.config import expand
from fpt.files import FptError
from fpt.records import Store, to_content
from fpt.training import sweep
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


def test_a_random_initial_state_belongs_to_the_run_and_the_example(store, monkeypatch):
    """That of the released LSTM is the same for its run's kept model, in batches of any size."""
    monkeypatch.setattr("fpt.training.model.EVAL_TOKENS", 60)  # ten examples at a time
    trainable = ("input", "layernorm", "output", "recurrent")
    run = spec(options={"n": 3}, backbone="lstm-released-tiny", trainable=trainable, seed=2)
    (record,) = kept([run], store)
    _, loss = scores(trained_model(record, store), run)  # all 64 at once
    assert loss == pytest.approx(record.metrics["test_loss"], rel=1e-5)


def test_a_pack_that_was_stopped_keeps_the_same(store, tiny, monkeypatch):
    """One run leaves after six steps; the pack is stopped after nine, by a clock of steps."""
    specs = [pretrained(lr=1e-9, patience=1), pretrained(seed=1)]
    uninterrupted = Store(tiny / "uninterrupted" / "records")
    assert [record.metrics["steps"] for record in kept(specs, uninterrupted)] == [6, 12]
    clock = clock_of_steps(monkeypatch)
    assert kept(specs, store, deadline=8.5) == []
    assert clock == [9.0]
    assert len(kept(specs, store)) == 2
    assert clock == [12.0]
    for run in specs:
        path = store.parameters_path(run.key)
        assert path.read_bytes() == uninterrupted.parameters_path(run.key).read_bytes()


# ------------------------------------------------------------------------------ what is missing


def test_a_record_without_the_parameters_asked_for_is_missing(store):
    """And a run that is trained without `keep` has none."""
    run = pretrained()
    keep = {run.key}
    assert sweep.run([run], store, device="cpu", workers=1) == 1
    before = store.read(run.key)
    assert before is not None
    assert "parameters" not in to_content(before)
    with pytest.raises(FptError, match=rf"parameters of run {run.key} .*`keep: true`"):
        trained_model(before, store)
    assert store.read_all([run.key], keep) == {}
    assert store.digests([run.key], keep) == {run.key: None}
    assert sweep.run([run], store, keep=keep, device="cpu", workers=1) == 1
    after = store.read_all([run.key], keep)[run.key]
    assert measured_of(after) == measured_of(before)
    assert sweep.run([run], store, keep=keep, device="cpu", workers=1) == 0
    assert sweep.run([run], store, device="cpu", workers=1) == 0  # and it serves where none asks


@pytest.mark.parametrize("truncated", [True, False])
def test_damaged_parameters_are_moved_aside_and_trained_again(store, truncated):
    """Half a file, or that of another run."""
    run, mate = pretrained(), pretrained(seed=1)
    (record, _) = kept([run, mate], store)
    path = store.parameters_path(run.key)
    damaged = path.read_bytes()[:-1] if truncated else store.parameters_path(mate.key).read_bytes()
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*moved to {path.name}.corr"):
        assert store.read_all([run.key], keep={run.key}) == {}
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == damaged
    assert not path.exists()
    assert store.read(run.key) == record  # for whom needs no parameters
    assert store.read_all([run.key], keep={run.key}) == {}  # without another warning
    assert len(kept([run, mate], store)) == 1
    assert store.read_all([run.key], keep={run.key}).keys() == {run.key}


def test_a_model_needs_the_weights_that_its_run_saw(store, tiny):
    (record,) = kept([pretrained()], store)
    path = tiny / "backbones" / WEIGHTS / "model.safetensors"
    changed = replace(record, environment=record.environment | {"weights_digest": "0" * 64})
    with pytest.raises(FptError, match=rf"'{WEIGHTS}' .*are not those that run {record.key}"):
        trained_model(changed, store)
    path.unlink()
    with pytest.raises(FptError, match=rf"weights '{WEIGHTS}' are in none of"):
        trained_model(record, store)


# ---------------------------------------------------------------------------------------- sections


def sections(folder, monkeypatch):
    """Two sections that share their runs; the second asks for parameters."""
    monkeypatch.setattr("fpt.analysis.study.REPORTS", folder / "reports")
    monkeypatch.setattr("fpt.records.REPORTS", folder / "reports")
    block = {"tasks": ["bit-xor"], "arms": ["fpt", "random"]}
    parameters = {
        "train_on": ["cpu", "cuda"], "backbones": {"transformer": TINY[0].name},
        "weights": {"language": WEIGHTS}, "seeds": [0],
        "defaults": SETTINGS | {"steps": 4, "eval_every": 2},
        "tasks": {"bit-xor": {"options": {"n": 2}}}, "arms": {},
        "sections": {"transfer": [block], "attention": [block | {"keep": True}]},
    }  # fmt: skip
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump({"profile": "smoke", "smoke": parameters}, sort_keys=False))
    monkeypatch.setattr("fpt.files.PARAMS", path)
    profile = config.load("smoke")
    plain, keeping = (
        Study(name, profile, tuple(expand(profile, name))) for name in profile.sections
    )
    return plain, keeping


def test_sections_agree_on_what_is_missing(tiny, monkeypatch, capsys):
    from fpt.__main__ import main

    plain, keeping = sections(tiny, monkeypatch)
    assert plain.keys == keeping.keys  # what is kept is no part of a run

    def counts():
        capsys.readouterr()
        assert main(["status", "--profile", "smoke", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["sections"]
        return [
            [row["missing"] for row in rows],
            [len(plain.missing()), len(keeping.missing())],
        ]

    assert counts() == [[2, 2]] * 2
    assert plain.train(device="cpu", workers=1) == 2
    assert counts() == [[0, 2]] * 2
    assert keeping.train(device="cpu", workers=1) == 2
    assert counts() == [[0, 0]] * 2
    keeping.store.parameters_path(keeping.keys[0]).unlink()
    assert counts() == [[0, 1]] * 2
    run = ["run", "--all", "--profile", "smoke", "--device", "cpu", "--workers", "1"]
    for new in (1, 0):
        assert main(run) == 0
        assert capsys.readouterr().out.startswith(f"{new} new records")
    assert counts() == [[0, 0]] * 2
