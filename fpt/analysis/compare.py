"""What a page may say of two arms on one task: their difference on the seeds that both have, with
an interval if there are runs enough for one, or why they are not compared.

Registered claims have tests and gates of their own (`fpt.analysis.claims`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..sections.comparison import Pair
from ..tasks import Task
from .effects import Effect, difference
from .study import Study
from .summary import baselines, summary

# Student's t for 95% is 12.7 with two runs, 4.3 with three, 2.8 with five and 2.0 with many: below
# five, an interval says more about the number of runs than about the arm. Runs are shown instead.
FEWEST_RUNS = 5
NEITHER_LEARNED = "neither learned"
UNKNOWN = Effect(math.nan, math.nan, math.nan, math.nan, math.nan)


class Baseline(NamedTuple):
    """A predictor that learns next to nothing, and its test accuracy in percent."""

    name: str
    accuracy: float

    def __str__(self) -> str:
        return f"{self.name} ({self.accuracy:.1f}%)"


@dataclass(frozen=True)
class Contrast:
    """Arm `first` minus arm `second` on a task, in points of accuracy or, of steps to a threshold,
    in logarithms of a ratio.

    `seeds` counts those that both arms have; the effect is that of these alone. It is 0 if they
    share none: then all runs of both are compared. `partial`: an arm has runs on other seeds too.
    `refused` says why the arms are not compared, and the effect is NaN. `below` is the baseline
    that a compared arm or the threshold does not exceed. `bound` is `≤` or `≥` if runs of one arm
    end before the threshold, so that the ratio is at most or at least this, and `?` if runs of both
    do.
    """

    first: str
    second: str
    task: str
    effect: Effect
    seeds: int
    partial: bool = False
    refused: str = ""
    below: str = ""
    bound: str = ""


def best_baseline(task: Task) -> Baseline | None:
    """The best trivial baseline of a task; None if none is known on this machine."""
    known = baselines(task)
    best = max(known, key=known.__getitem__, default=None)
    return None if best is None else Baseline(best, known[best])


def summary_with_intervals(results: pd.DataFrame) -> pd.DataFrame:
    """As `fpt.analysis.summary.summary`, with intervals of at least FEWEST_RUNS runs alone."""
    table = summary(results)
    table.loc[table["runs"] < FEWEST_RUNS, ["low", "high"]] = math.nan
    return table


def on_shared_seeds(first: pd.Series, second: pd.Series) -> Effect:
    """The mean of `first` minus that of `second`, which are indexed by seed, on the seeds that both
    have, or on all if they share none. Two arms on one seed read the same data in the same order.

    The interval is Welch's, as in the registered claims, and NaN for fewer than FEWEST_RUNS values;
    all is NaN if a value is."""
    shared = first.index.intersection(second.index)
    if len(shared):
        first, second = first[shared], second[shared]
    if first.isna().any() or second.isna().any() or not len(first) or not len(second):
        return UNKNOWN
    effect = difference(list(first), list(second))
    if min(len(first), len(second)) < FEWEST_RUNS:
        return replace(UNKNOWN, estimate=effect.estimate)
    return effect


def contrasts(study: Study, pairs: Iterable[Pair], results: pd.DataFrame) -> list[Contrast]:
    """For each pair of arms, in this order, and each task on which both have runs: what may be said
    of the two. `results` are those of `study`, or a part of them."""
    runs = {at: rows for at, rows in results.groupby(["arm", "task"])}
    tasks = list(dict.fromkeys(results["task"]))
    return [
        contrast(study, task, runs[first, task], runs[second, task])
        for first, second in pairs
        for task in tasks
        if (first, task) in runs and (second, task) in runs
    ]


def contrast(study: Study, task: str, first: pd.DataFrame, second: pd.DataFrame) -> Contrast:
    """What may be said of the runs of two arms on one task. Nothing is compared until every run of
    both is recorded and has a score, if neither arm learned, or if neither is above the
    best trivial baseline."""
    names = str(first["arm"].iloc[0]), str(second["arm"].iloc[0])
    one, other = (runs.set_index("seed") for runs in (first, second))
    shared = one.index.intersection(other.index)
    unfinished = one["score"].isna().any() or other["score"].isna().any()
    refused = "" if unfinished else refusal(study, task, one, other)
    if unfinished or refused:
        return Contrast(*names, task, UNKNOWN, len(shared), refused=refused)
    partial = 0 < len(shared) < max(len(one), len(other))
    effect = on_shared_seeds(one["score"], other["score"])
    below = _below(study, task, one, other)
    if len(shared):
        one, other = one.loc[shared], other.loc[shared]
    return Contrast(
        *names, task, effect, len(shared), partial, below=below, bound=_bound(one, other)
    )


def refusal(study: Study, task: str, *arms: pd.DataFrame) -> str:
    """Why the scored runs of arms on a task are not compared; empty if they are. Where nothing was
    learned, a ratio of 1 or a difference of 0 would look like a finding."""
    if study.measures(task) == "steps":
        return NEITHER_LEARNED if all(runs["censored"].all() for runs in arms) else ""
    best, known = best_baseline(study.tasks[task]), baselines(study.tasks[task]).values()
    accuracy = max(runs["score"].mean() for runs in arms)
    if best is None or accuracy > best.accuracy:
        return ""
    return NEITHER_LEARNED if accuracy <= min(known) else f"at or below the baseline {best}"


def low_threshold(study: Study, task: str) -> Baseline | None:
    """The best trivial baseline of a task, if it is not below the threshold that steps are counted
    to: an arm that gets there has not learned more than the baseline."""
    best = best_baseline(study.tasks[task])
    percent = 100 * threshold(study, task)
    return best if best is not None and 0 < percent <= best.accuracy else None


def threshold(study: Study, task: str) -> float:
    """The validation accuracy in [0, 1] that steps are counted to; 0 if accuracy is measured."""
    return next(run.spec.threshold for run in study.runs if run.task == task)


def _below(study: Study, task: str, *arms: pd.DataFrame) -> str:
    """What a sentence on compared arms must say of the best trivial baseline."""
    if study.measures(task) == "steps":
        best = low_threshold(study, task)
        return "" if best is None else f"the threshold is at or below the baseline {best}"
    best = best_baseline(study.tasks[task])
    if best is None or min(runs["score"].mean() for runs in arms) > best.accuracy:
        return ""
    return f"one of them is at or below the baseline {best}"


def _bound(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """A run that ends before the threshold counts with its whole budget, which is too few steps."""
    ends = bool(first["censored"].any()), bool(second["censored"].any())
    return {(True, False): "≥", (False, True): "≤", (True, True): "?"}.get(ends, "")


def reached(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of arms on tasks of which at least one run reached the threshold, or that are
    measured in accuracy: the others have nothing that a figure could show."""
    ends = results.groupby(["task", "arm"])["censored"].transform("all").astype(bool)
    return results[~ends]


def natural(study: Study, results: pd.DataFrame) -> pd.Series:
    """The scores of `results` as people read them: steps to the threshold, or percent."""
    steps = results["task"].map(study.measures) == "steps"
    return results["score"].where(~steps, np.exp(results["score"]))


def left_out(study: Study) -> tuple[int, int, Sequence[str]]:
    """How many pairs of its first comparison a section has runs for, how many it declares, and the
    arms that the profile's plan lacks."""
    declared = study.declared.comparisons[:1]
    pairs = [pair for comparison in declared for pair in comparison.pairs]
    present = [pair for pair in pairs if set(pair) <= set(study.arms)]
    arms = dict.fromkeys(arm for pair in pairs for arm in pair if arm not in study.arms)
    return len(present), len(pairs), list(arms)
