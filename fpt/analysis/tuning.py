"""Learning rates: which one an arm gets on a task.

Rothermel et al. (2021, arXiv:2107.12460) hold that the paper's one rate of 0.001 decides its
comparison. A block of params.yaml with `lrs` trains every arm on every task at each of them, with
two sets of seeds. Those of `search` choose the rate of the best mean validation accuracy, or of the
fewest steps to the threshold; the others are reported. The test set chooses nothing.
"""

import math
from collections.abc import Mapping

import pandas as pd

At = tuple[str, str]  # an arm and a task
NEVER = -math.inf  # how good a rate is at which a run diverged


def searched(frame: pd.DataFrame) -> pd.DataFrame:
    """Of a study's frame, one row per arm, task and rate that was searched, in the order of rates:
    `runs` of the search that are `missing`, and how `good` the recorded ones are."""
    trials = frame[frame["search"]]
    rows = []
    for (arm, task, lr), runs in trials.groupby(["arm", "task", "lr"], sort=True):
        done = runs[runs["status"] == "done"]
        diverged = (runs["status"] == "diverged").any()
        if diverged or done.empty:
            good = NEVER
        elif (runs["threshold"] > 0).any():
            good = -done["score"].mean()
        else:
            good = done["valid_accuracy"].mean()
        missing = int((runs["status"] == "not run").sum())
        soon = -done["best_step"].mean() if len(done) else NEVER
        rows.append((arm, task, lr, missing, good, soon))
    return pd.DataFrame(rows, columns=["arm", "task", "lr", "missing", "good", "soon"])


def chosen_rates(frame: pd.DataFrame) -> Mapping[At, float]:
    """The rate chosen for each arm and task that has a search: the best one; of equals the one that
    is there first, then the lowest. NaN, which no run has, until the whole search is recorded."""
    chosen: dict[At, float] = {}
    for (arm, task), rates in searched(frame).groupby(["arm", "task"]):
        best = rates.sort_values(["good", "soon", "lr"], ascending=[False, False, True])
        chosen[arm, task] = math.nan if rates["missing"].any() else float(best["lr"].iloc[0])
    return chosen


def at_edge(frame: pd.DataFrame) -> list[At]:
    """The arms and tasks whose chosen rate is the lowest or highest that was tried: a better one
    may lie outside."""
    tried = searched(frame).groupby(["arm", "task"])["lr"].agg(["min", "max"])
    return [at for at, lr in chosen_rates(frame).items() if lr in tuple(tried.loc[at])]
