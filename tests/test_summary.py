"""The numbers of tables: means, intervals and differences, against scipy and statsmodels; and no
committed exploratory record has changed since its digest was frozen.

If one changes on purpose, `python tests/test_summary.py` writes tests/frozen anew.
"""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import exploratory, fill, make_record, make_study, spread
from scipy.stats import permutation_test, spearmanr
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from tiny import measured_of

from fpt.analysis.effects import difference, falls_with, heterogeneity, more_solved
from fpt.analysis.study import Study
from fpt.analysis.summary import mean_interval, summary
from fpt.claims.headlines import first_differences, write_headlines

FROZEN = Path(__file__).with_name("frozen") / "records.csv"
MOST_FALSE = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)  # of 300 tests or more, three errors above 5%


def test_intervals_are_those_of_statsmodels():
    first = [0.3, 0.5, 0.1, 0.9, 0.7]
    second = [0.2, 0.25, 0.3, 0.35, 0.1]
    assert mean_interval(first) == pytest.approx((0.5, *DescrStatsW(first).tconfint_mean()))
    effect = difference(first, second)
    compared = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    assert (effect.low, effect.high) == pytest.approx(compared.tconfint_diff(usevar="unequal"))
    p = compared.ttest_ind(alternative="smaller", usevar="unequal", value=-0.1)[1]
    assert difference(first, second, margin=0.1).p == pytest.approx(p)


@pytest.mark.parametrize("values", [[0.5], [1.0] * 3, [1.0] * 6, [0.1, 0.2, 0.3, 0.4]])
def test_few_or_equal_values_have_no_interval(values):
    mean, low, high = mean_interval(values)
    assert mean == pytest.approx(np.mean(values))
    assert math.isnan(low)
    assert math.isnan(high)


def permuted(first, second, alternative):
    """p of a difference of means, over every choice of which values are of the first arm."""

    def difference(x, y, axis):
        return x.mean(axis) - y.mean(axis)

    return permutation_test((first, second), difference, alternative=alternative).pvalue


@pytest.mark.parametrize(("few", "many"), [(3, 12), (3, 3), (2, 8), (4, 4)])
def test_fewer_than_five_values_are_permuted(few, many):
    draws = np.random.default_rng(few + many)
    first = draws.normal(size=few)
    second = draws.normal(1.0, 1.0, many)
    effect = difference(first, second)
    assert effect.p == pytest.approx(permuted(first, second, "less"))
    assert effect.against == pytest.approx(permuted(first, second, "greater"))
    moved = difference(first, second, margin=0.5)
    assert moved.p == pytest.approx(permuted(first + 0.5, second, "less"))
    compared = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    assert (effect.low, effect.high) == pytest.approx(compared.tconfint_diff(usevar="unequal"))


@pytest.mark.parametrize("level", [7.6, 3.0, 0.1])
def test_an_arm_without_spread_has_no_interval_and_no_small_p(level):
    first = list(np.random.default_rng(0).normal(6.0, 0.2, 12))
    few = difference(first, [level] * 3)
    assert math.isnan(few.low)
    assert min(few.p, few.against) >= 1 / math.comb(15, 3)
    many = difference(first, [level] * 12)
    assert math.isnan(many.high)
    assert min(many.p, many.against) == pytest.approx(1e-4)  # of 9,999 drawn permutations
    assert difference([1.0] * 3, [2.0] * 3).p == pytest.approx(1 / 20)
    assert math.isnan(difference([level] * 3, [level] * 3).p)


def test_unequal_effects_are_told_from_equal_ones():
    draws = np.random.default_rng(2)

    def arms(few, shift):
        return draws.normal(shift, 0.3, few), draws.normal(0.0, 0.1, 12)

    for few in (3, 12):
        equal = [heterogeneity([arms(few, 1.0) for _ in range(4)]) for _ in range(300)]
        assert np.mean(np.array(equal) < 0.05) < MOST_FALSE
        assert heterogeneity([arms(few, shift) for shift in (-2.0, 2.0)]) < 0.01
    assert math.isnan(heterogeneity([arms(12, 1.0)]))
    assert math.isnan(heterogeneity([([1.0] * 3, [1.0] * 3), ([2.0] * 3, [1.0] * 3)]))


# Welch's test on three values rejects far more often than it says.
def test_a_true_null_is_rejected_at_most_as_often_as_said():
    draws = np.random.default_rng(0)
    effects = [difference(draws.normal(size=12), draws.normal(size=8)) for _ in range(2000)]
    assert np.mean([effect.p < 0.05 for effect in effects]) < MOST_FALSE
    covered = np.mean([effect.low < 0 < effect.high for effect in effects])
    assert covered == pytest.approx(0.95, abs=0.015)
    solved = [more_solved(draws.random(12) < 0.5, draws.random(12) < 0.5).p for _ in range(300)]
    assert np.mean(np.array(solved) < 0.05) < MOST_FALSE


def test_a_partial_correlation_leaves_out_the_covariate():
    draws = np.random.default_rng(1)
    covariate = draws.normal(size=17)
    x, y = (covariate + 0.5 * draws.normal(size=17) for _ in range(2))
    assert np.corrcoef(x, y)[0, 1] > 0.5
    assert abs(falls_with(x, y, covariate).estimate) < 0.4
    strong = falls_with(x, -x + 0.01 * draws.normal(size=17), covariate)
    assert strong.estimate < -0.8
    assert strong.p < 0.01 < 0.9 < strong.against
    constant = falls_with(x, y, [1.0] * 17)
    assert constant.estimate == pytest.approx(spearmanr(x, y).statistic)


# A permutation p of zero would pass any correction.
def test_a_correlation_is_never_certain():
    draws = np.random.default_rng(3)
    x, covariate, noise = draws.random((3, 17))
    y = -x + 0.4 * noise
    effect = falls_with(x, y, covariate)
    half = 1.959964 / math.sqrt(17 - 1 - 3)  # one covariate, then Fisher's n - 3
    interval = np.tanh(math.atanh(effect.estimate) + half * np.array([-1, 1]))
    assert (effect.low, effect.high) == pytest.approx(tuple(interval), abs=1e-6)
    perfect = falls_with(x, x, covariate)
    assert perfect.estimate == pytest.approx(1)
    assert math.isnan(perfect.low)
    assert falls_with(x, -x, covariate).p == perfect.against == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("x", "y", "covariate"),
    [
        (range(8), [7.6] * 8, [1, 3, 2, 5, 4, 8, 7, 6]),
        (range(8), [1, 2, 3, 4, 5, 6, 7, math.nan], [1, 3, 2, 5, 4, 8, 7, 6]),
    ],
)
def test_what_cannot_be_correlated_has_no_p(x, y, covariate):
    effect = falls_with(list(x), list(y), list(covariate))
    assert math.isnan(effect.p)
    assert math.isnan(effect.against)


def test_a_summary_has_no_interval_until_every_run_is_there(tmp_path):
    study = make_study(tmp_path, arms=("fpt",), tasks=("digits",), seeds=5)
    fill(study, spread)
    (cell,) = summary(study.results()).to_dict("records")
    assert (cell["mean"], cell["runs"], cell["expected"]) == (pytest.approx(95.4), 5, 5)
    assert cell["low"] < 95.4 < cell["high"]
    study.store.write(make_record(study.runs[0], 0.1, "diverged"))
    (cell,) = summary(study.results()).to_dict("records")
    assert (cell["mean"], cell["runs"], cell["diverged"]) == (pytest.approx(95.5), 4, 1)
    assert math.isnan(cell["low"])


@pytest.mark.parametrize(("seeds", "has_interval"), [(4, False), (5, True)])
def test_an_area_of_few_runs_has_no_interval(seeds, has_interval, tmp_path):
    study = make_study(tmp_path, arms=("fpt",), tasks=("digits",), seeds=seeds)
    fill(study, spread)
    results = study.results().assign(area=np.linspace(0.2, 0.4, seeds))
    (cell,) = summary(results).to_dict("records")
    assert math.isfinite(cell["low"]) is has_interval


@pytest.mark.parametrize("draws", [1, 6])
@pytest.mark.parametrize("missing", [0, 1, 6])
def test_an_area_without_some_of_its_runs_is_the_mean_of_the_others(draws, missing, tmp_path):
    study = make_study(tmp_path, arms=("random",), tasks=("digits",), seeds=6 * draws)
    fill(study, spread)
    areas = 0.3 * np.exp(np.random.default_rng(0).normal(size=6 * draws))
    areas[:missing] = math.nan
    results = study.results().assign(area=areas)
    if draws > 1:  # crossed with six seeds
        results = results.assign(draw=results["seed"] // 6, seed=results["seed"] % 6)
    results.loc[np.isnan(areas), ["status", "accuracy"]] = ["not run", math.nan]
    (cell,) = summary(results).to_dict("records")
    assert (cell["runs"], cell["expected"]) == (6 * draws - missing, 6 * draws)
    expected = np.nanmean(np.log(areas)) if missing < 6 * draws else math.nan
    assert cell["mean"] == pytest.approx(expected, nan_ok=True)
    assert math.isnan(cell["low"]) == math.isnan(cell["high"]) == (missing > 0)


def test_the_headline_is_the_first_difference_on_each_task(tmp_path):
    accuracies = {
        "fpt": {"bit-xor": 0.7, "mnist": 0.85, "digits": 0.6, "bit-memory": 0.5},
        "random": {"bit-xor": 0.5, "mnist": 0.95, "digits": 0.5, "bit-memory": 0.4},
    }
    study = make_study(tmp_path, arms=("fpt", "random"), tasks=list(accuracies["fpt"]))
    fill(study, lambda run: accuracies[run.arm][run.task] + 0.002 * run.spec.seed)
    study.store.path(next(run.key for run in study.runs if run.task == "digits")).unlink()
    differences = {task: value for _, task, value in first_differences(study)}
    # Nothing is said of arms below the trivial baselines.
    assert differences == pytest.approx({"bit-xor": 20, "mnist": -10})


def test_the_headline_of_areas_is_their_ratio(tmp_path, monkeypatch):
    study = make_study(tmp_path, arms=("fpt", "random"), tasks=("bit-xor",))
    study = replace(study, profile=replace(study.profile, name="areas"))  # without claims
    fill(study, spread)
    areas = study.results()["arm"].map({"fpt": 0.2, "random": 0.4})
    results = study.results().assign(area=areas)
    monkeypatch.setattr(Study, "results", lambda study: results.copy())
    monkeypatch.setattr(Study, "measures", lambda study, task: "area")
    write_headlines([study])
    metrics = json.loads((tmp_path / "reports" / "areas" / "metrics.json").read_text())
    assert metrics == {"transfer": {"fpt / random on bit-xor": 0.5}}


def digests():
    """A digest of the key and of everything that was measured, per exploratory record."""
    rows = {}
    for record in exploratory():
        text = json.dumps([record.spec.key, measured_of(record)], sort_keys=True)
        rows[record.spec.key] = hashlib.sha256(text.encode()).hexdigest()[:32]
    return pd.DataFrame(sorted(rows.items()), columns=["key", "digest"])


def test_no_number_has_moved():
    frozen = pd.read_csv(FROZEN, dtype=str)
    merged = frozen.merge(digests(), on="key", how="left", suffixes=("", "_now"))
    assert (merged["digest"] == merged["digest_now"]).all()


if __name__ == "__main__":
    digests().to_csv(FROZEN, index=False)
