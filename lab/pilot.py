"""The pilot: runs on old seeds and backbones from which thresholds, rates and numbers are set.

`python -m lab.pilot [ARM ...]` trains what is missing of some arms, by default of all, and prints
what it found. The records are in `reports/lab/records/pilot.tar.xz`, which is unpacked to
`.cache/pilot`.
"""

import argparse
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fpt import config
from fpt.analysis.steps import steps_to
from fpt.config import Run
from fpt.files import CACHE, REPORTS, read_yaml
from fpt.records import Store
from fpt.training import sweep

FILE = Path(__file__).with_name("pilot.yaml")
OF_RUN = ["arm", "task", "lr", "seed"]
MEASURED = ["steps", "censored", "evaluations", "budget", "accuracy", "core_seconds"]
FINALISTS = 2  # rates that are tried with all seeds of an arm
LEAST_REACHED = 0.8  # of the runs of each arm that sets thresholds
LEAST_EVALUATIONS = 5  # before any run of these is at a threshold


@cache
def plan() -> Mapping[str, Any]:
    """The content of pilot.yaml."""
    found: Mapping[str, Any] = read_yaml(FILE)
    return found


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
    return [
        Run(arm, task, config.make_spec(profile, arm, task, seed, lr=lr, threshold=most))
        for arm in arms
        for task, tried in plan()["battery"].items()
        for most in [max(tried["thresholds"])]
        for lr in [*plan()["lrs"], *plan()["beyond"].get(arm, {}).get(task, [])]
        for seed in plan()["arms"][arm]
    ]


def train(arm: str, task: str, workers: int) -> int:
    """Train what is missing of an arm on a task: all rates with its first seed, then the two best
    with the others. Returns the number of new records."""
    mine = [run for run in runs([arm]) if run.task == task]
    first = [run for run in mine if run.spec.seed == plan()["arms"][arm][0]]
    made = sweep.run([run.spec for run in first], store(), device="cpu", workers=workers)
    there = store().read_all(run.key for run in first)
    if len(there) < len(first):
        return made
    thresholds = sorted(plan()["battery"][task]["thresholds"], reverse=True)
    ranked = sorted(
        first,
        key=lambda run: [*(steps_to(there[run.key], it).count for it in thresholds), run.spec.lr],
    )
    rates = {run.spec.lr for run in ranked[:FINALISTS]}
    others = [run.spec for run in mine if run not in first and run.spec.lr in rates]
    return made + sweep.run(others, store(), device="cpu", workers=workers)


def equal_runs() -> list[Run]:
    """The runs at an equal budget: some arms at their best rates, to see how far the accuracies of
    backbones of one arm are apart."""
    profile = config.load("lab")
    return [
        Run(arm, task, config.make_spec(profile, arm, task, seed, lr=lr))
        for task, arms in plan()["equal"].items()
        for arm, lr in arms.items()
        for seed in plan()["arms"][arm]
    ]


def spread_of_accuracy() -> float:
    """The standard deviation of test accuracy between backbones of one arm at an equal budget,
    pooled over arms."""
    records = {run: store().read(run.key) for run in equal_runs()}
    groups: dict[str, list[float]] = {}
    for run, record in records.items():
        if record is not None:
            groups.setdefault(run.arm, []).append(record.metrics["test_accuracy"])
    variances = [np.var(values, ddof=1) for values in groups.values() if len(values) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else float("nan")


def results() -> pd.DataFrame:
    """One row per recorded run and threshold: arm, task, lr, seed, threshold, steps, censored,
    evaluations up to the threshold, highest validation accuracy and core-seconds."""
    rows = []
    for run in runs(plan()["arms"]):
        record = store().read(run.key)
        if record is None:
            continue
        for threshold in plan()["battery"][run.task]["thresholds"]:
            found = steps_to(record, threshold)
            rows.append(
                {
                    "arm": run.arm,
                    "task": run.task,
                    "lr": run.spec.lr,
                    "seed": run.spec.seed,
                    "threshold": threshold,
                    "steps": found.count,
                    "censored": found.censored,
                    "evaluations": found.count // run.spec.eval_every,
                    "budget": run.spec.steps,
                    "accuracy": max(point["valid_accuracy"] for point in record.curve),
                    "core_seconds": record.cost["process_seconds"],
                }
            )
    return pd.DataFrame(rows, columns=[*OF_RUN, "threshold", *MEASURED])


def best_rate(found: pd.DataFrame) -> float:
    """The rate with the fewest median steps among runs of one arm, task and threshold, of those
    that were tried with all seeds; of equal ones the most accurate on validation."""
    tried = found.groupby("lr").agg(
        steps=("steps", "median"), accuracy=("accuracy", "median"), runs=("steps", "size")
    )
    most = tried[tried["runs"] == tried["runs"].max()]
    return float(most.sort_values(["steps", "accuracy"], ascending=[True, False]).index[0])


def at_best(found: pd.DataFrame) -> pd.DataFrame:
    """The runs of each arm, task and threshold at its best rate."""
    groups = found.groupby(["arm", "task", "threshold"], sort=False)
    kept = [group[group["lr"] == best_rate(group)] for _, group in groups]
    return pd.concat([found.iloc[:0], *kept])


def threshold_of(task: str, found: pd.DataFrame) -> float | None:
    """The threshold that the rule in pilot.yaml sets for a task; None if none fits."""
    first = found[(found["task"] == task) & found["arm"].isin(plan()["first"])]
    fitting = [
        float(threshold)
        for threshold, runs in at_best(first).groupby("threshold")
        if runs.groupby("arm")["censored"].mean().max() <= 1 - LEAST_REACHED
        and runs["evaluations"].min() >= LEAST_EVALUATIONS
        and 2 * runs[runs["arm"] == "random"]["steps"].median() <= runs["budget"].iloc[0]
    ]
    return max(fitting, default=None)


def settings(found: pd.DataFrame) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The threshold of each task, and the best rates by arm and task."""
    thresholds = {task: threshold_of(task, found) for task in plan()["battery"]}
    known = {task: value for task, value in thresholds.items() if value is not None}
    rates: dict[str, dict[str, float]] = {}
    for task, threshold in known.items():
        mine = found[(found["task"] == task) & (found["threshold"] == threshold)]
        for arm, runs in mine.groupby("arm", sort=False):
            rates.setdefault(str(arm), {})[task] = best_rate(runs)
    return known, rates


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """A row per arm, task and rate at the task's threshold: median steps, runs, and how many of
    them are censored."""
    known, _ = settings(found)
    mine = found[found["threshold"] == found["task"].map(known)]
    table: pd.DataFrame = mine.groupby(["task", "arm", "lr"], sort=False).agg(
        steps=("steps", "median"),
        runs=("steps", "size"),
        censored=("censored", "sum"),
        core_seconds=("core_seconds", "mean"),
    )
    return table


def spread(found: pd.DataFrame) -> dict[str, float]:
    """Per task, the standard deviation of log steps between backbones of one arm at its best rate,
    pooled over arms with several."""
    known, _ = settings(found)
    best = at_best(found[found["threshold"] == found["task"].map(known)])
    logs = best.assign(log_steps=np.log(best["steps"])).groupby(["task", "arm"])["log_steps"]
    parts = pd.DataFrame({"variance": logs.var(), "df": logs.size() - 1}).dropna()
    pooled = (parts["variance"] * parts["df"]).groupby("task").sum() / parts["df"].groupby(
        "task"
    ).sum()
    return {str(task): float(value) for task, value in np.sqrt(pooled).items()}


def table() -> str:
    """A row per arm of the pilot: on each task the median steps to the threshold at its best rate,
    the rate, and how many of its runs reached the threshold."""
    found = results()
    known, _ = settings(found)
    best = at_best(found[found["threshold"] == found["task"].map(known)])
    lines = [f"| arm | {' | '.join(known)} |", "|---" * (1 + len(known)) + "|"]
    for arm in plan()["arms"]:
        cells = []
        for task in known:
            runs = best[(best["arm"] == arm) & (best["task"] == task)]
            reached = len(runs) - int(runs["censored"].sum())
            cells.append(
                f"{runs['steps'].median():,.0f} at {runs['lr'].iloc[0]:g} ({reached}/{len(runs)})"
                if len(runs)
                else "–"
            )
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.pilot", description=__doc__)
    parser.add_argument("arms", nargs="*", default=list(plan()["arms"]), metavar="ARM")
    parser.add_argument("--tasks", nargs="*", default=list(plan()["battery"]), metavar="TASK")
    parser.add_argument("--equal", action="store_true", help="the runs at an equal budget, too")
    parser.add_argument("--workers", type=int, default=1, help="packs side by side")
    args = parser.parse_args()
    for arm in args.arms:
        for task in args.tasks:
            made = train(arm, task, args.workers)
            print(f"{arm} on {task}: {made} new records in {store().folder}", flush=True)
    equal = [run.spec for run in equal_runs() if run.arm in args.arms]
    if args.equal:
        sweep.run(equal, store(), device="cpu", workers=args.workers)
    found = results()
    print(f"spread of accuracy at an equal budget: {spread_of_accuracy():.4f}")
    print(summary(found).to_string(), *settings(found), spread(found), sep="\n")


if __name__ == "__main__":
    main()
