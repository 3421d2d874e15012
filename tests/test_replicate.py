"""`fpt replicate`: accuracies that a training gives again, and accuracies that were changed."""

from dataclasses import replace

import pytest
import torch
from made import make_study
from refusals import check_said, refuses
from tiny import pretrained

from fpt.__main__ import main
from fpt.backbones.weights import find
from fpt.profile import Run
from fpt.training.device import threads
from fpt.training.kept import TRAINED_ELSEWHERE, retrained
from fpt.training.train import Job, train

CPU = torch.device("cpu")


@pytest.fixture
def study(tiny, monkeypatch):
    """Two runs of a tiny backbone that were trained in one pack."""
    study = make_study(tiny)
    specs = [pretrained(options={"n": 5}, seed=seed) for seed in (0, 1)]
    train(specs, Job(study.store, device="cpu"))
    section = replace(study, runs=tuple(Run("fpt", "bit-xor", spec) for spec in specs))
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    return section


def first(study):
    return study.records()[study.keys[0]]


def lowered(record, points):
    accuracy = record.metrics["test_accuracy"] - points / 100
    return replace(record, metrics=record.metrics | {"test_accuracy": accuracy})


def replicated(capsys, *options):
    """Exit status and output of `fpt replicate`."""
    code = main(["replicate", "--profile", "lab", "--device", "cpu", *options])
    return code, capsys.readouterr().out


def test_a_training_gives_the_recorded_accuracy_and_a_changed_one_is_found(study, capsys):
    code, out = replicated(capsys)
    assert code == 0
    check_said(out, ["2 of 2 reproduce; the largest difference is 0.0 points"])
    record = study.store.write(lowered(first(study), 1.5))
    code, out = replicated(capsys)
    assert code == 1
    name = f"bit-xor on pretrained tiny, seed 0 ({record.key[:8]})"
    check_said(out, [f"DIFFERS      {name}", "largest difference is 1.5 points"])
    once = replicated(capsys, "--count", "1", "--seed", "1")
    assert replicated(capsys, "--count", "1", "--seed", "1") == once


# Without its pack, sums come in another order, and the last bits differ.
def test_a_run_is_trained_in_its_pack_if_all_of_it_is_recorded(study, monkeypatch):
    """And with as many threads, among which its sums are split."""
    packs = []

    def training(specs, job):
        packs.append(specs)
        assert torch.get_num_threads() == first(study).environment["threads"]
        return train(specs, job)

    monkeypatch.setattr("fpt.training.kept.train", training)
    with threads(torch.get_num_threads() + 1):
        assert retrained(first(study), study.store, CPU).tolerance == 0.0
    study.store.path(study.keys[1]).unlink()
    alone = retrained(first(study), study.store, CPU)
    assert alone.tolerance == TRAINED_ELSEWHERE
    assert "up to 2.00 points allowed, since it trained without its pack" in str(alone)
    assert [len(specs) for specs in packs] == [2, 1]


def test_runs_whose_weights_are_not_here_are_passed_over(study, capsys, monkeypatch):
    """Or whose data; and a sentence if there is nothing else to check."""
    record = first(study)
    other_data = record.environment | {"data_digest": "0" * 64}
    changed = replace(record, environment=other_data)
    refuses(lambda: retrained(changed, study.store, CPU), "The data of the task 'bit-xor' are not")
    environment = record.environment | {"weights_digest": "0" * 64}
    study.store.write(replace(record, environment=environment))
    code, out = replicated(capsys, "--count", "2")
    assert code == 0
    check_said(out, ["1 of 1 reproduce", "1 could not be checked, such as:", "are not those"])
    find(record.spec.weights).unlink()
    looked_for = []
    monkeypatch.setattr(
        "fpt.analysis.replicate.files", lambda name: looked_for.append(name) or find(name)
    )
    assert main(["replicate", "--profile", "lab", "--device", "cpu"]) == 2
    check_said(capsys.readouterr().err, [f"The weights {record.spec.weights!r} are in none of"])
    assert looked_for == [record.spec.weights]  # once: it may be a download that fails


@pytest.mark.parametrize("name", ["device", "torch"])
def test_another_machine_excuses_two_points_and_no_more(name, study):
    record = first(study)
    moved = replace(record, environment=record.environment | {name: "another"})
    assert retrained(lowered(moved, 1.5), study.store, CPU).matches
    assert not retrained(lowered(moved, 2.5), study.store, CPU).matches
