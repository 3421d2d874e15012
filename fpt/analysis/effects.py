"""The tests of claims: one number and one p-value each, in one direction, from scipy."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95  # of every interval, two-sided
PERMUTATIONS = 9999


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval, and the p-value of the claim's direction; `against` is that of
    the opposite direction."""

    estimate: float
    low: float
    high: float
    p: float
    against: float


def difference(a: Sequence[float], b: Sequence[float], margin: float = 0.0) -> Effect:
    """The mean of `a` minus that of `b` by Welch's test; p of its being below -`margin`.

    Two arms without any spread, or an arm of fewer than two values, are not tested (NaN)."""
    one, other = np.asarray(a, float), np.asarray(b, float)
    estimate = float(one.mean() - other.mean()) if len(one) and len(other) else math.nan
    if min(len(one), len(other)) < 2 or np.ptp(one) == np.ptp(other) == 0:
        return Effect(estimate, math.nan, math.nan, math.nan, math.nan)
    with warnings.catch_warnings():
        # Where one arm alone has no spread, scipy warns of its rounding.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        low, high = stats.ttest_ind(one, other, equal_var=False).confidence_interval(LEVEL)
        p = stats.ttest_ind(one + margin, other, equal_var=False, alternative="less").pvalue
        against = stats.ttest_ind(one, other, equal_var=False, alternative="greater").pvalue
    return Effect(estimate, float(low), float(high), float(p), float(against))


def more_solved(a: Sequence[bool], b: Sequence[bool]) -> Effect:
    """Whether a larger fraction of `a` than of `b` is solved: Boschloo's exact test, and Newcombe's
    interval of the difference."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    table = [[sum(a), sum(b)], [len(a) - sum(a), len(b) - sum(b)]]
    low, high = confint_proportions_2indep(
        sum(a), len(a), sum(b), len(b), method="newcomb", alpha=1 - LEVEL
    )
    p, against = (
        float(stats.boschloo_exact(table, alternative=way).pvalue) for way in ("greater", "less")
    )
    return Effect(sum(a) / len(a) - sum(b) / len(b), float(low), float(high), p, against)


def falls_with(
    x: Sequence[float], y: Sequence[float], covariate: Sequence[float], seed: int = 0
) -> Effect:
    """Whether `y` falls as `x` rises at an equal `covariate`: Spearman's partial correlation over
    units (corpora), with a permutation of the units' residuals (Freedman and Lane) and Fisher's
    interval."""
    ranks = [stats.rankdata(values) for values in (x, y, covariate)]
    one, other = (_residual(ranks[index], ranks[2]) for index in (0, 1))
    estimate = float(stats.pearsonr(one, other).statistic)
    draws = np.random.default_rng(seed).permuted(np.tile(one, (PERMUTATIONS, 1)), axis=1)
    centred = ranks[2] - ranks[2].mean()  # what a permuted residual has of the covariate goes again
    draws -= np.outer(draws @ centred, centred) / max(centred @ centred, 1e-12)
    drawn = draws @ other / (np.linalg.norm(draws, axis=1) * np.linalg.norm(other))
    p, against = (
        (1 + int((sign * drawn <= sign * estimate + 1e-12).sum())) / (1 + PERMUTATIONS)
        for sign in (1, -1)
    )
    half = stats.norm.ppf((1 + LEVEL) / 2) / math.sqrt(len(one) - 4)
    low, high = (math.tanh(math.atanh(estimate) + sign * half) for sign in (-1, 1))
    return Effect(estimate, low, high, p, against)


def _residual(values: np.ndarray, covariate: np.ndarray) -> np.ndarray:
    fit = stats.linregress(covariate, values)
    rest: np.ndarray = values - fit.intercept - fit.slope * covariate
    return rest
