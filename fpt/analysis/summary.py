"""What the runs of an arm on a task gave, and how two arms differ: the numbers of every table.

Intervals reflect variation over seeds alone, each with a backbone of its own if the arm's weights
are drawn or pretrained for each: Student's t over one value per run, Welch's for two arms. The test
set is fixed and the same for all runs. Scores are those of `Study.frame`: percent, or logarithms of
steps.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from ..files import FptError
from ..sections.comparison import Pair
from ..tasks import Task
from .effects import LEVEL, Effect, difference, heterogeneity

SUMMARY = ["task", "arm", "mean", "low", "high", "sd", "runs", "expected", "diverged", "censored"]
INTERVALS = "Intervals reflect variation over seeds and backbones; the test set is fixed."
DIFFERENCES = ["task", "arm", "minus", "estimate", "low", "high", "p"]


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean with its 95% interval; NaN for the interval of one value, and of equal values: three
    runs at 100% say nothing of how far a fourth may be from it."""
    if len(values) == 0:
        return math.nan, math.nan, math.nan
    x = np.asarray(values, float)
    if len(x) < 2 or np.ptp(x) == 0:
        return float(x.mean()), math.nan, math.nan
    found = stats.ttest_1samp(x, 0.0).confidence_interval(LEVEL)
    return float(x.mean()), float(found.low), float(found.high)


def summary(results: pd.DataFrame, score: str = "score") -> pd.DataFrame:
    """One row per task and arm: the mean of a column with its interval and standard deviation, and
    how many `runs` of those `expected` gave one, diverged, or are `censored`. There is no interval
    until every expected run is recorded, and none beside runs that diverged."""
    rows = []
    for (task, arm), runs in results.groupby(["task", "arm"], sort=False):
        values = runs[score].dropna() if score in runs else pd.Series(dtype=float)
        mean, low, high = mean_interval(list(values))
        if len(values) < len(runs):
            low = high = math.nan
        counts = (runs["status"] == "diverged").sum(), runs["censored"].sum()
        rows.append((task, arm, mean, low, high, values.std(), len(values), len(runs), *counts))
    return pd.DataFrame(rows, columns=SUMMARY)


def differences(results: pd.DataFrame, pairs: Iterable[Pair]) -> pd.DataFrame:
    """One row per task and pair of arms that both have runs on it: the first minus the second by
    `fpt.analysis.effects.difference`, with a two-sided p. NaN until every run of both is recorded
    and has a score."""
    scores = {(task, arm): runs["score"] for (task, arm), runs in results.groupby(["task", "arm"])}
    rows = [
        (task, a, b, *_effect(scores[task, a], scores[task, b]))
        for a, b in pairs
        for task in dict.fromkeys(results["task"])
        if (task, a) in scores and (task, b) in scores
    ]
    return pd.DataFrame(rows, columns=DIFFERENCES)


def _effect(a: pd.Series, b: pd.Series) -> tuple[float, float, float, float]:
    if a.isna().any() or b.isna().any():
        return math.nan, math.nan, math.nan, math.nan
    found = difference(a, b)
    two_sided = min(1.0, 2 * min(found.p, found.against))
    return found.estimate, found.low, found.high, two_sided


def pooled(results: pd.DataFrame, pair: Pair) -> Effect | None:
    """The first arm minus the second, averaged over the tasks that both have: one value per seed,
    whose backbone is the unit. None until every run of both is recorded and has a score, and if no
    seed of one has all these tasks."""
    mine = results[results["arm"].isin(pair)]
    shared = mine.groupby("task")["arm"].nunique()
    mine = mine[mine["task"].isin(shared.index[shared == 2])]
    if mine.empty or mine["score"].isna().any():
        return None
    means = backbone_means(mine, dict.fromkeys(mine["task"]))
    sides = [means[means.index.get_level_values("arm") == arm] for arm in pair]
    return difference(*sides) if all(map(len, sides)) else None


def unequal(results: pd.DataFrame, pair: Pair) -> float:
    """The p-value of the hypothesis that two arms differ by the same amount on every task; NaN with
    one task."""
    groups = []
    for task, runs in results.groupby("task", sort=False):
        means = backbone_means(runs, [str(task)])
        first, second = (list(means[means.index.get_level_values("arm") == arm]) for arm in pair)
        groups.append((first, second))
    return heterogeneity(groups)


def backbone_means(results: pd.DataFrame, tasks: Iterable[str], column: str = "score") -> pd.Series:
    """The mean over `tasks` of a column, per arm and seed; without seeds that lack a task."""
    wide = results.pivot_table(index=["arm", "seed"], columns="task", values=column)
    means: pd.Series = wide.reindex(columns=list(tasks)).dropna().mean(axis=1)
    return means


def baselines(task: Task) -> dict[str, float]:
    """Test accuracies in percent of predictors that learn nothing or next to nothing; empty if they
    need data that are not here."""
    try:
        return {name: 100 * it for name, it in task.floors().items() if ": " not in name}
    except FptError:
        return {}
