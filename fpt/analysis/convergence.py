"""Steps to convergence with a written criterion and censoring (the paper's section 3.4 has none).

A speed-up compares steps to one common target; a run that never gets there is censored, not left
out.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fpt.files import FptError

SLACK = 0.01  # of a level, within which it counts as reached


@dataclass(frozen=True)
class Convergence:
    """The gradient step at which a run converged; if `censored`, it had not by then.

    A run that diverged never will: it is censored at infinity. `first`: converged at the first step
    at which that could be seen, so it may have been sooner.
    """

    step: float
    censored: bool
    first: bool = False


@dataclass(frozen=True)
class Median:
    """A median of steps over `n` runs, its interval, and the coverage this interval really has.

    A bound that lies among the censored runs is infinite.
    """

    median: float
    low: float
    high: float
    n: int
    censored: int
    level: float


@dataclass(frozen=True)
class Speedup:
    """How many times as many steps the slow arm needs as the fast one, over all pairs of runs.

    The median ratio lies in [`least`, `most`]: one number, unless censored runs leave it open.
    [`low`, `high`] is its interval, which covers at least `level` where the arms' steps differ by a
    factor; `runs` are those of the slow and the fast arm.
    """

    least: float
    most: float
    low: float
    high: float
    runs: tuple[int, int]
    level: float


def steps_to_convergence(
    steps: Sequence[int],
    values: Sequence[float],
    target: float | None = None,
    window: int = 3,
    plateau: bool = False,
) -> Convergence:
    """The first step whose trailing mean over `window` evaluations is at most `SLACK` of the level
    below it.

    The level is `target` (the same for two arms whose speed is compared), or else the run's own
    final trailing mean. Censored at the last step: a run that never reaches the level, and
    one that reaches its own final level too late for a whole further window to show a plateau,
    unless a `plateau` is known, as of a run that was stopped for it. Diverged is a run with a value
    that is not finite.
    """
    if len(steps) != len(values) or len(steps) < 2 * window:
        raise FptError(
            f"{len(steps)} steps with {len(values)} values are no learning curve; "
            f"give equally many, at least {2 * window}."
        )
    curve = np.asarray(values, dtype=float)
    if not np.isfinite(curve).all():
        return Convergence(math.inf, True)
    trailing = np.convolve(curve, np.full(window, 1 / window), mode="valid")
    level = float(trailing[-1]) if target is None else target
    reached = np.flatnonzero(trailing >= level - SLACK * abs(level))
    latest = len(trailing) - 1 - (window if target is None and not plateau else 0)
    if len(reached) == 0 or reached[0] > latest:
        return Convergence(float(steps[-1]), True)
    return Convergence(float(steps[int(reached[0]) + window - 1]), False, bool(reached[0] == 0))


def median_steps(runs: Iterable[Convergence], level: float = 0.95) -> Median:
    """The median step over seeds with a distribution-free interval from order statistics.

    Every run is first cut to the shortest censored budget, beyond which the order of the runs is
    unknown; what lies beyond is infinite. The interval is the narrowest pair of order statistics
    that covers at least `level`; below six runs not even the extremes do, and the coverage they
    have is returned instead of promised.
    """
    found = list(runs)
    if not found:
        raise FptError("A median needs at least one run; give some.")
    budget = min((run.step for run in found if run.censored), default=math.inf)
    ordered = sorted(math.inf if run.censored or run.step > budget else run.step for run in found)
    n = len(ordered)
    depths = np.arange(1, (n + 1) // 2 + 1)
    coverage = 1 - 2 * special.bdtr(depths - 1, n, 0.5)
    deepest = int(max(np.flatnonzero(coverage >= level), default=0))
    return Median(
        median=(ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
        low=ordered[deepest],
        high=ordered[n - 1 - deepest],
        n=n,
        censored=sum(math.isinf(step) for step in ordered),
        level=float(max(coverage[deepest], 0.0)),
    )


def speedup(
    slow: Iterable[Convergence], fast: Iterable[Convergence], level: float = 0.95
) -> Speedup:
    """The median ratio of steps over all pairs of a slow and a fast run (Hodges and Lehmann's
    estimate on the logarithm), with the interval that inverts Mann and Whitney's test.

    A censored run bounds its ratios from one side, and so does one that converged at the first look
    that could show it; the interval holds for every value within the bounds. Three runs on each
    side cover at most 90%, five 99%.
    """
    slower, faster = [list(runs) for runs in (slow, fast)]
    if not slower or not faster:
        raise FptError("A speed-up needs at least one run on each side; give some.")
    from_, to = (np.array([_bounds(run) for run in runs]).T for runs in (faster, slower))
    with np.errstate(invalid="ignore"):
        least = np.subtract.outer(to[0], from_[1])
        most = np.subtract.outer(to[1], from_[0])
    lower = np.sort(np.where(np.isnan(least), -np.inf, least), axis=None)
    upper = np.sort(np.where(np.isnan(most), np.inf, most), axis=None)
    tails = np.cumsum(_wins(len(slower), len(faster)))
    coverage = 1 - 2 * tails[: (len(lower) + 1) // 2]
    deepest = int(max(np.flatnonzero(coverage >= level), default=0))
    middle = slice((len(lower) - 1) // 2, len(lower) // 2 + 1)
    return Speedup(
        least=_mean_ratio(lower[middle], -math.inf),
        most=_mean_ratio(upper[middle], math.inf),
        low=math.exp(lower[deepest]),
        high=math.exp(upper[-1 - deepest]),
        runs=(len(slower), len(faster)),
        level=float(max(coverage[deepest], 0.0)),
    )


def _bounds(run: Convergence) -> tuple[float, float]:
    """Logarithms of the steps between which a run converged."""
    soonest = -math.inf if run.first else math.log(run.step)
    return soonest, math.inf if run.censored else math.log(run.step)


def _mean_ratio(logs: np.ndarray, otherwise: float) -> float:
    """The geometric mean of ratios; of zero and infinity, nothing is known."""
    if np.isinf(logs).any() and logs.min() != logs.max():
        infinite = logs[np.isinf(logs)]
        return math.exp(infinite[0] if len(set(infinite)) == 1 else otherwise)
    return math.exp(logs.mean())


def _wins(n: int, m: int) -> np.ndarray:
    """Chances of 0 to n * m wins of one sample over another of the same distribution."""
    counts = np.zeros(n * m + 1)
    counts[0] = 1
    for i in range(1, n + 1):
        for wins in range(n * m, m + i - 1, -1):
            counts[wins] -= counts[wins - m - i]
        for wins in range(i, n * m + 1):
            counts[wins] += counts[wins - i]
    return counts / counts.sum()
