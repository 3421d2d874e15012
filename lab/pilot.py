"""The pilot of the lab: what its records say of thresholds and learning rates.

The pilot trained runs on seeds and backbones that no reported run uses. Its records are in
`reports/lab/records/pilot.tar.xz`, which is unpacked to `.cache/pilot`; the rules are in
pilot.yaml. The code that trained it is at the tag `registered-lab`.
"""

import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from fpt import config
from fpt.analysis.steps import steps_to
from fpt.config import Run
from fpt.files import CACHE, REPORTS, read_yaml
from fpt.records import Store

FILE = Path(__file__).with_name("pilot.yaml")
LEAST_REACHED = 0.8  # of the runs of each arm that sets thresholds
LEAST_EVALUATIONS = 5  # before any run of these is at a threshold
COLUMNS = (
    *("arm", "task", "lr", "seed", "threshold"),
    *("steps", "censored", "evaluations", "budget", "accuracy"),
)


@cache
def plan() -> Mapping[str, Any]:
    """The content of pilot.yaml."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


@cache
def store() -> Store:
    """The records, unpacked."""
    folder = CACHE / "pilot"
    if not folder.exists():
        shutil.unpack_archive(REPORTS / "lab" / "records" / "pilot.tar.xz", CACHE)
    return Store(folder)


def runs(arms: Iterable[str]) -> list[Run]:
    """Every run that the pilot of `arms` can have, on all tasks at all rates, each on a backbone
    that is drawn or pretrained with the same seed."""
    profile = config.load("lab")
    planned = []
    for arm in arms:
        for task, settings in plan()["battery"].items():
            highest = max(settings["thresholds"])
            for lr in [*plan()["lrs"], *plan()["beyond"].get(arm, {}).get(task, [])]:
                for seed in plan()["arms"][arm]:
                    spec = config.make_spec(profile, arm, task, seed, lr=lr, threshold=highest)
                    planned.append(Run(arm, task, spec))
    return planned


def results() -> pd.DataFrame:
    """One row per recorded run and threshold: arm, task, lr, seed, threshold, steps, censored,
    evaluations up to the threshold, budget in steps and highest validation accuracy."""
    rows = []
    for run in runs(plan()["arms"]):
        record = store().read(run.key)
        if record is None:
            continue
        accuracy = max(point["valid_accuracy"] for point in record.curve)
        for threshold in plan()["battery"][run.task]["thresholds"]:
            steps = steps_to(record, threshold)
            rows.append(
                {
                    "arm": run.arm,
                    "task": run.task,
                    "lr": run.spec.lr,
                    "seed": run.spec.seed,
                    "threshold": threshold,
                    "steps": steps.count,
                    "censored": steps.censored,
                    "evaluations": steps.count // run.spec.eval_every,
                    "budget": run.spec.steps,
                    "accuracy": accuracy,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def best_rate(results: pd.DataFrame) -> float:
    """The rate with the fewest median steps among runs of one arm, task and threshold, of those
    that were tried with all seeds; of equal ones the most accurate on validation."""
    rates = results.groupby("lr").agg(
        steps=("steps", "median"), accuracy=("accuracy", "median"), runs=("steps", "size")
    )
    finalists = rates[rates["runs"] == rates["runs"].max()]
    return float(finalists.sort_values(["steps", "accuracy"], ascending=[True, False]).index[0])


def at_best(results: pd.DataFrame) -> pd.DataFrame:
    """The runs of each arm, task and threshold at its best rate."""
    groups = results.groupby(["arm", "task", "threshold"], sort=False)
    return pd.concat([rows[rows["lr"] == best_rate(rows)] for _, rows in groups])


def threshold_of(task: str, results: pd.DataFrame) -> float | None:
    """The threshold that the rule in pilot.yaml sets for a task; None if none fits."""
    first = results[(results["task"] == task) & results["arm"].isin(plan()["first"])]
    fitting = []
    for threshold, rows in at_best(first).groupby("threshold"):
        missed = rows.groupby("arm")["censored"].mean().max()
        random = rows[rows["arm"] == "random"]["steps"].median()
        if (
            missed <= 1 - LEAST_REACHED
            and rows["evaluations"].min() >= LEAST_EVALUATIONS
            and 2 * random <= rows["budget"].iloc[0]
        ):
            fitting.append(float(threshold))
    return max(fitting, default=None)


def settings(results: pd.DataFrame) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The threshold of each task, and the best rates by arm and task."""
    thresholds = {}
    rates: dict[str, dict[str, float]] = {}
    for task in plan()["battery"]:
        threshold = threshold_of(task, results)
        if threshold is None:
            continue
        thresholds[task] = threshold
        rows = results[(results["task"] == task) & (results["threshold"] == threshold)]
        for arm, runs_of_arm in rows.groupby("arm", sort=False):
            rates.setdefault(str(arm), {})[task] = best_rate(runs_of_arm)
    return thresholds, rates
