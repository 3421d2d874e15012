"""The tests of claims: one number and one p-value each, in one direction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.95  # of every interval, two-sided
PERMUTATIONS = 9999
# Values of each arm that Welch's test needs; with fewer its errors exceed its level.
FEWEST = 5
# Of a partial correlation: with four, its interval has no degree of freedom.
FEWEST_UNITS = 5
ROUNDING = 1e-9  # relative size below which a spread is the rounding of a sum


@dataclass(frozen=True)
class Effect:
    """An estimate with its interval, and the p-value of the claim's direction; `against` is
    that of the opposite direction, `freedom` the degrees of freedom of an interval by
    Student's t. NaN stands for what cannot be told."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    against: float = math.nan
    freedom: float = math.nan


UNKNOWN = Effect(math.nan)
Part = tuple[float, float]  # a variance and its degrees of freedom


def mean_part(values: Any) -> Part:
    """The variance of a mean of independent values, and its degrees of freedom."""
    return values.var(ddof=1) / len(values), len(values) - 1


def summed(parts: Sequence[Part]) -> Part:
    """The sum of some variances, with Welch and Satterthwaite's degrees of freedom; NaN
    freedom without spread."""
    variance = math.fsum(part for part, _ in parts)
    squares = math.fsum(part**2 / freedom for part, freedom in parts)
    return variance, variance**2 / squares if squares else math.nan


def difference(
    first: Sequence[float], second: Sequence[float], margin: float = 0.0
) -> Effect:
    """The mean of `first` minus that of `second`; p of its being below -`margin`.

    Welch's test if each arm has at least five values that differ. Otherwise p comes from
    the permutations of values between the arms, all of them if there are at most 9,999; an
    arm without any spread then has no interval either. Arms whose values are all equal, or
    an arm of fewer than two values, are not tested (NaN)."""
    x = np.asarray(first, float)
    y = np.asarray(second, float)
    fewest = min(len(x), len(y))
    if fewest == 0:
        return UNKNOWN
    estimate = float(x.mean() - y.mean())
    if fewest < 2 or np.ptp([*x, *y]) == 0:
        return Effect(estimate)
    low = high = math.nan
    has_spread = min(np.ptp(x), np.ptp(y)) > 0
    if has_spread:
        low, high = stats.ttest_ind(x, y, equal_var=False).confidence_interval(LEVEL)
    p_value = _welch if has_spread and fewest >= FEWEST else permuted
    # The margin belongs to the claim: the opposite is any difference in the other
    # direction.
    p = p_value(x + margin, y, "less")
    against = p_value(x, y, "greater")
    return Effect(estimate, float(low), float(high), p, against)


def _welch(x: np.ndarray, y: np.ndarray, alternative: str) -> float:
    return float(stats.ttest_ind(x, y, equal_var=False, alternative=alternative).pvalue)


def permuted(x: np.ndarray, y: np.ndarray, alternative: str) -> float:
    """The one-sided p-value of a difference of means by permutation, exact if it can be."""
    test = stats.permutation_test(
        (x, y),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        vectorized=True,
        n_resamples=PERMUTATIONS,
        alternative=alternative,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def corrected(p_values: Sequence[float], kind: str) -> list[float]:
    """The adjusted p-values of all claims of one kind, Holm's if they are `primary` and
    Benjamini and Hochberg's if not; a claim without one counts as 1."""
    from statsmodels.stats.multitest import multipletests  # slow to import, as below

    # Primary claims hold the chance of any error, secondary ones the rate of errors.
    method = "holm" if kind == "primary" else "fdr_bh"
    adjusted = multipletests(np.nan_to_num(p_values, nan=1.0), method=method)[1]
    return [float(p) for p in adjusted]


def power(effect: Effect, expected: float, level: float) -> float:
    """How often a two-sided test at `level` decides for the direction of the true effect if
    that is `expected`, and the spread that of the runs behind `effect`; NaN without degrees
    of freedom."""
    error = (effect.high - effect.low) / 2 / stats.t.isf((1 - LEVEL) / 2, effect.freedom)
    critical = stats.t.isf(level / 2, effect.freedom)
    # By SciPy: statsmodels' ttest_power is NaN for some effects of many standard errors.
    return float(stats.nct.sf(critical, effect.freedom, abs(expected) / error))


def heterogeneity(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The p-value of the hypothesis that two arms differ by the same amount in every group,
    such as a task: Cochran's Q with Welch's correction for few values. Each group has the
    values of both arms; those in which neither arm has any spread are left out. NaN with
    fewer than two groups.

    Groups count as independent. Backbones that do well on every task make the test
    conservative."""
    # Slow to import, and few commands need it.
    from statsmodels.stats.oneway import anova_generic

    estimates = []
    variances = []
    degrees_of_freedom = []
    for first, second in groups:
        if min(len(first), len(second)) < 2:
            continue
        variance, freedom = summed([mean_part(np.array(side)) for side in (first, second)])
        if variance > 0:
            estimates.append(np.mean(first) - np.mean(second))
            variances.append(variance)
            degrees_of_freedom.append(freedom)
    if len(estimates) < 2:
        return math.nan
    # Q with this correction is Welch's analysis of variance of groups that have as many
    # values as the differences have degrees of freedom, plus one.
    counts = np.array(degrees_of_freedom) + 1
    test = anova_generic(
        np.array(estimates), np.array(variances) * counts, counts, use_var="unequal"
    )
    return float(test.pvalue)


def more_solved(first: Sequence[bool], second: Sequence[bool]) -> Effect:
    """Whether a larger fraction of `first` than of `second` is solved: Boschloo's exact
    test, and Newcombe's interval of the difference."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    solved = [sum(first), sum(second)]
    runs = [len(first), len(second)]
    table = np.array([solved, np.subtract(runs, solved)])
    low, high = confint_proportions_2indep(
        solved[0], runs[0], solved[1], runs[1], method="newcomb", alpha=1 - LEVEL
    )
    p = stats.boschloo_exact(table, alternative="greater").pvalue
    against = stats.boschloo_exact(table, alternative="less").pvalue
    estimate = solved[0] / runs[0] - solved[1] / runs[1]
    return Effect(estimate, float(low), float(high), float(p), float(against))


def falls_with(
    x: Sequence[float], y: Sequence[float], covariate: Sequence[float]
) -> Effect:
    """Whether `y` falls as `x` rises at an equal `covariate`: Spearman's partial
    correlation over units (corpora), with a permutation of the units' residuals (Freedman
    and Lane) and Fisher's interval.

    NaN if there are fewer than five units, if a value is not finite, or if `x` or `y` has
    no spread beside the covariate. A perfect correlation has no interval."""
    columns = np.array([x, y, covariate], float)
    if columns.shape[1] < FEWEST_UNITS or not np.isfinite(columns).all():
        return UNKNOWN
    x_ranks, y_ranks, covariate_ranks = stats.rankdata(columns, axis=1)
    centred = covariate_ranks - covariate_ranks.mean()
    x_rest = _residual(x_ranks, centred)
    y_rest = _residual(y_ranks, centred)
    smallest = ROUNDING * len(centred)
    if min(np.linalg.norm(x_rest), np.linalg.norm(y_rest)) < smallest:
        return UNKNOWN
    estimate = float(np.clip(stats.pearsonr(x_rest, y_rest).statistic, -1, 1))
    draws = np.random.default_rng(0).permuted(np.tile(x_rest, (PERMUTATIONS, 1)), axis=1)
    # What a permuted residual has of the covariate goes again.
    draws -= np.outer(draws @ centred, centred) / max(centred @ centred, 1e-12)
    lengths = np.maximum(np.linalg.norm(draws, axis=1), smallest)
    drawn = draws @ y_rest / (lengths * np.linalg.norm(y_rest))
    # The observed order is one of those that count, so no p is zero.
    p = (1 + (drawn <= estimate + 1e-12).sum()) / (1 + PERMUTATIONS)
    against = (1 + (drawn >= estimate - 1e-12).sum()) / (1 + PERMUTATIONS)
    low = high = math.nan
    if abs(estimate) < 1 - ROUNDING:
        # Fisher's n - 3, and one less for the covariate.
        half = stats.norm.ppf((1 + LEVEL) / 2) / math.sqrt(len(centred) - 4)
        low = math.tanh(math.atanh(estimate) - half)
        high = math.tanh(math.atanh(estimate) + half)
    return Effect(estimate, low, high, float(p), float(against))


def _residual(values: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """What a centred covariate leaves of `values`; a covariate without spread leaves
    all."""
    rest: np.ndarray = values - values.mean()
    return rest - centred * (centred @ rest) / max(centred @ centred, 1e-12)
