"""The tests of claims: one number and one p-value each, in one direction, from scipy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95  # of every interval, two-sided
PERMUTATIONS = 9999
FEWEST = 5  # values of each arm that Welch's test needs; with fewer its errors exceed its level
FEWEST_UNITS = 5  # of a partial correlation: with four, its interval has no degree of freedom
ROUNDING = 1e-9  # relative size below which a spread is the rounding of a sum


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval, and the p-value of the claim's direction; `against` is that of
    the opposite direction. NaN stands for what cannot be told."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    against: float = math.nan


def difference(a: Sequence[float], b: Sequence[float], margin: float = 0.0) -> Effect:
    """The mean of `a` minus that of `b`; p of its being below -`margin`.

    Welch's test if each arm has at least five values that differ. Otherwise p comes from the
    permutations of values between the arms, all of them if there are at most 9,999; an arm
    without any spread then has no interval either. Arms whose values are all equal, or an arm of
    fewer than two values, are not tested (NaN)."""
    one, other = np.asarray(a, float), np.asarray(b, float)
    if not len(one) or not len(other):
        return Effect(math.nan)
    estimate = float(one.mean() - other.mean())
    if min(len(one), len(other)) < 2 or np.ptp([*one, *other]) == 0:
        return Effect(estimate)
    low = high = math.nan
    spread = min(np.ptp(one), np.ptp(other)) > 0
    if spread:
        interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval(LEVEL)
        low, high = float(interval.low), float(interval.high)
    if spread and min(len(one), len(other)) >= FEWEST:
        p = stats.ttest_ind(one + margin, other, equal_var=False, alternative="less").pvalue
        against = stats.ttest_ind(one, other, equal_var=False, alternative="greater").pvalue
    else:
        p = _permuted(one + margin, other, "less")
        against = _permuted(one, other, "greater")
    return Effect(estimate, low, high, float(p), float(against))


def _permuted(one: np.ndarray, other: np.ndarray, alternative: str) -> float:
    """The one-sided p-value of a difference of means by permutation, exact if it can be."""

    def statistic(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        found: np.ndarray = x.mean(axis=axis) - y.mean(axis=axis)
        return found

    test = stats.permutation_test(
        (one, other),
        statistic,
        vectorized=True,
        n_resamples=PERMUTATIONS,
        alternative=alternative,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def heterogeneity(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The p-value of the hypothesis that two arms differ by the same amount in every group, such as
    a task: Cochran's Q with Welch's correction for few values. Each group has the values of both
    arms; those in which neither arm has any spread are left out. NaN with fewer than two groups.

    Groups count as independent. Backbones that do well on every task make the test conservative."""
    estimates, variances, freedom = [], [], []
    for a, b in groups:
        one, other = np.asarray(a, float), np.asarray(b, float)
        if min(len(one), len(other)) < 2:
            continue
        parts = np.array([one.var(ddof=1) / len(one), other.var(ddof=1) / len(other)])
        if parts.sum() == 0:
            continue
        degrees = np.array([len(one) - 1, len(other) - 1])
        estimates.append(one.mean() - other.mean())
        variances.append(parts.sum())
        freedom.append(parts.sum() ** 2 / (parts**2 / degrees).sum())  # Welch and Satterthwaite
    count = len(estimates)
    if count < 2:
        return math.nan
    weights = 1 / np.array(variances)
    shares = weights / weights.sum()
    centre = (shares * estimates).sum()
    cochran_q = (weights * (np.array(estimates) - centre) ** 2).sum()
    lack = ((1 - shares) ** 2 / np.array(freedom)).sum()  # of certainty about the weights
    ratio = cochran_q / (count - 1) / (1 + 2 * (count - 2) / (count**2 - 1) * lack)
    return float(stats.f.sf(ratio, count - 1, (count**2 - 1) / (3 * lack)))


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
    interval.

    NaN if there are fewer than five units, if a value is not finite, or if `x` or `y` has no spread
    beside the covariate. A perfect correlation has no interval."""
    columns = [np.asarray(values, float) for values in (x, y, covariate)]
    if len(columns[0]) < FEWEST_UNITS or not all(np.isfinite(it).all() for it in columns):
        return Effect(math.nan)
    ranks = [stats.rankdata(values) for values in columns]
    centred = ranks[2] - ranks[2].mean()
    one, other = (_residual(ranks[index], centred) for index in (0, 1))
    smallest = ROUNDING * len(centred)
    if min(np.linalg.norm(one), np.linalg.norm(other)) < smallest:
        return Effect(math.nan)
    estimate = float(np.clip(stats.pearsonr(one, other).statistic, -1, 1))
    draws = np.random.default_rng(seed).permuted(np.tile(one, (PERMUTATIONS, 1)), axis=1)
    # What a permuted residual has of the covariate goes again.
    draws -= np.outer(draws @ centred, centred) / max(centred @ centred, 1e-12)
    lengths = np.maximum(np.linalg.norm(draws, axis=1), smallest)
    drawn = draws @ other / (lengths * np.linalg.norm(other))
    p, against = (
        # The observed order is one of those that count, so no p is zero.
        (1 + int((sign * drawn <= sign * estimate + 1e-12).sum())) / (1 + PERMUTATIONS)
        for sign in (1, -1)
    )
    low = high = math.nan
    if abs(estimate) < 1 - ROUNDING:
        # Fisher's n - 3, and one less for the covariate.
        half = stats.norm.ppf((1 + LEVEL) / 2) / math.sqrt(len(one) - 4)
        low, high = (math.tanh(math.atanh(estimate) + sign * half) for sign in (-1, 1))
    return Effect(estimate, low, high, p, against)


def _residual(values: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """What a centred covariate leaves of `values`; a covariate without spread leaves all."""
    rest: np.ndarray = values - values.mean()
    return rest - centred * (centred @ rest) / max(centred @ centred, 1e-12)
