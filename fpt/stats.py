"""Means, intervals, differences between arms, and verdicts on claims, over runs.

Accuracies are fractions in [0, 1], one value per seed. Two things make them uncertain: the seed,
whose variance the sample shows and which averages out over seeds, and the test set, which all seeds
share, so that its variance does not. The second is estimated from the accuracy itself,
p(1 - p) / N, which is never too small: it also holds the item noise that the seeds do average out.

The two are joined as half-widths, each with its own quantile: h^2 = (t s)^2 + (z i)^2, where s is
the standard error from seeds and i the one from items. Adding the variances first and taking
Student's t at Satterthwaite's degrees of freedom covers too little where three seeds happen to
agree; this sum never covers less than the part that dominates. A p-value is the tail at which the
half-width reaches the effect.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from fpt.errors import FptError

Label = Literal["supported", "contradicted", "inconclusive", "not run"]
Direction = Literal["greater", "less", "equal"]

# How a claim's error rate is split between its two decisions. Together they are wrong at most
# `alpha` of the time when the truth sits exactly at the claim's edge. Of effects of 2 sd at five
# seeds against five, a two-sided Welch test (half and half) decides 77%, and no unbiased test more
# than the 79% of Student's. A claim that names its direction beforehand deserves most of the rate,
# its refutation the stricter test: with this split 85% are decided if they go the claim's way and
# 57% if they go the other.
SUPPORT, CONTRADICT = 0.8, 0.2

WELCH = 3  # values an arm from which on Welch's degrees of freedom hold; else the smaller arm's


@dataclass(frozen=True)
class Interval:
    """A mean over `n` values with standard deviation `sd`, and where the true mean lies."""

    mean: float
    low: float
    high: float
    n: int
    sd: float


@dataclass(frozen=True)
class Difference:
    """An effect with its interval and two-sided p.

    `seeds_se` (with `df` degrees of freedom) and `items_se` are its two standard errors.
    """

    effect: float
    low: float
    high: float
    p: float
    seeds_se: float
    df: float
    items_se: float


@dataclass(frozen=True)
class Verdict:
    """A claim's label, and the p-value that it holds `alpha` against (NaN where not run)."""

    label: Label
    p: float


def mean_interval(
    values: Sequence[float], test_items: int | None = None, level: float = 0.95
) -> Interval:
    """The interval of the expected accuracy of an arm on its task.

    With n seeds on one test set of N items its squared standard errors are sd^2 / n from seeds,
    with n - 1 degrees of freedom, and q(1 - q) / (N + z^2) from items, which does not shrink with
    n. q is Agresti and Coull's centre, the mean after adding z^2 / 2 right and z^2 / 2 wrong items,
    so a row of 100%s keeps a width. The interval is centred on q and cut to [0, 1].
    Without `test_items` this is the plain t-interval, for quantities of any scale. One value has
    no interval (NaN): it says nothing about seeds.
    """
    x = _finite(values)
    mean, sd, n = float(x.mean()), _sd(x), len(x)
    centre, items_se = (mean, 0.0) if test_items is None else _shrunk(mean, test_items, level)
    half = _half((1 - level) / 2, sd / math.sqrt(n), n - 1, items_se)
    low, high = centre - half, centre + half
    if test_items is not None:
        low, high = max(low, 0.0), min(high, 1.0)
    return Interval(mean, low, high, n, sd)


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of one run's accuracy on `n` items: the test set alone, no seeds."""
    if not 0 <= successes <= n or n < 1:
        raise FptError(f"{successes} successes in {n} items are impossible; give 0 to n of n >= 1.")
    p, z = successes / n, _quantile((1 - level) / 2, math.inf)
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return Interval(p, max(centre - half, 0.0), min(centre + half, 1.0), n, math.sqrt(p * (1 - p)))


def difference(
    a: Sequence[float],
    b: Sequence[float] | float,
    level: float = 0.95,
    test_items: int | None = None,
) -> Difference:
    """Mean of `a` minus mean of `b` by Welch's method; a number for `b` is a known constant.

    With `test_items`, each arm adds its test-set variance as in `mean_interval`. Arms that share a
    test set mostly err on the same items, so their true variance is smaller and this is cautious.
    Against a constant the variance is at least that of an arm which has it: close to 0 or 1 the
    one estimated from a lucky arm is too small. Two arms without any variance, and an arm of one
    value, have no interval (NaN).
    """
    constant = float(b) if isinstance(b, (int, float)) else None
    arms = [_finite(a)] if isinstance(b, (int, float)) else [_finite(a), _finite(b)]
    variances = [(_sd(x) ** 2 / len(x), len(x) - 1) for x in arms]
    seeds = sum(variance for variance, _ in variances)
    spread = sum(variance**2 / freedom for variance, freedom in variances if freedom)
    df = seeds**2 / spread if spread > 0 else math.inf
    fewest = min(len(x) for x in arms)
    if fewest < WELCH:
        df = min(df, fewest - 1)
    items = _items_se(arms, test_items, level)
    effect = float(np.mean(a) - np.mean(b))
    if test_items is None:
        return _difference(effect, math.sqrt(seeds), df, items, level)
    least, most = -1.0, 1.0
    if constant is not None:
        items = max(items, math.sqrt(constant * (1 - constant) / test_items))
        least, most = -constant, 1 - constant
    found = _difference(effect, math.sqrt(seeds), df, items, level)
    return replace(found, low=max(found.low, least), high=min(found.high, most))


def paired_difference(
    a: Sequence[float],
    b: Sequence[float],
    level: float = 0.95,
    items: tuple[int | None, int | None] = (None, None),
) -> Difference:
    """Mean of a[i] - b[i], for values that share a run, or runs that share seed, data order, body.

    Pairing pays where it correlates the two; otherwise it only loses degrees of freedom. `items`:
    the size of the test set behind each side, None where a side is no sample of items.
    """
    if len(a) != len(b):
        raise FptError(f"{len(a)} and {len(b)} values cannot be paired; give equally many.")
    arms = [_finite(a), _finite(b)]
    gaps = arms[0] - arms[1]
    seeds = _sd(gaps) / math.sqrt(len(gaps))
    items_se = math.hypot(*(_items_se([x], n, level) for x, n in zip(arms, items, strict=True)))
    return _difference(float(gaps.mean()), seeds, len(gaps) - 1, items_se, level)


def contrast(a: Difference, b: Difference, level: float = 0.95) -> Difference:
    """Effect `a` minus effect `b` of other runs: whether one difference is larger than another."""
    parts = [(it.seeds_se**2, it.df) for it in (a, b)]
    seeds = sum(variance for variance, _ in parts)
    spread = sum(variance**2 / df for variance, df in parts if df)
    df = seeds**2 / spread if spread > 0 else math.inf
    items = math.hypot(a.items_se, b.items_se)
    return _difference(a.effect - b.effect, math.sqrt(seeds), df, items, level)


def verdict(
    found: Difference | None, direction: Direction, margin: float = 0.0, alpha: float = 0.05
) -> Verdict:
    """What an effect says of a claim: it is above `margin`, below -`margin`, or within it.

    «greater» and «less» are one-sided tests, «equal» is two one-sided tests against a margin that
    must be positive. Claim and refutation share `alpha` as SUPPORT and CONTRADICT, so that p <=
    alpha happens at most alpha of the time when the truth is at the edge. None means not run.
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
    holds, fails = _tail(room, found), _tail(-room, found)
    p = min(holds / SUPPORT, fails / CONTRADICT, 1.0)
    if p > alpha:
        return Verdict("inconclusive", p)
    return Verdict("supported" if holds / SUPPORT <= alpha else "contradicted", p)


def equivalence(
    a: Sequence[float],
    b: Sequence[float] | float,
    margin: float,
    alpha: float = 0.05,
    test_items: int | None = None,
) -> Verdict:
    """Whether `a` and `b` are equal within `margin`, for claims such as «matches» and «100%»."""
    return verdict(difference(a, b, 1 - alpha, test_items), "equal", margin, alpha)


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


def reproduced(
    ours: Interval, paper_value: float, paper_items: int = 100, level: float = 0.95
) -> Label:
    """Whether a run like ours could have printed `paper_value`; meaningful in profile `paper` only.

    The paper's number is one run on about `paper_items` test images, so its error is the Wilson
    interval of that many, widened by our seed sd. Newcombe's method joins the two intervals, each
    bound by its own distance. Zero outside is «contradicted»; zero inside is «supported» only if
    our own interval is no wider than the paper's, else nothing has been learned.
    """
    paper = wilson(paper_value * paper_items, paper_items, level)
    if math.isnan(ours.low) or math.isnan(ours.sd):
        return "inconclusive"
    spread = _quantile((1 - level) / 2, ours.n - 1) * ours.sd
    gap = ours.mean - paper_value
    low = gap - math.hypot(ours.mean - ours.low, paper.high - paper_value, spread)
    high = gap + math.hypot(ours.high - ours.mean, paper_value - paper.low, spread)
    if low > 0 or high < 0:
        return "contradicted"
    sharp = ours.high - ours.low <= paper.high - paper.low
    return "supported" if sharp else "inconclusive"


def _finite(values: Sequence[float]) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or len(x) == 0 or not np.isfinite(x).all():
        raise FptError(f"{list(values)} are no measurements; give at least one, all finite.")
    return x


def _sd(x: np.ndarray) -> float:
    return float(x.std(ddof=1)) if len(x) > 1 else math.nan


def _shrunk(p: float, items: int, level: float) -> tuple[float, float]:
    """Agresti and Coull's centre for accuracy `p` on `items`, and its standard error."""
    if not 0 <= p <= 1 or items < 1:
        raise FptError(f"A mean of {p} on {items} items is no accuracy; give a fraction in [0, 1].")
    z2 = _quantile((1 - level) / 2, math.inf) ** 2
    q = (p * items + z2 / 2) / (items + z2)
    return q, math.sqrt(q * (1 - q) / (items + z2))


def _items_se(arms: Sequence[np.ndarray], test_items: int | None, level: float) -> float:
    if test_items is None:
        return 0.0
    return math.hypot(*(_shrunk(float(x.mean()), test_items, level)[1] for x in arms))


def _difference(
    effect: float, seeds_se: float, df: float, items_se: float, level: float
) -> Difference:
    found = Difference(effect, math.nan, math.nan, math.nan, seeds_se, df, items_se)
    if not math.hypot(seeds_se, items_se) > 0:
        return found
    half = _half((1 - level) / 2, seeds_se, df, items_se)
    p = 2 * _tail(abs(effect), found)
    return replace(found, low=effect - half, high=effect + half, p=p)


def _half(tail: float, seeds_se: float, df: float, items_se: float) -> float:
    """The half-width of an interval that leaves `tail` out on each side."""
    seeds = _quantile(tail, df) * seeds_se if seeds_se else 0.0
    return math.hypot(seeds, _quantile(tail, math.inf) * items_se)


def _tail(distance: float, found: Difference) -> float:
    """The chance of a deviation beyond `distance`: the inverse of `_half`."""
    if distance < 0:
        return 1 - _tail(-distance, found)
    if found.items_se == 0:
        return float(special.stdtr(found.df, -distance / found.seeds_se))
    errors = (found.seeds_se, found.df, found.items_se)
    if _half(1e-15, *errors) <= distance:
        return 1e-15
    if _half(0.4999999, *errors) >= distance:
        return 0.5
    from scipy.optimize import brentq  # longer to import than all else here; not every page tests

    root = brentq(
        lambda log: _half(10**log, *errors) - distance, -15, math.log10(0.4999999), xtol=1e-9
    )
    return float(10**root)


def _quantile(tail: float, df: float) -> float:
    """The upper quantile of Student's t; of the normal for infinite `df`."""
    return float(-special.ndtri(tail) if math.isinf(df) else -special.stdtrit(df, tail))
