"""One registered claim: its own runs, and its effect over all of its tasks and on each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from ..sections.registration import registered_seeds
from .effects import Effect, difference, falls_with, heterogeneity, more_solved
from .summary import backbone_means

LAB = "lab"  # the profile of registered claims
ALPHA = 0.05
Kind = Literal["primary", "secondary"]
KINDS: tuple[Kind, ...] = ("primary", "secondary")
Measure = Literal["steps", "accuracy", "gap", "solved", "predicts"]


@dataclass(frozen=True)
class Claim:
    """One registered claim.

    `measure` is `steps` (to the threshold: the first arm needs fewer), `accuracy` (on the test set:
    the first has more), `gap` (training minus test accuracy: the first has less), `solved` (a
    larger share of runs of the first is at the threshold) or `predicts` (over corpora, what was
    learned from context goes with fewer steps). `margin`: the ratio of steps or the points of
    accuracy that the difference must exceed. `backbones`: arm -> number of them. `expected`: the
    effect for which `power` was simulated. `withdrawn`: why none of its runs is planned any more.
    """

    name: str
    statement: str
    source: str
    measure: Measure
    backbones: Mapping[str, int]
    tasks: tuple[str, ...]
    margin: float = 0.0
    expected: float = math.nan
    power: float = math.nan
    error: float = math.nan
    withdrawn: str = ""

    @property
    def is_pooled(self) -> bool:
        """Whether it averages the effects on several tasks."""
        return self.measure == "steps" and len(self.tasks) > 1

    @property
    def is_about_second(self) -> bool:
        """Whether the subject of its sentence is the second arm: the tests ask whether the first
        needs fewer steps, so a sentence of «more steps» is about the other one."""
        return self.measure == "steps" and "more steps" in self.statement


def own_runs(claim: Claim, results: pd.DataFrame) -> pd.DataFrame:
    """The rows of `results` that a claim is judged on: its arms on its tasks, and of each arm as
    many backbones as are registered. Another claim may have more of them recorded."""
    on_tasks = results[results["task"].isin(claim.tasks)]
    known = registered_seeds(max(claim.backbones.values()))
    order = {seed: index for index, seed in enumerate(known)}
    parts = [on_tasks.iloc[:0]]
    for arm, count in claim.backbones.items():
        runs = on_tasks[on_tasks["arm"] == arm]
        seeds = sorted(runs["seed"].unique(), key=lambda seed: order.get(seed, len(order)))
        parts.append(runs[runs["seed"].isin(seeds[:count])])
    return pd.concat(parts)


def counted(claim: Claim, runs: pd.DataFrame) -> dict[str, int]:
    """How many backbones of each arm have all the tasks of a claim; `runs` are its own."""
    tasks = runs.groupby(["arm", "seed"])["task"].nunique()
    whole = tasks[tasks == len(claim.tasks)].groupby("arm").size()
    return {arm: int(whole.get(arm, 0)) for arm in claim.backbones}


def effect_of(claim: Claim, runs: pd.DataFrame) -> Effect:
    """The test of a claim on its own runs: the natural logarithm of a ratio of steps, a difference
    of shares or of negative accuracies, or a correlation. `predicts` reads the columns `learned`
    and `scale`."""
    if claim.measure == "predicts":
        means = backbone_means(runs, claim.tasks).groupby("arm").mean()
        known = runs.groupby("arm")[["learned", "scale"]].mean().loc[means.index].dropna()
        return falls_with(known["learned"], means[known.index], known["scale"])
    if claim.measure == "solved":
        reached = ~runs["censored"].astype(bool)
        first, second = (list(reached[runs["arm"] == arm]) for arm in claim.backbones)
        return more_solved(first, second)
    first_values, second_values = _sides(claim, runs, claim.tasks)
    margin = math.log(claim.margin or 1.0) if claim.measure == "steps" else claim.margin
    return difference(first_values, second_values, margin)


def effects_by_task(claim: Claim, runs: pd.DataFrame) -> dict[str, Effect]:
    """The effect on each task of a claim that pools tasks; of others nothing."""
    if not claim.is_pooled:
        return {}
    return {task: difference(*_sides(claim, runs, (task,))) for task in claim.tasks}


def heterogeneity_of(claim: Claim, runs: pd.DataFrame) -> float:
    """The p-value of the hypothesis that the effect is the same on every task of a pooled claim;
    NaN for other claims."""
    if not claim.is_pooled:
        return math.nan
    return heterogeneity([_sides(claim, runs, (task,)) for task in claim.tasks])


def _sides(
    claim: Claim, runs: pd.DataFrame, tasks: tuple[str, ...]
) -> tuple[list[float], list[float]]:
    """A value per backbone of the first arm and of the second; less is better for an arm."""
    if claim.measure == "steps":
        value = runs["score"]
    elif claim.measure == "gap":
        value = runs["train_accuracy"] - runs["test_accuracy"]
    else:
        value = -runs["test_accuracy"]
    means = backbone_means(runs.assign(value=value), tasks, "value")
    first, second = (list(means[means.index.get_level_values("arm") == a]) for a in claim.backbones)
    return first, second
