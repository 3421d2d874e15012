"""One registered claim: its own runs, and its effect over its tasks and on each. Those of
`lab` are read here, those of `language` in `fpt.claims.model_claims`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from ..analysis.effects import falls_with, more_solved
from ..analysis.summary import RATIOS, tested_values
from ..sections.registration import LANGUAGE, registered_seeds, registration, withdrawal
from .pooled import Pooled, backbone_means, pooled

LAB = "lab"  # the profile of registered claims
Kind = Literal["primary", "secondary"]
KINDS: tuple[Kind, ...] = ("primary", "secondary")
REGISTERED = (LANGUAGE, LAB)  # the profiles that have registered claims
Measure = Literal["steps", "accuracy", "gap", "solved", "predicts", "area"]
Test = Literal["difference", "suffices", "rank"]


@dataclass(frozen=True)
class Claim:
    """One registered claim.

    `measure` is `steps` (to the threshold: the first arm needs fewer), `accuracy` (on the
    test set: the first has more), `gap` (training minus test accuracy: the first has less),
    `solved` (a larger share of runs of the first is at the threshold), `predicts` (over
    corpora, what was learned from context goes with fewer steps) or `area` (under the
    validation loss, in `language`). `margin`: the ratio of steps or areas or the points of
    accuracy that the difference must exceed. `backbones`: arm -> number of them; of an
    area, of its runs. `expected`: the effect for which `power` was simulated. `withdrawn`:
    why none of its runs is planned any more. `is_inverted`: shown as the ratio of the other
    arm, for a sentence that is about that one.

    `test`, of an area: `difference`, two-sided; `suffices`, one-sided: the first has less
    than `margin` times the area of the second; `rank`, two-sided: the area of the first
    among those of the draws of the second.
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
    test: Test = "difference"
    is_inverted: bool = False

    @property
    def is_ratio(self) -> bool:
        """Whether its effect is the logarithm of a ratio."""
        return self.measure in RATIOS

    @property
    def is_about_second(self) -> bool:
        """Whether the subject of its sentence is the second arm: the tests ask whether the
        first needs fewer steps, so a sentence of “more steps” is about the other one."""
        says_more_steps = self.measure == "steps" and "more steps" in self.statement
        return says_more_steps != self.is_inverted  # inverted, it is about the other arm


def claims(kind: Kind) -> list[Claim]:
    """The registered claims of `lab` of one kind, in their order."""
    return [
        Claim(
            name=name,
            tasks=tuple(entry["tasks"]),
            withdrawn=withdrawal(LAB, name, entry["backbones"], entry["tasks"]),
            **{key: value for key, value in entry.items() if key != "tasks"},
        )
        for name, entry in registration()[kind].items()
    ]


def own_runs(claim: Claim, results: pd.DataFrame) -> pd.DataFrame:
    """The rows of `results` that a claim is judged on: its arms on its tasks, and of each
    arm as many backbones as are registered. Another claim may have more of them
    recorded."""
    # The first registered seeds are those that were promised, whatever was trained later.
    on_tasks = results[results["task"].isin(claim.tasks)]
    registered = registered_seeds(max(claim.backbones.values()))
    order = {seed: index for index, seed in enumerate(registered)}
    parts = [on_tasks.iloc[:0]]
    for arm, count in claim.backbones.items():
        runs = on_tasks[on_tasks["arm"] == arm]
        seeds = sorted(runs["seed"].unique(), key=lambda seed: order.get(seed, len(order)))
        parts.append(runs[runs["seed"].isin(seeds[:count])])
    return pd.concat(parts)


def counted(claim: Claim, runs: pd.DataFrame) -> dict[str, int]:
    """How many backbones of each arm have all the tasks of a claim; `runs` are its own."""
    # A backbone that lacks a task has no mean over the tasks of its claim.
    tasks = runs.groupby(["arm", "seed"])["task"].nunique()
    complete = tasks[tasks == len(claim.tasks)].groupby("arm").size()
    return {arm: int(complete.get(arm, 0)) for arm in claim.backbones}


def effects_of(claim: Claim, runs: pd.DataFrame) -> Pooled:
    """The test of a claim on its own runs: the natural logarithm of a ratio of steps, a
    difference of shares or of negative accuracies, or a correlation. `predicts` reads the
    columns `learned` and `scale`."""
    values = runs.assign(value=compared_values(claim, runs))
    if claim.measure == "predicts":
        steps = backbone_means(values, claim.tasks)
        means = steps.groupby("arm").mean()
        # The unit is the corpus: its backbones are averaged first.
        corpora = runs.groupby("arm")[["learned", "scale"]].mean().loc[means.index].dropna()
        return Pooled(
            falls_with(corpora["learned"], means[corpora.index], corpora["scale"])
        )
    first, second = claim.backbones
    if claim.measure == "solved":
        solved = ~runs["censored"].astype(bool)
        return Pooled(
            more_solved(
                list(solved[runs["arm"] == first]), list(solved[runs["arm"] == second])
            )
        )
    margin = math.log(claim.margin or 1.0) if claim.measure == "steps" else claim.margin
    return pooled(values, (first, second), claim.tasks, margin)


def compared_values(claim: Claim, runs: pd.DataFrame) -> "pd.Series[float]":
    """What a claim compares, of each run; less is better for an arm."""
    if claim.measure == "accuracy":
        return -runs["test_accuracy"]
    if claim.measure == "gap":
        return runs["train_accuracy"] - runs["test_accuracy"]
    return tested_values(runs)
