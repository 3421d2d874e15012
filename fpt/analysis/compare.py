"""What a page may say of two arms on one task: their difference on the seeds that both
have, with an interval if there are runs enough for one, or why they are not compared.

Registered claims have tests and gates of their own (`fpt.claims`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from ..sections.comparison import Pair
from ..tasks import Task
from . import crossed
from .effects import UNKNOWN, Effect, difference
from .steps import is_learned
from .study import Study
from .summary import FEWEST_RUNS, baselines, tested_values

NEITHER_LEARNED = "neither learned"


class Baseline(NamedTuple):
    """A predictor that learns next to nothing, and its test accuracy in percent."""

    name: str
    accuracy: float

    def __str__(self) -> str:
        return f"{self.name} ({self.accuracy:.1f}%)"


@dataclass(frozen=True)
class Contrast:
    """Arm `first` minus arm `second` on a task, in points of accuracy or, of steps to a
    threshold and of areas, in logarithms of a ratio.

    `seeds` counts those that both arms have; the effect is that of these alone. It is 0 if
    they share none: then all runs of both are compared. `partial`: an arm has runs on other
    seeds too. `waiting` says how many runs are recorded until all are. `refused` says why
    the arms are not compared, and the effect is NaN. `below` is the baseline that a
    compared arm or the threshold does not exceed. `bound` is `≤` or `≥` if runs of one arm
    end before the threshold, so that the ratio is at most or at least this, and `?` if runs
    of both do.
    """

    first: str
    second: str
    task: str
    effect: Effect
    seeds: int
    partial: bool = False
    waiting: str = ""
    refused: str = ""
    below: str = ""
    bound: str = ""


def best_baseline(task: Task) -> Baseline | None:
    """The best trivial baseline of a task; None if none is known on this machine."""
    accuracies = baselines(task)
    name = max(accuracies, key=accuracies.__getitem__, default="")
    return Baseline(name, accuracies[name]) if name else None


def on_shared_seeds(first: pd.Series, second: pd.Series) -> Effect:
    """The mean of `first` minus that of `second`, which are indexed by seed, on the seeds
    that both have, or on all if they share none. Two arms on one seed read the same data in
    the same order.

    The interval is Welch's, as in the registered claims, and NaN for fewer than FEWEST_RUNS
    values; all is NaN if a value is."""
    # Data and their order are part of what a seed draws, so shared seeds are a pair.
    shared = first.index.intersection(second.index)
    if len(shared):
        first = first[shared]
        second = second[shared]
    if first.isna().any() or second.isna().any():
        return UNKNOWN
    effect = difference(list(first), list(second))
    if min(len(first), len(second)) < FEWEST_RUNS:
        return Effect(effect.estimate)
    return effect


def contrasts(study: Study, pairs: Iterable[Pair], results: pd.DataFrame) -> list[Contrast]:
    """For each pair of arms, in this order, and each task on which both have runs: what may
    be said of the two. `results` are those of `study`, or a part of them."""
    runs = dict(list(results.groupby(["arm", "task"])))
    return [
        contrast(study, task, runs[first, task], runs[second, task])
        for first, second in pairs
        for task in results["task"].unique()
        if (first, task) in runs and (second, task) in runs
    ]


def contrast(
    study: Study, task: str, first: pd.DataFrame, second: pd.DataFrame
) -> Contrast:
    """What may be said of the runs of two arms on one task. Nothing is compared until every
    run of both is recorded and has its measure, if neither arm learned, or if neither is
    above the best trivial baseline."""
    arms = (first["arm"].iloc[0], second["arm"].iloc[0])
    first = first.assign(value=tested_values(first)).set_index("seed")
    second = second.assign(value=tested_values(second)).set_index("seed")
    shared = first.index.intersection(second.index)
    contrast = Contrast(*arms, task, UNKNOWN, len(shared))
    # A difference of some of the runs would change as others are recorded.
    both = pd.concat([first, second])
    present = (both["status"] != "not run").sum()
    if present < len(both):
        return replace(contrast, waiting=f"{present} of {len(both)} runs so far")
    # A run that diverged has no accuracy.
    if both["value"].isna().any():
        return contrast
    refused = refusal(study, task, first, second)
    if refused:
        return replace(contrast, refused=refused)
    contrast = replace(
        contrast,
        effect=_effect(study.measures(task), first, second),
        partial=0 < len(shared) < max(first.index.nunique(), second.index.nunique()),
        below=_below(study, task, first, second),
    )
    if len(shared):
        first = first.loc[shared]
        second = second.loc[shared]
    return replace(contrast, bound=_bound(first, second))


def _effect(measure: str, first: pd.DataFrame, second: pd.DataFrame) -> Effect:
    if measure == "area":
        return crossed.difference(*crossed.on_shared_seeds(first, second))
    return on_shared_seeds(first["value"], second["value"])


def refusal(study: Study, task: str, *arms: pd.DataFrame) -> str:
    """Why the runs of arms on a task are not compared; empty if they are. Where nothing was
    learned, a ratio of 1 or a difference of 0 would look like a finding."""
    if study.measures(task) == "steps":
        return NEITHER_LEARNED if all(runs["censored"].all() for runs in arms) else ""
    if study.measures(task) == "area" and not any(
        is_learned(tested_values(runs), study.tasks[task]) for runs in arms
    ):
        return NEITHER_LEARNED
    accuracy = max(runs["accuracy"].mean() for runs in arms)
    best = _not_exceeded(study, task, accuracy)
    if best is None:
        return ""
    # Below every baseline there was no learning; between them there was too little.
    worst = min(baselines(study.tasks[task]).values())
    return NEITHER_LEARNED if accuracy <= worst else f"at or below the baseline {best}"


def low_threshold(study: Study, task: str) -> Baseline | None:
    """The best trivial baseline of a task, if it is not below the threshold that steps are
    counted to: an arm that gets there has not learned more than the baseline."""
    percent = 100 * study.threshold(task)
    return _not_exceeded(study, task, percent) if percent else None


def _not_exceeded(study: Study, task: str, percent: float) -> Baseline | None:
    """The best trivial baseline of a task if an accuracy is not above it."""
    best = best_baseline(study.tasks[task])
    return best if best is not None and percent <= best.accuracy else None


def _below(study: Study, task: str, *arms: pd.DataFrame) -> str:
    """What a sentence on compared arms must say of the best trivial baseline."""
    words = "the threshold"
    best = low_threshold(study, task)
    if study.measures(task) != "steps":
        words = "one of them"
        best = _not_exceeded(study, task, min(runs["accuracy"].mean() for runs in arms))
    return "" if best is None else f"{words} is at or below the baseline {best}"


def _bound(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """`Contrast.bound`: a run that ends before the threshold counts with its whole budget,
    which is too few steps."""
    first_ends = first["censored"].any()
    second_ends = second["censored"].any()
    if first_ends and second_ends:
        return "?"
    if first_ends:
        return "≥"
    return "≤" if second_ends else ""


def reached(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of arms on tasks of which at least one run reached the threshold, or that
    are measured in accuracy: the others have nothing that a figure could show."""
    ended = results.groupby(["task", "arm"])["censored"].transform("all").astype(bool)
    return results[~ended]


def left_out(study: Study) -> tuple[int, int, Sequence[str]]:
    """How many pairs of its main comparison, the first, a section has runs for, how many it
    declares, and the arms that the profile's plan lacks."""
    comparisons = study.declared.comparisons
    pairs = comparisons[0].pairs if comparisons else ()
    present = [pair for pair in pairs if set(pair) <= set(study.arms)]
    arms = dict.fromkeys(arm for pair in pairs for arm in pair if arm not in study.arms)
    return len(present), len(pairs), list(arms)
