"""What the runs of an arm on a task gave: the numbers of every table.

Intervals reflect variation over seeds alone, each with a backbone of its own if the arm's
weights are drawn or pretrained for each: Student's t over one value per run. The test set
is fixed and the same for all runs.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from ..errors import FptError
from ..tasks import Task
from . import crossed
from .effects import LEVEL

# Student's t for 95% is 12.7 with two runs, 4.3 with three, 2.8 with five and 2.0 with
# many: below five, an interval says more about the number of runs than about the arm. Runs
# are shown instead.
FEWEST_RUNS = 5
# Columns, of which the first that a run has counts.
MEASURES = ["steps", "area", "accuracy"]
RATIOS = MEASURES[:2]  # compared as ratios
SUMMARY = [
    "task", "arm", "mean", "low", "high", "sd", "runs", "expected", "diverged", "censored",
]  # fmt: skip
INTERVALS = "Intervals reflect variation over seeds and backbones; the test set is fixed."
FEW_RUNS = f"There is no interval of fewer than {FEWEST_RUNS} runs."


def shown_values(results: pd.DataFrame) -> pd.Series:
    """The measure of each run: steps to the threshold if its task has one, the area if its
    profile measures areas, else test accuracy in percent. NaN without a record, and for the
    accuracy of a run that diverged."""
    return _first_measure(results.reindex(columns=MEASURES))


def tested_values(results: pd.DataFrame) -> pd.Series:
    """As `shown_values`, with natural logarithms of steps and areas: a difference is that
    of a ratio."""
    values = results.reindex(columns=MEASURES).astype(float)
    values[RATIOS] = np.log(values[RATIOS])
    return _first_measure(values)


def _first_measure(values: pd.DataFrame) -> pd.Series:
    return values.bfill(axis=1)[MEASURES[0]]


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean with its 95% interval; NaN for the interval of fewer than FEWEST_RUNS
    values, and of equal values: runs that are all at 100% say nothing of how far another
    may be from it."""
    if len(values) == 0:
        return math.nan, math.nan, math.nan
    mean = float(np.mean(values))
    # Equal values would have an interval of no width.
    if len(values) < FEWEST_RUNS or np.ptp(values) == 0:
        return mean, math.nan, math.nan
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(LEVEL)
    return mean, float(interval.low), float(interval.high)


def _interval(runs: pd.DataFrame) -> tuple[float, float, float]:
    """The mean of column `value` with its interval: over draws and seeds if the measure is
    the area, for which draws are crossed with seeds, else over runs. NaN for the interval
    if a run has no value."""
    values = list(runs["value"].dropna())
    mean, low, high = mean_interval(values)
    # Those that are missing or diverged may be the worst ones.
    if len(values) < len(runs):
        return mean, math.nan, math.nan
    has_areas = "area" in runs and runs["area"].notna().any()
    if not has_areas or math.isnan(low):
        return mean, low, high
    table = crossed.by_draw_and_seed(runs)
    effect = crossed.difference(table, 0.0 * table.iloc[:1])
    return mean, effect.low, effect.high


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """One row per task and arm: the mean of `tested_values` with its interval and standard
    deviation, and how many `runs` of those `expected` gave one, diverged, or are
    `censored`. There is no interval until every expected run is recorded, none beside runs
    that diverged, and none of fewer than FEWEST_RUNS."""
    rows = []
    for (task, arm), runs in results.groupby(["task", "arm"], sort=False):
        values = tested_values(runs).dropna()
        mean, low, high = _interval(runs.assign(value=values))
        diverged = (runs["status"] == "diverged").sum()
        counts = (len(values), len(runs), diverged, runs["censored"].sum())
        rows.append((task, arm, mean, low, high, values.std(), *counts))
    return pd.DataFrame(rows, columns=SUMMARY)


def baselines(task: Task) -> dict[str, float]:
    """Test accuracies in percent of predictors that learn nothing or next to nothing; empty
    if they need data that are not here."""
    try:
        floors = task.floors()
    except FptError:
        return {}
    # A colon names a part of the test set.
    return {name: 100 * accuracy for name, accuracy in floors.items() if ": " not in name}
