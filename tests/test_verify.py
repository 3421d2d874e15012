"""`fpt verify`: numbers that can be had again, and numbers that were tampered with."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from made import fill, make_section
from refusals import check_said, one_sentence
from tiny import pretrained

from fpt.__main__ import main
from fpt.config import Run
from fpt.records import Record
from fpt.sections.section import Section
from fpt.training.train import train
from fpt.verify import TRAINED_ELSEWHERE, checks_of, printed, retested, retrained

CPU = torch.device("cpu")
AT = ("fpt", "tiny")


@pytest.fixture
def part(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Two trained runs of a tiny body as a section that keeps their parameters and prints their
    mean."""
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tiny / "cache")
    made = make_section(tiny, monkeypatch)
    specs = [pretrained(options={"n": 5}, seed=seed) for seed in (0, 1)]
    train(specs, made.store, device=CPU, keep={spec.key for spec in specs})
    section = replace(made, runs=tuple(Run(*AT, spec, True) for spec in specs))
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    print_mean(section)
    return section


def print_mean(section: Section) -> None:
    """The table that its records give."""
    accuracies = [record.metrics["test_accuracy"] for record in section.records().values()]
    print_table(section, [row_of(*AT, sum(accuracies) / len(accuracies))])


def row_of(arm: str, task: str, mean: float) -> dict[str, object]:
    return {"of": "ours", "row": arm, "task": task, "mean": mean}


def print_table(section: Section, rows: list[dict[str, object]], name: str = "transfer") -> None:
    path = section.folder / "tables" / section.name / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)


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
    mean, *runs = checks_of(part, 3, 0, CPU)
    assert [check.matches for check in (mean, *runs)] == [True] * 3
    assert {check.tolerance for check in runs} == {0.0}
    says(capsys, 0, "3 match, 0 differ, 0 could not be checked")


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


def test_what_a_table_prints_for_our_arms_is_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    assert printed(section) == []
    rows = [row_of("fpt", "mnist", 0.9), row_of("random", "mnist", float("nan"))]
    print_table(section, [*rows, row_of("fpt", "mnist", 0.5) | {"of": "paper"}])
    print_table(section, [{"task": "mnist", "effect": 1.0}], "effects")
    print_table(section, [], "empty")
    print_table(section, [{"of": "tuned", "arm": "full", "task": "mnist", "mean": 0.8}], "rates")
    assert printed(section) == [("fpt", "mnist", 0.9), ("full", "mnist", 0.8)]


def test_a_printed_mean_is_held_against_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only as many as are asked for, the same ones again; nothing was kept of these runs."""
    section = make_section(tmp_path, monkeypatch)
    fill(section, lambda run: 0.9)
    tasks, wrong = ("bit-xor", "mnist"), row_of("lstm", "mnist", 0.91)
    print_table(section, [*(row_of(a, t, 0.9) for a in ("fpt", "full") for t in tasks), wrong])
    found = checks_of(section, 9, 0, CPU)
    assert [check.matches for check in found].count(True) == 4
    (different,) = [check for check in found if check.matches is False]
    assert "DIFFERS      lstm on mnist, the printed mean: 91.00, the mean of" in str(different)
    assert "--retrain" in found[-1].how
    assert checks_of(section, 2, 1, CPU) == checks_of(section, 2, 1, CPU)
    assert len(checks_of(section, 2, 1, CPU)) == 4


def test_a_changed_accuracy_is_found(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    run, record = first(part)
    part.store.write(lowered(record), part.store.parameters(record))
    says(capsys, 1, "DIFFERS      fpt on tiny, the printed mean", "1 match, 2 differ")
    print_mean(part)
    says(capsys, 1, f"DIFFERS      fpt on tiny, seed 0 ({run.key[:8]})", "2 match, 1 differ")


def test_another_machine_is_no_excuse_for_more_than_rounding(part: Section) -> None:
    run, record = first(part)
    moved = replace(record, environment=record.environment | {"device": "another CPU"})
    check = retested(part, run, moved, CPU)
    assert check.matches
    assert check.tolerance == 10 / 5120
    assert "up to 0.20 points allowed, since device was another CPU, here " in str(check)
    assert retested(part, run, lowered(record, device="another CPU"), CPU).matches is False


def test_lost_evidence_differs(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    for run in part.runs:
        part.store.path(run.key).unlink()
    says(capsys, 1, "DIFFERS      fpt on tiny, the printed mean", "0 match, 1 differ")
