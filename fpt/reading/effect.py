"""How two arms differ: one effect, paired by seed, with one interval and one of five words.

Two arms on one seed read the same data in the same order, so a seed is a pair. An arm that
is drawn has a draw for each seed, or several whose mean counts, so that the spread of the
differences holds the variance of its draws too. The test is Student's t on these
differences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ..errors import FptError
from .results import check_alike, record_of, trivial_rule

ALPHA = 0.05
POINTS = 2.0  # of accuracy: two arms within it are as good as each other
RATIO = 1.25  # of steps, likewise

Word = Literal[
    "replicates",
    "does not replicate",
    "in part",
    "could not tell",
    "nothing learned at this budget",
]
Measure = Literal[
    "test_accuracy",
    "steps_to_80",
    "steps_to_95",
    "steps_to_99",
    "steps_to_threshold",
    "area",
]


@dataclass(frozen=True)
class Effect:
    """The mean over seeds of the first arm's value minus the second's: points of accuracy,
    or logarithms of steps or areas. `low` and `high` bound its 95% interval, `low90` and
    `high90` its 90% interval; NaN for a single seed. `one_sided` says whether all seeds are
    on one side."""

    estimate: float
    low: float
    high: float
    low90: float
    high90: float
    p: float
    seeds: int
    sd: float  # of the differences
    one_sided: bool

    @property
    def ratio(self) -> float:
        """The ratio of geometric means, if the values are logarithms."""
        return math.exp(self.estimate)


def paired(
    first: "pd.Series[float]",
    second: "pd.Series[float]",
    more: tuple[float, float] = (0.0, 1.0),
    further: bool = False,
) -> Effect:
    """The effect between two arms whose values are indexed by seed, on the seeds that both
    have; the mean counts if a seed has several. FptError if they share none.

    `more` is a variance of the estimate beside that of seeds, with its degrees of freedom
    (Welch, Satterthwaite). `further`: the intervals are for a further draw of an arm, and
    not for the mean of its draws.
    """
    by_seed = (first.groupby(level=0).mean() - second.groupby(level=0).mean()).dropna()
    if by_seed.empty:
        raise FptError("The two arms share no seed, so there are no pairs to compare.")
    count = len(by_seed)
    estimate = float(by_seed.mean())
    one_sided = bool((by_seed > 0).all() or (by_seed < 0).all())
    sd = float(by_seed.std(ddof=1)) if count > 1 else math.nan
    nan = math.nan
    if count == 1:
        return Effect(estimate, nan, nan, nan, nan, nan, count, sd, one_sided)
    of_seeds = sd**2 / count + further * sd**2
    variance = of_seeds + more[0]
    if variance == 0:
        # Pairs that all differ by the same, such as 0 points between two arms at 100%.
        at = (estimate, estimate, estimate, estimate)
        return Effect(estimate, *at, nan, count, sd, one_sided)
    error = math.sqrt(variance)
    freedom = variance**2 / (of_seeds**2 / (count - 1) + more[0] ** 2 / more[1])
    low, high, low90, high90 = (
        estimate + side * float(stats.t.isf(tail, freedom)) * error
        for tail in (ALPHA / 2, ALPHA)
        for side in (-1, 1)
    )
    p = 2 * float(stats.t.sf(abs(estimate) / error, freedom))
    return Effect(estimate, low, high, low90, high90, p, count, sd, one_sided)


def power(effect: float, sd: float, seeds: int, level: float = ALPHA) -> float:
    """The chance that Student's t on `seeds` pairs decides an `effect` at a `level`, if the
    differences have the standard deviation `sd`."""
    limit = stats.t.isf(level / 2, seeds - 1)
    shift = abs(effect) / sd * math.sqrt(seeds)
    # The tail of the other side underflows to NaN where the effect is large.
    other_side = np.nan_to_num(stats.nct.cdf(-limit, seeds - 1, shift))
    return float(stats.nct.sf(limit, seeds - 1, shift) + other_side)


def corrected(p_values: Sequence[float], method: Literal["holm", "fdr_bh"]) -> list[float]:
    """The p-values, adjusted for their number: Holm's correction, or Benjamini and
    Hochberg's false-discovery rate. A claim without a p-value counts as 1."""
    known = np.nan_to_num(p_values, nan=1.0)
    return [float(p) for p in multipletests(known, method=method)[1]]


# ------------------------------------------------------------------------------- five words


@dataclass(frozen=True)
class Comparison:
    """What runs say of one claim: the means of both arms in `unit`, their effect, and a
    word. `power` is the chance to see a difference of 2 points, or of 1.25 times the steps,
    with the spread that was recorded."""

    first: str
    second: str
    task: str
    measure: Measure
    means: tuple[float, float]
    runs: tuple[int, int]
    effect: Effect
    word: Word
    power: float
    model: str = ""

    @property
    def values(self) -> str:
        """The two means, the first arm's first: percent, or steps."""
        form = ".1f" if self.measure == "test_accuracy" else ",.0f"
        return " / ".join(format(mean, form) for mean in self.means)

    def __str__(self) -> str:
        effect = self.effect
        if self.measure == "test_accuracy":
            unit = "% right"
            size = f"{effect.estimate:+.1f} points"
            interval = f"[{effect.low:+.1f}, {effect.high:+.1f}]"
        else:
            unit = "steps"
            low, high = math.exp(effect.low), math.exp(effect.high)
            size = f"{effect.ratio:.2f}x"
            interval = f"[{low:.2f}, {high:.2f}]"
        if effect.seeds == 1:
            interval = "(a single seed)"
        has_power = self.word == "could not tell" and not math.isnan(self.power)
        sure = f" (power {self.power:.2f})" if has_power else ""
        pair = f"{self.first} / {self.second}"
        return f"{pair}: {self.values} {unit}, {size} {interval}: {self.word}{sure}"


def compare(
    runs: pd.DataFrame,
    first: str,
    second: str,
    task: str,
    measure: Measure = "test_accuracy",
    as_good: bool = False,
    equal: bool = False,
    trivial: float | None = None,
    model: str = "",
) -> Comparison:
    """Whether `first` does better than `second` on a task, or (`as_good`) as well, as the
    paper has it. `runs` are rows of `fpt.results`, of one model. `trivial`: the test
    accuracy of the task's trivial rule in percent, which is looked up otherwise. The means
    are those of the seeds that both arms have. FptError if an arm has no run, or if the two
    share no seed.

    Steps that were not reached count as the last planned step.
    """
    of_task = runs[runs["task"] == task]
    rows = [of_task[of_task["arm"] == arm] for arm in (first, second)]
    for arm, of_arm in zip((first, second), rows, strict=True):
        if of_arm.empty:
            raise FptError(f"There are no runs of {arm!r} on {task!r} to compare.")
        check_alike(of_arm)
        models = sorted({*of_arm["model"]})
        if len(models) > 1:
            raise FptError(
                f"The runs of {arm!r} on {task!r} are of several models "
                f"({', '.join(models)}); choose one before they are compared."
            )
    # The means that are shown are those of the pairs.
    shared = {*rows[0]["seed"]} & {*rows[1]["seed"]}
    rows = [of_arm[of_arm["seed"].isin(shared)] for of_arm in rows]
    values = [values_of(of_arm, measure) for of_arm in rows]
    effect = paired(*values)
    means = [float(of_arm.mean()) for of_arm in values]
    is_accuracy = measure == "test_accuracy"
    margin = POINTS if is_accuracy else math.log(RATIO)
    # Who is sooner at a threshold that a trivial rule passes has not learned more.
    floor = 0.0 if measure == "area" else floor_of(of_task, trivial)
    learned = [level_of(of_arm, measure) > floor for of_arm in rows]
    # More accuracy is better, fewer steps are.
    sign = 1 if is_accuracy else -1
    word = word_of(effect, sign, margin, as_good, equal) if any(learned) else NOTHING
    chance = power(margin, effect.sd, effect.seeds) if effect.sd > 0 else math.nan
    shown = means if is_accuracy else [math.exp(mean) for mean in means]
    return Comparison(
        first=first,
        second=second,
        task=task,
        measure=measure,
        means=(shown[0], shown[1]),
        runs=(len(values[0]), len(values[1])),
        effect=effect,
        word=word,
        power=chance,
        model=model,
    )


NOTHING: Word = "nothing learned at this budget"


def level_of(rows: pd.DataFrame, measure: Measure) -> float:
    """The accuracy in percent that a measure is about: that of the test, or the threshold
    to which steps are counted; of an area, any."""
    if measure == "steps_to_threshold":
        return float(rows["threshold"].iloc[0])
    if measure.startswith("steps_to_"):
        return float(measure.removeprefix("steps_to_"))
    return math.inf if measure == "area" else float(rows["test_accuracy"].mean())


def floor_of(runs: pd.DataFrame, trivial: float | None) -> float:
    """The accuracy above which runs on a task learned something: `trivial` if it is given,
    or the task's trivial rule; 0 if its data are not here and it is not recorded."""
    if trivial is not None:
        return trivial
    run = runs.iloc[0]
    try:
        return trivial_rule(record_of(run["experiment"], run["key"]).spec.data)[1]
    except FptError:
        return 0.0


def values_of(rows: pd.DataFrame, measure: Measure) -> "pd.Series[float]":
    """The values of some runs that an effect is about, indexed by seed: accuracies in
    percent, or logarithms of steps or areas."""
    values = rows[measure]
    if measure.startswith("steps"):
        values = values.fillna(rows["planned_steps"])
    if measure != "test_accuracy":
        values = np.log(values.astype(float))
    return values.set_axis(rows["seed"])


def word_of(
    effect: Effect, sign: int, margin: float, as_good: bool = False, equal: bool = False
) -> Word:
    """The word for an effect: `sign` is 1 if more is better, -1 if less is.

    «Better» replicates if the 95% interval excludes 0 on the paper's side, and does not if
    it does on the other. «As good» replicates if the 90% interval lies inside the margin,
    and does not if all of it is worse than the margin; nor, where the paper has two
    `equal` numbers, if all of it is better.
    """
    if math.isnan(effect.low):
        return "could not tell"
    if as_good or equal:
        worst, best = sorted((sign * effect.low90, sign * effect.high90))
        if -margin < worst and best < margin:
            return "replicates"
        is_beyond = best < -margin or (equal and worst > margin)
        return "does not replicate" if is_beyond else "could not tell"
    worst, best = sorted((sign * effect.low, sign * effect.high))
    if worst > 0:
        return "replicates"
    return "does not replicate" if best < 0 else "could not tell"


def together(words: Sequence[Word]) -> Word:
    """One word for a claim on several tasks or models: their own if all agree, else that it
    replicates in part if it does somewhere."""
    decided = [word for word in words if word != NOTHING]
    if not decided:
        return NOTHING
    if len({*decided}) == 1:
        return decided[0]
    return (
        "in part" if "replicates" in decided or "in part" in decided else "could not tell"
    )
