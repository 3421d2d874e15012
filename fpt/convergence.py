"""Steps to convergence with a written criterion and censoring (the paper's section 3.4 has none).

A speed-up compares medians of steps to one common target; a run that never gets there is censored,
not left out.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fpt.errors import FptError


@dataclass(frozen=True)
class Convergence:
    """The gradient step at which a run converged; if `censored`, it had not by then.

    A run that diverged never will: it is censored at infinity.
    """

    step: float
    censored: bool


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


def steps_to_convergence(
    steps: Sequence[int],
    values: Sequence[float],
    se: float,
    target: float | None = None,
    window: int = 3,
    relative: float = 0.01,
) -> Convergence:
    """The first step whose trailing mean over `window` evaluations reaches the level less slack.

    The level is `target` (the same for two arms whose speed is compared), or else the run's own
    final trailing mean. The slack is one standard error `se` of an evaluation or `relative` of the
    level, whichever is larger. Censored at the last step: a run that never reaches the level, and
    one that reaches its own final level too late for a whole further window to show a plateau.
    Diverged is a run with a value that is not finite.
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
    reached = np.flatnonzero(trailing >= level - max(se, relative * abs(level)))
    latest = len(trailing) - 1 - (window if target is None else 0)
    if len(reached) == 0 or reached[0] > latest:
        return Convergence(float(steps[-1]), True)
    return Convergence(float(steps[int(reached[0]) + window - 1]), False)


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
    coverage = 1 - 2 * stats.binom.cdf(depths - 1, n, 0.5)
    deepest = int(max(np.flatnonzero(coverage >= level), default=0))
    return Median(
        median=(ordered[(n - 1) // 2] + ordered[n // 2]) / 2,
        low=ordered[deepest],
        high=ordered[n - 1 - deepest],
        n=n,
        censored=sum(math.isinf(step) for step in ordered),
        level=float(max(coverage[deepest], 0.0)),
    )
