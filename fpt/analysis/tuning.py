"""Learning rates: which one an arm gets on a task.

Rothermel et al. (2021, arXiv:2107.12460) hold that the paper's one rate of 0.001 decides
its comparison. A block of params.yaml with `lrs` trains every arm on every task at each of
them, with two sets of seeds. Those of `search` choose the rate of the best mean validation
accuracy, or of the fewest steps to the threshold; the others are reported. The test set
chooses nothing.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from ..profile import Run
from ..records import Store
from ..spec import RunSpec
from .steps import area

Place = tuple[str, str]  # an arm and a task
SEARCHED = ["arm", "task", "lr", "missing", "steps", "accuracy", "best_step"]


def searched(frame: pd.DataFrame) -> pd.DataFrame:
    """Of a study's frame, one row per arm, task and rate that was searched, in the order of
    rates: how many runs of the search are `missing`, and the mean of the others. That is of
    `steps`, geometric, if the task has a threshold, else of the validation `accuracy` in
    percent; NaN if a run diverged or none is recorded."""
    rows = []
    # Only seeds that are not reported may choose.
    trials = frame[frame["search"]]
    for (arm, task, lr), runs in trials.groupby(["arm", "task", "lr"], sort=True):
        missing = (runs["status"] == "not run").sum()
        done = runs[runs["status"] == "done"]
        done = done.reindex(columns=["steps", "valid_accuracy", "best_step"]).astype(float)
        steps = np.exp(np.log(done["steps"]).mean())
        accuracy = 100 * done["valid_accuracy"].mean()
        # A rate at which one run diverged is not safe, however well the others did.
        if (runs["status"] == "diverged").any():
            steps = accuracy = math.nan
        # One measure chooses: its ties are not broken by the other one.
        if (runs["threshold"] > 0).any():
            accuracy = math.nan
        rows.append((arm, task, lr, missing, steps, accuracy, done["best_step"].mean()))
    return pd.DataFrame(rows, columns=SEARCHED)


def chosen_rates(frame: pd.DataFrame) -> Mapping[Place, float]:
    """The rate chosen for each arm and task that has a search: the best one; of equals the
    one that is at its best first, then the lowest. NaN, which no run has, until the whole
    search is recorded."""
    order = {"steps": True, "accuracy": False, "best_step": True, "lr": True}
    chosen: dict[Place, float] = {}
    for (arm, task), rates in searched(frame).groupby(["arm", "task"]):
        best = rates.sort_values(list(order), ascending=list(order.values()))
        chosen[arm, task] = (
            math.nan if rates["missing"].any() else float(best["lr"].iloc[0])
        )
    return chosen


def at_edge(frame: pd.DataFrame) -> list[Place]:
    """The arms and tasks whose chosen rate is the lowest or highest that was tried: a
    better one may lie outside."""
    tried = searched(frame).groupby(["arm", "task"])["lr"]
    edges = {place: [rates.min(), rates.max()] for place, rates in tried}
    return [place for place, lr in chosen_rates(frame).items() if lr in edges[place]]


def trials_of(runs: Collection[Run], store: Store) -> pd.DataFrame:
    """Of a search of rates that came before a registration, one row per record that
    `store` has of it, whose arm and task are those of some of `runs`: arm, task, lr, seed,
    whether it trained for as many steps (`whole`), and the area under its validation
    loss."""
    places = {_without_rate(run.spec): run for run in runs}
    rows = []
    # A search that came with its runs is one of them.
    before = store.keys_of("search") - {run.key for run in runs}
    for record in store.read_all(sorted(before)).values():
        run = places.get(_without_rate(record.spec))
        if run is not None:
            trial = record.spec
            is_whole = trial.steps == run.spec.steps
            rows.append((run.arm, run.task, trial.lr, trial.seed, is_whole, area(record)))
    columns = ["arm", "task", "lr", "seed", "whole", "area"]
    return pd.DataFrame(rows, columns=columns).astype({"whole": bool})


def _without_rate(spec: RunSpec) -> RunSpec:
    """What a trial has in common with the runs that it chooses a rate for."""
    return replace(
        spec, lr=1.0, seed=0, draw=None, steps=1, eval_every=1, eval_items=1, test_items=1
    )
