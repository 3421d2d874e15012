"""Steps to a threshold, the primary measure of `lab`: sharper than a final accuracy that is at its
ceiling or cut off by the budget."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..records import Record
from ..training.loop import reached


@dataclass(frozen=True)
class Steps:
    """Gradient steps until validation accuracy is at the threshold in two consecutive evaluations
    (the first of them counts). `censored`: the budget ran out before, and `count` is the budget."""

    count: int
    censored: bool


def steps_to(record: Record, threshold: float) -> Steps:
    """How soon a run is at `threshold`; a diverged run never is."""
    index = reached([point["valid_accuracy"] for point in record.curve], threshold)
    if index is None or record.status != "done":
        return Steps(record.spec.steps, True)
    return Steps(int(record.curve[index]["step"]), False)


def steps_frame(runs: Iterable[tuple[str, str, Record]]) -> pd.DataFrame:
    """One row per run, given as (arm, task, record) with a threshold in its spec: arm, task,
    seed, weights, steps, log_steps (natural) and censored."""
    rows = []
    for arm, task, record in runs:
        found = steps_to(record, record.spec.threshold)
        rows.append(
            {
                "arm": arm,
                "task": task,
                "seed": record.spec.seed,
                "weights": record.spec.weights,
                "steps": found.count,
                "log_steps": np.log(found.count),
                "censored": found.censored,
            }
        )
    columns = ["arm", "task", "seed", "weights", "steps", "log_steps", "censored"]
    return pd.DataFrame(rows, columns=columns)


def backbone_means(frame: pd.DataFrame, tasks: Iterable[str]) -> pd.Series:
    """The mean over `tasks` of log_steps, per arm and seed, whose backbone is the unit of a claim;
    backbones that lack a task are left out."""
    wide = frame.pivot_table(index=["arm", "seed"], columns="task", values="log_steps")
    means: pd.Series = wide.reindex(columns=list(tasks)).dropna().mean(axis=1)
    return means
