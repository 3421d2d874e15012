"""Exploratory runs: records beside the planned ones, as means without verdicts."""

from dataclasses import replace
from pathlib import Path

import pytest
from made import make_record, make_section

from fpt.config import Run
from fpt.records import Store
from fpt.report.exploratory import exploratory, exploratory_table
from fpt.report.table import NONE


def test_runs_of_one_setting_are_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = make_section(tmp_path, monkeypatch)
    there = Store(section.store.folder / "exploratory")

    def tried(run: Run, lr: float) -> Run:
        return replace(run, spec=replace(run.spec, lr=lr))

    runs = [run for run in section.runs if (run.arm, run.task) == ("fpt", "bit-xor")]
    for run in runs:
        there.write(make_record(tried(run, 0.1), 0.5 + 0.1 * run.spec.seed))
    there.write(make_record(tried(runs[0], 0.2), 0.0, "diverged"))
    assert len(exploratory(section.store)) == 4
    assert not section.store.keys()  # no plan has them
    table = exploratory_table(section.store)
    assert list(table.shown.index) == ["bit-xor (fitting)"] * 2
    assert table.shown["lr"].tolist() == [0.1, 0.2]
    assert table.shown["runs"].tolist() == [3, 1]
    assert table.shown["test accuracy, %"].tolist() == ["60.0", NONE]
    assert table.shown["options"].tolist()[0].startswith("n 5")
    assert table.numbers["task"].tolist() == ["bit-xor"] * 2
    assert table.numbers["test_accuracy"].tolist()[0] == pytest.approx(0.6)
    assert "4 runs that the plan does not expect" in table.notes[0]


def test_without_such_runs_the_table_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exploratory_table(make_section(tmp_path, monkeypatch).store).shown.empty
