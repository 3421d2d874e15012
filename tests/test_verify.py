"""`fpt verify`: accuracies that are found again, and accuracies that were changed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made import make_study
from refusals import check_said, refusal
from tiny import pretrained

from fpt.__main__ import main
from fpt.analysis.study import Study
from fpt.backbones.weights import find
from fpt.config import Run
from fpt.records import Record
from fpt.training.kept import TRAINED_ELSEWHERE, retested, retrained
from fpt.training.train import Job, train

CPU = torch.device("cpu")


@pytest.fixture
def part(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Two trained runs of a tiny backbone as a section that keeps their parameters."""
    study = make_study(tiny, monkeypatch)
    specs = [pretrained(options={"n": 5}, seed=seed) for seed in (0, 1)]
    train(specs, Job(study.store, {spec.key for spec in specs}, "cpu"))
    section = replace(study, runs=tuple(Run("fpt", "bit-xor", spec, True) for spec in specs))
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    return section


def first(part: Study) -> Record:
    return part.records()[part.keys[0]]


def lowered(record: Record, **environment: str) -> Record:
    """The record with 1.5 points less, made on the machine that `environment` describes."""
    accuracy = record.metrics["test_accuracy"] - 0.015
    return replace(
        record,
        metrics=record.metrics | {"test_accuracy": accuracy},
        environment=record.environment | environment,
    )


def verified(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """Exit status and output of `fpt verify`."""
    code = main(["verify", "--profile", "lab", "--device", "cpu", *options])
    return code, capsys.readouterr().out


def test_kept_parameters_give_the_recorded_accuracy(
    part: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = verified(capsys)
    assert code == 0
    check_said(out, ["2 match, 0 differ, 0 could not be checked"])
    assert "points allowed" not in out
    once = verified(capsys, "--count", "1", "--seed", "1")
    check_said(once[1], ["1 match, 0 differ"])
    assert verified(capsys, "--count", "1", "--seed", "1") == once


def test_a_training_from_scratch_gives_it_too(part: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the pack of the record if all of it is recorded."""
    packs = []
    monkeypatch.setattr(
        "fpt.training.kept.train", lambda specs, job: packs.append(specs) or train(specs, job)
    )
    check = retrained(first(part), part.store, CPU)
    assert packs == [[run.spec for run in part.runs]]
    assert check.accuracy == check.recorded
    assert check.tolerance == 0.0
    part.store.path(part.keys[1]).unlink()
    alone = retrained(first(part), part.store, CPU)
    assert alone.tolerance == TRAINED_ELSEWHERE
    assert "up to 2.00 points allowed, since it trained without its pack" in str(alone)


def test_a_changed_accuracy_is_found(part: Study, capsys: pytest.CaptureFixture[str]) -> None:
    record = first(part)
    part.store.write(lowered(record), part.store.parameters(record))
    code, out = verified(capsys)
    assert code == 1
    name = f"bit-xor on pretrained tiny, seed 0 ({record.key[:8]})"
    check_said(out, [f"DIFFERS      {name}", "1 match, 1 differ"])


def test_runs_without_parameters_are_not_checked_unless_trained(part: Study) -> None:
    record = part.store.write(first(part))
    check_said(refusal(lambda: retested(record, part.store, CPU)), ["--retrain"])
    assert retrained(record, part.store, CPU).matches


def test_runs_whose_weights_are_not_here_are_passed_over(
    part: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether they are missing or others; and a sentence if there is nothing else to check."""
    record = first(part)
    environment = record.environment | {"weights_digest": "0" * 64}
    part.store.write(replace(record, environment=environment), part.store.parameters(record))
    for how in ([], ["--retrain"]):
        code, out = verified(capsys, "--count", "2", *how)
        assert code == 0
        check_said(out, ["1 match, 0 differ, 1 could not be checked, such as:", "are not those"])
    find(record.spec.weights).unlink()  # type: ignore[arg-type]
    assert main(["verify", "--profile", "lab", "--device", "cpu", "--retrain"]) == 2
    check_said(capsys.readouterr().err, [f"The weights {record.spec.weights!r} are in none of"])


@pytest.mark.parametrize("name", ["device", "precision", "torch", "transformers"])
def test_another_machine_is_no_excuse_for_more_than_rounding(name: str, part: Study) -> None:
    record = first(part)
    moved = replace(record, environment=record.environment | {name: "another"})
    check = retested(moved, part.store, CPU)
    assert check.matches
    assert check.tolerance == 10 / 5120
    assert f"up to 0.20 points allowed, since {name} was another, here " in str(check)
    assert not retested(lowered(record, **{name: "another"}), part.store, CPU).matches
