"""The registered claims of the lab: the test of each, and the verdicts of all of them together.

A primary claim is judged by one number and one p-value; Holm's correction holds the chance that any
true null is called supported at 5%. A claim that pools tasks is undecided if one of its tasks
contradicts it significantly. Secondary claims hold a false-discovery rate of 5% instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from .effects import Effect, falls_with, less, more_solved
from .registration import registration
from .steps import backbone_means

ALPHA = 0.05
MEMORYLESS = ("fpt-uniform", "fpt-unigram")  # corpora without anything to learn from context
MOST_CENSORED = 0.1  # of the runs of the arm that is claimed to be the better one
Label = Literal["supported", "contradicted", "undecided"]


@dataclass(frozen=True)
class Claim:
    """One registered claim.

    `measure` is `steps` (to the threshold: the first arm needs fewer), `accuracy` (on the test set:
    the first has more), `gap` (training minus test accuracy: the first has less), `solved` (a
    larger share of runs of the first is at the threshold) or `predicts` (over corpora, what was
    learned from context goes with fewer steps). `margin`: the
    ratio of steps or the points of accuracy that the difference must exceed. `backbones`: arm ->
    number of them. `expected`: the effect for which `power` was simulated.
    """

    name: str
    statement: str
    source: str
    measure: Literal["steps", "accuracy", "gap", "solved", "predicts"]
    backbones: Mapping[str, int]
    tasks: tuple[str, ...]
    margin: float = 0.0
    expected: float = math.nan
    power: float = math.nan
    error: float = math.nan


@dataclass(frozen=True)
class Finding:
    """A claim with what its runs say: its effect (natural log of a ratio of steps, a difference of
    accuracies or shares, or a correlation), adjusted p and verdict, and why it is undecided."""

    claim: Claim
    effect: Effect
    n: Mapping[str, int]
    adjusted: float
    label: Label
    reason: str = ""


def claims(kind: Literal["primary", "secondary"]) -> list[Claim]:
    """The registered claims of one kind, in their order."""
    return [claim(name, content) for name, content in registration()[kind].items()]


def claim(name: str, content: Mapping[str, Any]) -> Claim:
    values = {**content, "tasks": tuple(content["tasks"])}
    return Claim(name=name, **values)


def effect_of(it: Claim, runs: pd.DataFrame, corpora: pd.DataFrame | None = None) -> Effect:
    """The test of a claim on `runs` (`steps.steps_frame`, for accuracies with test_accuracy).

    `corpora`, for `predicts`: per arm the nats learned from context and the log weight scale."""
    mine = runs[runs["arm"].isin(it.backbones) & runs["task"].isin(it.tasks)]
    if it.measure == "predicts":
        assert corpora is not None
        means = backbone_means(mine, it.tasks).groupby("arm").mean()
        known = corpora.loc[[arm for arm in it.backbones if arm in means.index]]
        return falls_with(known["learned"], means[known.index], known["scale"])
    first, second = it.backbones
    if it.measure == "solved":
        solved = {
            arm: list(~runs[(runs["arm"] == arm) & runs["task"].isin(it.tasks)]["censored"])
            for arm in (first, second)
        }
        return more_solved(solved[first], solved[second])
    if it.measure == "accuracy":
        means = mine.groupby(["arm", "seed"])["test_accuracy"].mean()
        return less(_of(-means, first), _of(-means, second), it.margin)
    if it.measure == "gap":
        means = mine.groupby(["arm", "seed"])["gap"].mean()
        return less(_of(means, first), _of(means, second), it.margin)
    means = backbone_means(mine, it.tasks)
    return less(_of(means, first), _of(means, second), math.log(it.margin or 1.0))


def _of(means: pd.Series, arm: str) -> Sequence[float]:
    if arm not in means.index.get_level_values("arm"):
        return []
    values: np.ndarray = means.loc[arm].to_numpy()
    return list(values)


def contradicting(it: Claim, runs: pd.DataFrame) -> list[str]:
    """The tasks on which the opposite of a pooled claim about steps is significant, at 5% over
    these tasks."""
    if it.measure != "steps" or len(it.tasks) < 2:
        return []
    first, second = it.backbones
    found = []
    for task in it.tasks:
        means = backbone_means(runs[runs["task"] == task], [task])
        if less(_of(means, second), _of(means, first)).p < ALPHA / len(it.tasks):
            found.append(task)
    return found


def counted(it: Claim, runs: pd.DataFrame) -> dict[str, int]:
    """How many backbones of each arm have all the tasks of a claim."""
    mine = runs[runs["arm"].isin(it.backbones) & runs["task"].isin(it.tasks)]
    tasks = mine.groupby(["arm", "seed"])["task"].nunique()
    whole = tasks[tasks == len(it.tasks)].groupby("arm").size()
    return {arm: int(whole.get(arm, 0)) for arm in it.backbones}


def verdicts(
    them: Sequence[Claim], runs: pd.DataFrame, corpora: pd.DataFrame | None = None
) -> list[Finding]:
    """The findings of all claims of one kind: Holm's correction over primary ones, Benjamini and
    Hochberg's over secondary ones (more than twelve). A claim whose runs are not all here is
    undecided, and counts in the correction."""
    from statsmodels.stats.multitest import multipletests

    counts = [counted(it, runs) for it in them]
    missing = [_missing(it, n) for it, n in zip(them, counts, strict=True)]
    nothing = Effect(math.nan, math.nan, math.nan, math.nan, math.nan)
    effects = [
        nothing if lack else effect_of(it, runs, corpora)
        for it, lack in zip(them, missing, strict=True)
    ]
    method = "holm" if len(them) <= 12 else "fdr_bh"
    adjusted, opposite = (
        multipletests([1.0 if math.isnan(p) else p for p in ps], method=method)[1]
        for ps in ([e.p for e in effects], [e.against for e in effects])
    )
    found = []
    for it, n, lack, effect, p, against in zip(
        them, counts, missing, effects, adjusted, opposite, strict=True
    ):
        label, reason = _judged(it, runs, p, against)
        if lack:
            label, reason = "undecided", f"present are {lack}"
        elif failed := _not_learned(it, corpora):
            label, reason = "undecided", f"not learned by its backbones: {', '.join(failed)}"
        found.append(Finding(it, effect, n, float(p), label, reason))
    return found


def _missing(it: Claim, n: Mapping[str, int]) -> str:
    few = {arm: need for arm, need in it.backbones.items() if n[arm] < need}
    return ", ".join(f"{n[arm]} of {need} {arm}" for arm, need in few.items())


def _not_learned(it: Claim, corpora: pd.DataFrame | None) -> list[str]:
    """The corpora that a claim compares from whose context nothing was learned, though it has
    something."""
    if corpora is None or it.measure == "predicts":
        return []
    mine = corpora[corpora.index.isin(it.backbones) & ~corpora.index.isin(MEMORYLESS)]
    return list(mine.index[mine["learned"] <= 0])


def _judged(it: Claim, runs: pd.DataFrame, p: float, against: float) -> tuple[Label, str]:
    if against < ALPHA:
        return "contradicted", ""
    if p >= ALPHA:
        return "undecided", "the interval holds both directions, or less than the margin"
    if opposed := contradicting(it, runs):
        return "undecided", f"{', '.join(opposed)} contradicts it"
    if it.measure == "steps":
        better = runs[(runs["arm"] == next(iter(it.backbones))) & runs["task"].isin(it.tasks)]
        if better["censored"].mean() > MOST_CENSORED:
            return "undecided", "too many runs of the first arm end before the threshold"
    return "supported", ""
