"""Tests for one published model against controls that are drawn: draws crossed with seeds.

A published model exists once. What varies among its runs is their seed: the nets around it
and the order of the data. A control varies in its draw as well. So each draw of a control
is trained with every seed, and both parts of the spread are in the error of a difference. A
table is a DataFrame whose index are the draws (one row for a model that is not drawn) and
whose columns are the seeds; its values are logarithms of areas under the validation loss,
less is better.

Two statements are kept apart. `difference` is about this model against the mean of all
draws. `rank_among` asks whether the model could be one of them.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from .effects import LEVEL, Effect, mean_part, summed


def by_draw_and_seed(runs: pd.DataFrame) -> pd.DataFrame:
    """The column `value` of the runs of one arm on one task, whose seed is a column or the
    index, as such a table, without draws that lack a seed."""
    # A draw without a seed would not be crossed with it. A model that is not drawn is one
    # row.
    runs = runs.assign(draw=runs["draw"].fillna(-1)).reset_index()
    return runs.pivot(index="draw", columns="seed", values="value").dropna()


def on_shared_seeds(
    first: pd.DataFrame, second: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of the runs of two arms, on the seeds that both have."""
    tables = by_draw_and_seed(first), by_draw_and_seed(second)
    seeds = tables[0].columns.intersection(tables[1].columns)
    return tables[0][seeds], tables[1][seeds]


def difference(first: pd.DataFrame, second: pd.DataFrame, margin: float = 0.0) -> Effect:
    """The mean of `first` minus that of `second`, on the same seeds: p of its being below
    `margin`, `against` of its being above zero.

    The variance of the estimate has a part per source: of the differences by seed, over the
    number of seeds, and of the means by draw of an arm that is drawn, over the number of
    its draws. The latter hold a share of what seeds add, so that the sum is a little too
    large, never too small. The degrees of freedom are Welch and Satterthwaite's. NaN
    without two seeds or without spread.
    """
    # Differences by seed, since a seed acts on both arms alike.
    by_seed = first.mean() - second.mean()
    if len(by_seed) < 2:
        return Effect(math.nan)
    estimate = float(by_seed.mean())
    drawn = [table.mean(axis=1) for table in (first, second) if len(table) > 1]
    variance, freedom = summed([mean_part(means) for means in (by_seed, *drawn)])
    if not variance > 0:
        return Effect(estimate)
    error = math.sqrt(variance)
    half = float(stats.t.isf((1 - LEVEL) / 2, freedom)) * error
    below = float(stats.t.cdf((estimate - margin) / error, freedom))
    above = float(stats.t.sf(estimate / error, freedom))
    return Effect(estimate, estimate - half, estimate + half, below, above, freedom)


def two_sided(effect: Effect) -> float:
    """The p-value of a claim whose either direction is news; NaN without a test."""
    p = min(effect.p, effect.against)
    return p if math.isnan(p) else min(1.0, 2 * p)


def rank_among(value: float, draws: Sequence[float]) -> float:
    """The exact two-sided p-value of the hypothesis that `value` is one more of the
    `draws`: how extreme its rank is. With 39 draws the least that it can be is 0.05."""
    below = sum(draw < value for draw in draws)
    above = sum(draw > value for draw in draws)
    return min(1.0, 2 * (min(below, above) + 1) / (len(draws) + 1))


def is_unlike_draws(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether the mean of a model lies outside the interval that holds 95% of further draws
    of a control: sd of its draws times sqrt(1 + 1/draws), Student's t, on the same
    seeds."""
    means = second.mean(axis=1)
    half = (
        stats.t.isf((1 - LEVEL) / 2, len(means) - 1)
        * means.std()
        * np.sqrt(1 + 1 / len(means))
    )
    return bool(abs(first.mean(axis=1).mean() - means.mean()) > half)
