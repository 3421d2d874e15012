"""The numbers of tables: means, intervals and differences, against scipy and statsmodels; and no
number of the committed exploratory records has moved since it was frozen.

If one moves on purpose, `python tests/test_summary.py` writes tests/frozen anew.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import exploratory, fill, make_record, make_study, spread
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from tiny import measured_of

from fpt.analysis.effects import difference, falls_with, more_solved
from fpt.analysis.steps import steps_to
from fpt.analysis.study import Study
from fpt.analysis.summary import differences, mean_interval, pooled, summary
from fpt.records import Record

FROZEN = Path(__file__).with_name("frozen")
THRESHOLD = 0.6  # of validation accuracy: some runs never reach it


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    made = make_study(tmp_path, monkeypatch)
    fill(made, spread)
    return made


def test_intervals_are_those_of_statsmodels() -> None:
    values = [0.3, 0.5, 0.1, 0.9]
    low, high = DescrStatsW(values).tconfint_mean()
    assert mean_interval(values) == pytest.approx((0.45, low, high))
    others = [0.2, 0.25, 0.3]
    compared = CompareMeans(DescrStatsW(values), DescrStatsW(others))
    found = difference(values, others)
    expected = compared.tconfint_diff(usevar="unequal")
    assert (found.low, found.high) == pytest.approx(expected)
    p = compared.ttest_ind(alternative="smaller", usevar="unequal", value=-0.1)[1]
    assert difference(values, others, margin=0.1).p == pytest.approx(p)


@pytest.mark.parametrize("values", [[0.5], [1.0, 1.0, 1.0]])
def test_values_without_spread_have_no_interval(values: list[float]) -> None:
    mean, low, high = mean_interval(values)
    assert mean == values[0]
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(difference(values, values).p)


def test_a_true_null_is_rejected_at_most_as_often_as_said() -> None:
    draws = np.random.default_rng(0)
    tests = [difference(draws.normal(size=12), draws.normal(size=8)) for _ in range(2000)]
    assert np.mean([it.p < 0.05 for it in tests]) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    assert np.mean([it.low < 0 < it.high for it in tests]) == pytest.approx(0.95, abs=0.015)
    solved = [more_solved(draws.random(12) < 0.5, draws.random(12) < 0.5).p for _ in range(300)]
    assert np.mean(np.array(solved) < 0.05) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_partial_correlation_leaves_out_the_covariate() -> None:
    draws = np.random.default_rng(1)
    covariate = draws.normal(size=17)
    x, y = (covariate + 0.5 * draws.normal(size=17) for _ in range(2))
    assert np.corrcoef(x, y)[0, 1] > 0.5
    assert abs(falls_with(x, y, covariate).estimate) < 0.4
    strong = falls_with(x, -x + 0.01 * draws.normal(size=17), covariate)
    assert strong.estimate < -0.8
    assert strong.p < 0.01 < 0.9 < strong.against


def test_a_summary_has_no_interval_until_every_run_is_there(study: Study) -> None:
    table = summary(study.results()).set_index(["task", "arm"])
    cell = table.loc[("digits", "fpt")]
    assert (cell["mean"], cell["runs"], cell["expected"]) == (pytest.approx(95.2), 3, 3)
    assert cell["low"] < 95.2 < cell["high"]
    run = next(run for run in study.runs if (run.task, run.arm) == ("digits", "fpt"))
    study.store.write(make_record(run, 0.1, "diverged"))
    cell = summary(study.results()).set_index(["task", "arm"]).loc[("digits", "fpt")]
    assert (cell["mean"], cell["runs"], cell["diverged"]) == (pytest.approx(95.3), 2, 1)
    assert math.isnan(cell["low"])
    study.store.path(run.key).unlink()
    effects = differences(study.results(), [("fpt", "random")]).set_index("task")
    assert math.isnan(effects.loc["digits", "estimate"])
    assert effects.loc["bit-xor", "estimate"] == pytest.approx(15.0)
    assert effects.loc["bit-xor", "p"] < 1e-4
    assert pooled(study.results(), ("fpt", "random")) is None


def test_a_pooled_difference_is_over_seeds_of_means_over_tasks(study: Study) -> None:
    found = pooled(study.results(), ("fpt", "lstm"))
    assert found is not None
    assert found.estimate == pytest.approx(35.0)
    expected = difference([95.0, 95.2, 95.4], [60.0, 60.2, 60.4])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert pooled(study.results(), ("fpt", "vanilla")) is None


@cache
def records() -> list[Record]:
    """Every exploratory record, those of one setting one after the other."""
    return sorted(exploratory(), key=lambda it: (replace(it.spec, seed=0).key, it.spec.seed))


@cache
def settings() -> dict[str, list[Record]]:
    """The records of the settings that were run with several seeds, by their key at seed 0."""
    grouped = groupby(records(), key=lambda it: replace(it.spec, seed=0).key)
    found = {key: list(runs) for key, runs in grouped}
    return {key: runs for key, runs in found.items() if len(runs) > 1}


def accuracies(runs: list[Record]) -> list[float]:
    return [run.metrics["test_accuracy"] for run in runs]


def measured() -> pd.DataFrame:
    """A digest of the key and of everything that was measured, per record."""
    rows = []
    for record in records():
        text = json.dumps([record.spec.key, measured_of(record)], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        rows.append({"key": record.spec.key, "digest": digest})
    return pd.DataFrame(rows).sort_values("key", ignore_index=True)


def cells() -> pd.DataFrame:
    """Per setting: the mean accuracy with its interval, and steps to a threshold."""
    rows = []
    for key, runs in settings().items():
        mean, low, high = mean_interval(accuracies(runs))
        reached = [steps_to(run, THRESHOLD) for run in runs]
        row = {"setting": key, "mean": mean, "low": low, "high": high, "n": len(runs)}
        row["steps to threshold"] = sum(it.count for it in reached) / len(reached)
        rows.append(row | {"steps censored": sum(it.censored for it in reached)})
    return pd.DataFrame(rows)


def effects() -> pd.DataFrame:
    """Every pretrained or resampled backbone against the random one of the same setting."""
    rows = []
    for key, runs in settings().items():
        bare = replace(runs[0].spec, seed=0, init="random", weights=None).key
        if key != bare and bare in settings():
            found = difference(accuracies(runs), accuracies(settings()[bare]))
            row = {"setting": key, "minus": bare, "effect": found.estimate}
            rows.append(row | {"low": found.low, "high": found.high})
            rows[-1]["p"] = 2 * min(found.p, found.against)
    return pd.DataFrame(rows)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "records": measured,
    "cells": cells,
    "effects": effects,
}


@pytest.mark.parametrize("name", TABLES)
def test_no_number_has_moved(name: str) -> None:
    frozen = pd.read_csv(FROZEN / f"{name}.csv", dtype={"key": str, "setting": str, "minus": str})
    found = TABLES[name]()
    if name == "records":  # others may be added
        found = found[found["key"].isin(frozen["key"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, frozen, check_dtype=False, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    for name, table in TABLES.items():
        table().to_csv(FROZEN / f"{name}.csv", index=False, float_format="%.12g")
