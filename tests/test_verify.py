"""`fpt verify`: numbers that can be had again, and numbers that were tampered with."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made import make_section
from refusals import check_said, one_sentence
from tiny import pretrained

from fpt.__main__ import main
from fpt.config import Run
from fpt.records import Record
from fpt.sections.section import Section
from fpt.training.train import train
from fpt.verify import TRAINED_ELSEWHERE, checks_of, retested, retrained

CPU = torch.device("cpu")
AT = ("fpt", "tiny")


@pytest.fixture
def part(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Two trained runs of a tiny backbone as a section that keeps their parameters."""
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tiny / "cache")
    made = make_section(tiny, monkeypatch)
    specs = [pretrained(options={"n": 5}, seed=seed) for seed in (0, 1)]
    train(specs, made.store, device=CPU, keep={spec.key for spec in specs})
    section = replace(made, runs=tuple(Run(*AT, spec, True) for spec in specs))
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    return section


def first(part: Section) -> tuple[Run, Record]:
    run = part.runs[0]
    return run, part.records()[run.key]


def lowered(record: Record, **environment: str) -> Record:
    """The record with 1.5 points less, made on the machine that `environment` describes."""
    accuracy = record.metrics["test_accuracy"] - 0.015
    return replace(
        record,
        metrics=record.metrics | {"test_accuracy": accuracy},
        environment=record.environment | environment,
    )


def says(capsys: pytest.CaptureFixture[str], code: int, *parts: str) -> None:
    """The command line ends with this status and prints these parts."""
    assert main(["verify", "--profile", "lab", "--device", "cpu"]) == code
    check_said(capsys.readouterr().out, parts)


def test_kept_parameters_give_the_recorded_accuracy(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = checks_of(part, 3, 0, CPU)
    assert [check.matches for check in runs] == [True] * 2
    assert {check.tolerance for check in runs} == {0.0}
    says(capsys, 0, "2 match, 0 differ, 0 could not be checked")


def test_kept_parameters_that_do_not_fit_are_one_sentence(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though their record names their digest."""
    for record in part.records().values():
        part.store.write(record, b"not safetensors")
    assert main(["verify", "--profile", "lab", "--device", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    check_said(one_sentence(err.strip()), [".safetensors does not hold the parameters of its run"])


def test_a_training_from_scratch_gives_it_too(part: Section) -> None:
    run, record = first(part)
    check = retrained(part, run, record, CPU)
    assert check.found == check.recorded
    assert check.tolerance == 0.0
    alone = retrained(part, run, replace(record, pack=[*record.pack, "0123456789abcdef"]), CPU)
    assert alone.tolerance == TRAINED_ELSEWHERE
    assert "up to 2.00 points allowed, since it trained without its pack" in str(alone)


def test_a_changed_accuracy_is_found(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    run, record = first(part)
    part.store.write(lowered(record), part.store.parameters(record))
    says(capsys, 1, f"DIFFERS      fpt on tiny, seed 0 ({run.key[:8]})", "1 match, 1 differ")


def test_runs_without_parameters_are_not_checked_unless_trained(part: Section) -> None:
    """As many as are asked for, the same ones again."""
    for record in part.records().values():
        part.store.write(record)
    section = replace(part, runs=tuple(replace(run, keep=False) for run in part.runs))
    assert [check.matches for check in checks_of(section, 9, 0, CPU)] == [None, None]
    assert "--retrain" in str(checks_of(section, 9, 0, CPU)[0])
    assert checks_of(section, 1, 1, CPU) == checks_of(section, 1, 1, CPU)
    assert len(checks_of(section, 1, 1, CPU)) == 1


def test_another_machine_is_no_excuse_for_more_than_rounding(part: Section) -> None:
    run, record = first(part)
    moved = replace(record, environment=record.environment | {"device": "another CPU"})
    check = retested(part, run, moved, CPU)
    assert check.matches
    assert check.tolerance == 10 / 5120
    assert "up to 0.20 points allowed, since device was another CPU, here " in str(check)
    assert retested(part, run, lowered(record, device="another CPU"), CPU).matches is False
