"""Means, intervals, differences between arms, and verdicts on claims, over runs.

An interval holds the seeds alone, with a backbone of their own if the arm's weights are drawn or
pretrained for each: Student's t over one value per run, Welch's for two arms. The test set is fixed
and the same for all runs, so nothing is said about other test sets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from fpt.files import FptError

Label = Literal["supported", "contradicted", "inconclusive", "not run"]
Direction = Literal["greater", "less", "equal"]


@dataclass(frozen=True)
class Interval:
    """A mean over `n` values with standard deviation `sd`, and the interval of the true mean."""

    mean: float
    low: float
    high: float
    n: int
    sd: float


@dataclass(frozen=True)
class Difference:
    """An effect with its interval and two-sided p, its standard error and degrees of freedom."""

    effect: float
    low: float
    high: float
    p: float
    se: float
    df: float


@dataclass(frozen=True)
class Verdict:
    """A claim's label, and the p-value that it holds `alpha` against (NaN where not run)."""

    label: Label
    p: float


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's interval of the mean over seeds; one value, and values without spread, have none
    (NaN)."""
    x = _finite(values)
    mean, se, n = float(x.mean()), _se(x), len(x)
    half = _quantile(level, n - 1) * se if se > 0 else math.nan
    return Interval(mean, mean - half, mean + half, n, se * math.sqrt(n))


def difference(a: Sequence[float], b: Sequence[float] | float, level: float = 0.95) -> Difference:
    """Mean of `a` minus mean of `b` by Welch's test; a number for `b` is a known constant, and the
    test then is Student's of one sample.

    An arm of one value, and arms that have no spread at all, are not tested: interval and p are
    NaN. Three runs at 100% show nothing of how far a fourth may be from it.
    """
    arms = [_finite(a)] if isinstance(b, int | float) else [_finite(a), _finite(b)]
    effect = float(np.mean(a) - np.mean(b))
    return _welch(effect, [(_se(x), len(x) - 1) for x in arms], level)


def contrast(a: Difference, b: Difference, level: float = 0.95) -> Difference:
    """Effect `a` minus effect `b` of other runs: whether one difference is larger than another."""
    return _welch(a.effect - b.effect, [(a.se, a.df), (b.se, b.df)], level)


def verdict(
    found: Difference | None, direction: Direction, margin: float = 0.0, alpha: float = 0.05
) -> Verdict:
    """What an effect says of a claim: it is above `margin`, below -`margin`, or within it.

    A claim is supported if the whole interval of level 1 - `alpha` lies where it says, contradicted
    if the whole interval lies elsewhere. So p, which counts both tails, is at most `alpha` at most
    `alpha` of the time if the truth is at the edge. None means not run; an effect without an
    interval decides nothing.
    """
    if direction not in ("greater", "less", "equal"):
        raise FptError(f"{direction!r} is no direction; allowed are greater, less, equal.")
    if margin < 0 or (direction == "equal" and margin == 0):
        raise FptError(f"A margin of {margin} cannot be tested; give a positive one.")
    if found is None:
        return Verdict("not run", math.nan)
    if math.isnan(found.p):
        return Verdict("inconclusive", 1.0)
    room = {
        "greater": found.effect - margin,
        "less": -margin - found.effect,
        "equal": margin - abs(found.effect),
    }[direction]
    p = 2 * _tail(abs(room) / found.se, found.df)
    if p > alpha:
        return Verdict("inconclusive", p)
    return Verdict("supported" if room > 0 else "contradicted", p)


def holm(pvalues: Sequence[float], tests: int = 0) -> list[float]:
    """Holm's step-down adjustment; NaN (not run) stays NaN.

    `tests` is the size of the family, if more than ran. It is fixed before any does: else a test
    that is missing would make the others stronger.
    """
    p = np.asarray(pvalues, dtype=float)
    ran = np.flatnonzero(~np.isnan(p))
    order = ran[np.argsort(p[ran], kind="stable")]
    scaled = p[order] * (max(tests, len(order)) - np.arange(len(order)))
    p[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(value) for value in p]


def ledger(verdicts: Sequence[Verdict], tests: int = 0, alpha: float = 0.05) -> list[Verdict]:
    """The verdicts with p adjusted as by `holm`; what no longer holds at `alpha` becomes
    inconclusive."""
    adjusted = holm([it.p for it in verdicts], tests)
    return [
        replace(it, p=p, label="inconclusive" if p > alpha else it.label)
        for it, p in zip(verdicts, adjusted, strict=True)
    ]


def _finite(values: Sequence[float]) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise FptError(f"{list(values)} are no measurements; give at least one, all finite.")
    return x


def _se(x: np.ndarray) -> float:
    """The standard error of the mean; 0 if all values are one, NaN for a single value."""
    if len(x) == 1:
        return math.nan
    return float(x.std(ddof=1) / math.sqrt(len(x))) if np.ptp(x) else 0.0


def _welch(effect: float, parts: Sequence[tuple[float, float]], level: float) -> Difference:
    """The difference whose parts have these standard errors, with these degrees of freedom."""
    se = math.hypot(*(part for part, _ in parts))
    if not se > 0:
        return Difference(effect, math.nan, math.nan, math.nan, se, math.nan)
    df = se**4 / sum(part**4 / freedom for part, freedom in parts if part)
    half, p = _quantile(level, df) * se, 2 * _tail(abs(effect) / se, df)
    return Difference(effect, effect - half, effect + half, p, se, df)


def _quantile(level: float, df: float) -> float:
    """Within how many standard errors of 0 Student's t lies with this chance; NaN without df."""
    return float(special.stdtrit(df, (1 + level) / 2)) if df else math.nan


def _tail(distance: float, df: float) -> float:
    """The chance that Student's t lies beyond a distance."""
    return float(special.stdtr(df, -distance))
