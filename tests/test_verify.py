"""`fpt verify`: numbers that can be had again, numbers that were tampered with, and lost ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from made import fill, make_section
from refusals import check_said, one_sentence, refusal
from safetensors.torch import load, save
from tiny import pretrained
from torch import Tensor

from fpt.__main__ import main
from fpt.config import Run
from fpt.records import Record
from fpt.sections.section import Section
from fpt.training.train import train
from fpt.verify import (
    TRAINED_ELSEWHERE,
    printed,
    report,
    retested,
    retrained,
    sample,
    turned,
    verify,
    verify_cell,
)

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
    known = {spec.key: spec for spec in specs}
    monkeypatch.setattr("fpt.verify.specs_of", lambda profile: known)
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    print_mean(section)
    return section


def print_mean(section: Section) -> None:
    """The table that its records give."""
    accuracies = [record.metrics["test_accuracy"] for record in section.records().values()]
    print_table(section, [row_of(*AT, sum(accuracies) / len(accuracies))])


def row_of(arm: str, task: str, mean: float) -> dict[str, object]:
    return {"of": "ours", "row": arm, "task": task, "mean": mean}


def print_table(section: Section, rows: list[dict[str, object]], name: str = "transfer") -> Path:
    path = section.folder / "tables" / section.name / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def first(part: Section) -> tuple[Run, Record]:
    run = part.runs[0]
    return run, part.records()[run.key]


def rewrite(part: Section, record: Record) -> None:
    """As whoever edits a record and computes its digest anew."""
    part.store.write(record, part.store.parameters(record))


def lowered(record: Record, **environment: str) -> Record:
    """The record with 1.5 points less, made where `environment` says."""
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


# ---------------------------------------------------------------------------- what can be had again


def test_kept_parameters_give_the_recorded_accuracy(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    mean, *runs = verify(part, 3, 0, CPU)
    assert [check.matches for check in (mean, *runs)] == [True] * 3
    assert {check.tolerance for check in runs} == {0.0}
    says(capsys, 0, "3 match, 0 differ, 0 not here, 0 could not be checked")


UNFIT: dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]] = {
    "another shape": lambda kept: {name: values[None] for name, values in kept.items()},
    "as many values": lambda kept: {name: values.flatten() for name, values in kept.items()},
    "another type": lambda kept: {name: values.double() for name, values in kept.items()},
    "one missing": lambda kept: dict(list(kept.items())[1:]),
}


@pytest.mark.parametrize("what", [*UNFIT, "no safetensors"])
def test_kept_parameters_that_do_not_fit_are_one_sentence(
    what: str, part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though their record names their digest."""
    for record in part.records().values():
        content = part.store.parameters(record)
        assert content is not None
        spoilt = save(UNFIT[what](load(content))) if what in UNFIT else b"not safetensors"
        part.store.write(record, spoilt)
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
    assert "up to 2.00 points allowed, since it trained without its pack" in report([alone])[0]


def test_the_printed_mean_is_held_against_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    fill(section, lambda run: 0.9)
    at = ("fpt", "mnist")
    mean, *runs = verify_cell(section, at, [0.9], CPU)
    assert mean.matches
    assert {check.matches for check in runs} == {None}  # nothing was kept
    assert not any(check.fails for check in runs)
    assert "--retrain" in runs[0].how
    assert report(runs)[-1] == "0 match, 0 differ, 0 not here, 3 could not be checked"
    assert [check.matches for check in verify_cell(section, at, [0.91, 0.9], CPU)[:2]] == [
        False,
        True,
    ]


# --------------------------------------------------------------------------------- what is printed


def test_what_a_table_prints_for_our_arms_is_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    assert printed(section) == {}
    rows = [row_of("fpt", "mnist", 0.9), row_of("random", "mnist", float("nan"))]
    print_table(section, [*rows, row_of("fpt", "mnist", 0.5) | {"of": "paper"}])
    print_table(section, [{"task": "mnist", "effect": 1.0}], "effects")
    print_table(section, [], "empty").write_text("\n")
    print_table(section, [], "without_a_byte").write_text("")
    assert printed(section) == {("fpt", "mnist"): [0.9]}
    print_table(section, [{"of": "tuned", "arm": "full", "task": "mnist", "mean": 0.8}], "rates")
    print_table(section, [row_of("fpt", "mnist", value) for value in (0.9, 0.91)], "other")
    assert printed(section) == {("fpt", "mnist"): [0.9, 0.91], ("full", "mnist"): [0.8]}


@pytest.mark.parametrize(
    "content", ["of,row,task,mean\nours,fpt,mnist,much\n", 'a,b\n"1\n', "a\n1\n3,4,5"]
)
def test_what_is_no_table_is_one_sentence(part: Section, content: str) -> None:
    print_table(part, [], "broken").write_text(content)
    check_said(refusal(lambda: printed(part)), ["broken.csv is not a table", "render"])


def test_an_empty_table_has_no_number(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(part, [], "english_variants_effects")
    says(capsys, 0, "3 match, 0 differ")


def test_the_same_cells_are_sampled_again() -> None:
    cells = [(arm, task) for arm in "abc" for task in "xyz"]
    assert sorted(sample(cells, 99, 0)) == cells
    assert sample(cells, 3, 1) == sample(reversed(cells), 3, 1)
    assert len(sample(cells, 3, 1)) == 3


# ------------------------------------------------------------------------- what was tampered with


def test_a_changed_accuracy_is_found(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    run, record = first(part)
    rewrite(part, lowered(record))
    says(capsys, 1, "DIFFERS      fpt on tiny, the printed mean", "1 match, 2 differ")
    print_mean(part)
    says(capsys, 1, f"DIFFERS      fpt on tiny, seed 0 ({run.key[:8]})", "2 match, 1 differ")


def test_another_machine_is_no_excuse_for_more_than_rounding(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    run, record = first(part)
    moved = replace(record, environment=record.environment | {"device": "another CPU"})
    check = retested(part, run, moved, CPU)
    assert check.matches
    assert check.tolerance == 10 / 5120
    why = "up to 0.20 points allowed, since device was another CPU, here "
    assert why in report([check])[0]
    rewrite(part, lowered(record, device="another CPU"))
    print_mean(part)
    says(capsys, 1, "DIFFERS      fpt on tiny, seed 0", why, "2 match, 1 differ")


@pytest.mark.parametrize(
    ("answers", "changed"), [(1, 1), (32, 1), (500, 3), (5120, 10), (10_000, 14)]
)
def test_rounding_changes_few_answers(answers: int, changed: int) -> None:
    assert turned(answers) == changed


def test_a_claim_of_fewer_items_allows_no_more(part: Section) -> None:
    run, record = first(part)
    other = lowered(record, device="another CPU")
    claimed = replace(other, metrics=other.metrics | {"test_items": 1})
    assert retested(part, run, claimed, CPU).matches is False


# ------------------------------------------------------------------------------------- what is lost


def lost(part: Section, text: str) -> list[str]:
    return [
        f"NOT HERE     fpt on tiny, the printed mean: {100 * printed(part)[AT][0]:.2f}, but {text}",
        "0 match, 0 differ, 1 not here, 0 could not be checked",
    ]


@pytest.mark.parametrize("keep", [True, False], ids=["asked for", "named by the record"])
def test_damaged_parameters_fail(
    part: Section,
    keep: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also in a section that asks for none, where a record of another names them."""
    section = replace(part, runs=tuple(replace(run, keep=keep) for run in part.runs))
    monkeypatch.setattr("fpt.commands.sections_of", lambda profile, name: [section])
    run, _ = first(part)
    path = part.store.parameters_path(run.key)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    said = lost(part, f"the kept parameters of seed 0 ({run.key[:8]}) are missing or damaged")
    with pytest.warns(UserWarning, match="are damaged"):
        says(capsys, 1, *said)
    says(capsys, 1, *said)  # they were moved aside, and stay lost


def test_parameters_that_a_record_does_not_name_fail(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    run, record = first(part)
    part.store.write(replace(record, parameters=None))
    says(capsys, 1, *lost(part, f"the kept parameters of seed 0 ({run.key[:8]}) are missing"))


def test_an_edited_record_fails(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = first(part)
    path = part.store.path(run.key)
    content = json.loads(path.read_text())
    content["metrics"]["test_accuracy"] -= 0.015
    path.write_text(json.dumps(content))
    said = lost(part, f"the record of seed 0 ({run.key[:8]}) is missing or damaged")
    with pytest.warns(UserWarning, match="its digest does not fit its content"):
        says(capsys, 1, *said)
    says(capsys, 1, *said)


def test_every_lost_cell_is_told_however_few_are_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    fill(section, lambda run: None if run.arm == "random" and run.spec.seed == 2 else 0.9)
    tasks = ("bit-xor", "mnist")
    print_table(section, [row_of(arm, it, 0.9) for arm in ("fpt", "random") for it in tasks])
    for seed in range(4):
        checks = verify(section, 1, seed, CPU)
        assert [check.lost for check in checks] == [True, True, *[False] * 4]
        assert all("the record of seed 2" in check.how for check in checks[:2])


def test_a_number_without_a_run_fails(part: Section, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(part, [row_of("fpt", "tiny-2", 0.5)], "more")
    says(capsys, 1, "fpt on tiny-2, the printed mean: 50.00, but no run of params.yaml", "3 match")


def test_without_a_printed_number_there_is_nothing_to_verify(
    part: Section, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(part, [])
    assert main(["verify", "--profile", "lab", "--device", "cpu"]) == 2
    check_said(capsys.readouterr().err, ["'lab' prints no number here", "fpt render"])
