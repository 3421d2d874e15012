"""`fpt verify`: numbers that can be had again, and numbers that were tampered with."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from made import fill, make_section
from tiny import pretrained

from fpt.config import Run
from fpt.sections import Section
from fpt.train import train
from fpt.verify import ELSEWHERE, report, retested, retrained, sample, verify_cell

CPU = torch.device("cpu")


@pytest.fixture
def part(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Two trained runs of a tiny body as a section, their parameters kept."""
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tiny / "cache")
    made = make_section(tiny, monkeypatch)
    specs = [pretrained(seed=seed) for seed in (0, 1)]
    train(specs, made.store, device=CPU, keep={spec.key for spec in specs})
    section = replace(made, runs=tuple(Run("fpt", "tiny", spec, True) for spec in specs))
    known = {spec.key: spec for spec in specs}
    monkeypatch.setattr("fpt.verify.specs_of", lambda profile: known)
    return section


def test_kept_parameters_give_the_recorded_accuracy(part: Section) -> None:
    checks = verify_cell(part, "fpt", "tiny", CPU)
    assert [check.matches for check in checks] == [None, True, True]
    assert {check.tolerance for check in checks} == {0.0}
    assert report(checks)[-1] == "2 match, 0 differ, 1 could not be checked"


def test_a_training_from_scratch_gives_it_too(part: Section) -> None:
    record = next(iter(part.records().values()))
    check = retrained(record, part, CPU)
    assert check.found == check.recorded
    assert check.tolerance == 0.0
    alone = replace(record, pack=[*record.pack, "0123456789abcdef"])
    assert retrained(alone, part, CPU).tolerance == ELSEWHERE


def test_a_changed_accuracy_is_found(part: Section) -> None:
    record = next(iter(part.records().values()))
    changed = replace(record, metrics=record.metrics | {"test_accuracy": 0.123})
    assert retested(changed, part, CPU).matches is False
    assert "DIFFERS" in "\n".join(report([retested(changed, part, CPU)]))


def test_another_machine_is_given_a_tolerance(part: Section) -> None:
    record = next(iter(part.records().values()))
    other = replace(record, environment=record.environment | {"device": "another"})
    assert retested(other, part, CPU).tolerance == ELSEWHERE


def test_the_printed_mean_is_held_against_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    fill(section, lambda run: 0.9)
    folder = section.folder / "tables" / section.name
    folder.mkdir(parents=True)
    row = {"of": "ours", "row": "fpt", "task": "mnist", "mean": 0.9}
    pd.DataFrame([row]).to_csv(folder / "transfer.csv", index=False)
    first, *runs = verify_cell(section, "fpt", "mnist", CPU)
    assert first.matches
    assert {check.matches for check in runs} == {None}  # nothing was kept
    assert "--retrain" in runs[0].how
    pd.DataFrame([row | {"mean": 0.91}]).to_csv(folder / "transfer.csv", index=False)
    assert verify_cell(section, "fpt", "mnist", CPU)[0].matches is False


def test_only_whole_cells_are_sampled_and_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make_section(tmp_path, monkeypatch)
    fill(section, lambda run: None if run.arm == "random" and run.spec.seed == 2 else 0.9)
    every = sample(section, 99, 0)
    assert len(every) == 9
    assert not {arm for arm, _ in every} & {"random"}
    assert sample(section, 3, 1) == sample(section, 3, 1)
    assert len(sample(section, 3, 1)) == 3
