"""How much runs still learned as their steps ended."""

from pathlib import Path

import pytest
from made import fill, make_section

from fpt.report.budget import budget_table, late_gain
from fpt.report.table import NONE, label


def looks(*accuracies: float) -> list[dict[str, float]]:
    return [{"step": 10.0 * at, "valid_accuracy": it} for at, it in enumerate(accuracies, start=1)]


def test_the_last_fifth_is_held_against_the_one_before() -> None:
    curve = looks(0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 1.0)
    assert late_gain(curve) == pytest.approx(0.9 - 0.65)
    assert late_gain(looks(*[0.7] * 10)) == 0.0
    assert late_gain(looks(0.1, 0.2)) is None  # no look in the fifth before
    assert late_gain([]) is None


def test_the_table_counts_the_runs_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: dict[str, dict[str, object]] = {"bit-xor": {}, "mnist": {}}
    section = make_section(tmp_path, monkeypatch, "transfer", ["fpt", "random"], tasks=tasks)
    fill(section, lambda run: 0.7 if run.task == "mnist" else None)
    table = budget_table(section)
    row = table.shown.loc[label("fpt")]
    assert (row["bit-xor (fitting)"], row["mnist"][-4:]) == (NONE, " (3)")
    assert table.shown.loc["paper: steps of its FPT (T6)", "mnist"] == "5,000"
    assert len(table.numbers) == 6
