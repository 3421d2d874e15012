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
from itertools import combinations, groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import exploratory, fill, make_record, make_study, spread
from scipy.stats import rankdata, spearmanr
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from tiny import measured_of

from fpt.analysis.effects import difference, falls_with, heterogeneity, more_solved
from fpt.analysis.headlines import pooled_differences
from fpt.analysis.steps import steps_to
from fpt.analysis.study import Study
from fpt.analysis.summary import differences, mean_interval, pooled, summary
from fpt.config import Run
from fpt.records import Record

FROZEN = Path(__file__).with_name("frozen")
THRESHOLD = 0.6  # of validation accuracy: some runs never reach it


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    made = make_study(tmp_path, monkeypatch)
    fill(made, spread)
    return made


def test_intervals_are_those_of_statsmodels() -> None:
    values = [0.3, 0.5, 0.1, 0.9, 0.7]
    low, high = DescrStatsW(values).tconfint_mean()
    assert mean_interval(values) == pytest.approx((0.5, low, high))
    others = [0.2, 0.25, 0.3, 0.35, 0.1]
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


def permuted(a: list[float], b: list[float]) -> tuple[float, float]:
    """Both one-sided p-values, over every choice of which values are of the first arm."""
    both = np.array([*a, *b])
    chosen = [list(part) for part in combinations(range(len(both)), len(a))]
    others = [[index for index in range(len(both)) if index not in part] for part in chosen]
    means = both[chosen].mean(1) - both[others].mean(1)
    here = np.mean(a) - np.mean(b)
    return float((means <= here + 1e-9).mean()), float((means >= here - 1e-9).mean())


@pytest.mark.parametrize(("few", "many"), [(3, 12), (3, 3), (2, 8), (4, 4)])
def test_fewer_than_five_values_are_permuted(few: int, many: int) -> None:
    draws = np.random.default_rng(few + many)
    a, b = list(draws.normal(size=few)), list(draws.normal(1.0, 1.0, many))
    found = difference(a, b)
    assert (found.p, found.against) == pytest.approx(permuted(a, b))
    moved = difference(a, b, margin=0.5)
    assert moved.p == pytest.approx(permuted([value + 0.5 for value in a], b)[0])
    compared = CompareMeans(DescrStatsW(a), DescrStatsW(b)).tconfint_diff(usevar="unequal")
    assert (found.low, found.high) == pytest.approx(compared)


@pytest.mark.parametrize("level", [7.6, 3.0, 0.1])
def test_an_arm_without_spread_has_no_interval_and_no_small_p(level: float) -> None:
    a = list(np.random.default_rng(0).normal(6.0, 0.2, 12))
    few = difference(a, [level] * 3)
    assert math.isnan(few.low)
    assert min(few.p, few.against) >= 1 / math.comb(15, 3)
    many = difference(a, [level] * 12)
    assert math.isnan(many.high)
    assert min(many.p, many.against) == pytest.approx(1e-4)  # of 9,999 drawn permutations
    assert difference([1.0] * 3, [2.0] * 3).p == pytest.approx(1 / 20)


def test_unequal_effects_are_told_from_equal_ones() -> None:
    draws = np.random.default_rng(2)

    def arms(few: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
        return draws.normal(shift, 0.3, few), draws.normal(0.0, 0.1, 12)

    for few in (3, 12):
        equal = [heterogeneity([arms(few, 1.0) for _ in range(4)]) for _ in range(500)]
        assert np.mean(np.array(equal) < 0.05) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)
        assert heterogeneity([arms(few, shift) for shift in (-2.0, 2.0)]) < 0.01
    assert math.isnan(heterogeneity([arms(12, 1.0)]))
    flat = [([1.0] * 3, [1.0] * 3), ([2.0] * 3, [1.0] * 3)]
    assert math.isnan(heterogeneity(flat))


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


def test_a_correlation_is_never_certain() -> None:
    draws = np.random.default_rng(3)
    x, covariate = draws.random(17), draws.random(17)
    y = -x + 0.4 * draws.random(17)
    found = falls_with(x, y, covariate)
    ranks = [rankdata(values) for values in (x, y, covariate)]
    inverse = np.linalg.inv(np.corrcoef(ranks))
    r = -inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1])
    half = 1.959964 / math.sqrt(17 - 1 - 3)  # one covariate, then Fisher's n - 3
    assert found.estimate == pytest.approx(r)
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)), abs=1e-6
    )
    for sign in (1, -1):
        perfect = falls_with(x, sign * x, covariate)
        assert perfect.estimate == pytest.approx(sign)
        assert math.isnan(perfect.low)
        assert min(perfect.p, perfect.against) == pytest.approx(1e-4)  # never zero


@pytest.mark.parametrize(
    ("x", "y", "covariate"),
    [
        (range(8), [7.6] * 8, [1, 3, 2, 5, 4, 8, 7, 6]),
        ([7.6] * 8, range(8), [1, 3, 2, 5, 4, 8, 7, 6]),
        (range(8), [1, 3, 2, 5, 4, 8, 7, 6], range(8)),
        (range(4), [4, 3, 2, 1], [1, 2, 2, 1]),
        ([1.0, 2.0], [2.0, 1.0], [1.0, 1.0]),
        (range(8), [1, 2, 3, 4, 5, 6, 7, math.nan], [1, 3, 2, 5, 4, 8, 7, 6]),
    ],
)
def test_what_cannot_be_correlated_has_no_p(
    x: list[float], y: list[float], covariate: list[float]
) -> None:
    found = falls_with(list(x), list(y), list(covariate))
    assert math.isnan(found.p)
    assert math.isnan(found.against)


def test_equal_weight_scales_leave_a_rank_correlation() -> None:
    x, y = np.random.default_rng(4).random((2, 17))
    assert falls_with(x, y, [1.0] * 17).estimate == pytest.approx(spearmanr(x, y).statistic)


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
    assert effects.loc["bit-xor", "p"] == pytest.approx(2 / 20)  # three runs of each arm
    assert pooled(study.results(), ("fpt", "random")) is None


def test_a_pooled_difference_is_over_seeds_of_means_over_tasks(study: Study) -> None:
    found = pooled(study.results(), ("fpt", "lstm"))
    assert found is not None
    assert found.estimate == pytest.approx(35.0)
    expected = difference([95.0, 95.2, 95.4], [60.0, 60.2, 60.4])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert pooled(study.results(), ("fpt", "vanilla")) is None


def test_opposite_effects_are_said_for_each_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_study(tmp_path, monkeypatch, tasks=["bit-xor", "digits"])
    gain = {"bit-xor": 0.2, "digits": 0.1}

    def accuracy(run: Run, sign: float) -> float:
        shift = gain[run.task] * (sign if run.task == "digits" else 1)
        return 0.5 + shift * (run.arm == "fpt") + 0.002 * run.spec.seed

    for sign, parts in ((-1.0, [["bit-xor"], ["digits"]]), (1.0, [["bit-xor", "digits"]])):
        for run in made.runs:
            made.store.write(make_record(run, accuracy(run, sign)))
        said = [it for it in pooled_differences(made) if it[0] == ("fpt", "random")]
        assert [tasks for _, _, tasks, _ in said] == parts
    assert said[0][3].estimate == pytest.approx(15.0)


def test_where_no_run_reaches_a_threshold_no_difference_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_study(tmp_path, monkeypatch, tasks={"bit-xor": {"threshold": 0.9}})
    fill(made, lambda run: 0.5)
    assert list(pooled_differences(made)) == []


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
            rows[-1]["p"] = min(1.0, 2 * min(found.p, found.against))
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
