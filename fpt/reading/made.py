"""What was made here: the runs of the tiers in params.yaml beside the paper's, and the
files that stand for records in the pipeline.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from ..errors import FptError
from ..files import read_yaml, write_atomic, write_json
from ..plan import Plan
from ..project import PACKAGE, TIERS, project
from ..records import Store, digest
from .beside import Table, cell, label_of, paper, rule, tasks
from .plot import curves_of
from .results import RATES, everything, results

SETTINGS = ["experiment", "model", "task", "rate", "warmup", "planned_steps"]


@cache
def sections() -> Mapping[str, Mapping[str, Any]]:
    """The rows of sections.yaml by name."""
    rows: Mapping[str, Mapping[str, Any]] = read_yaml(PACKAGE / "sections.yaml")
    return rows


def made_here(section: str | None = None) -> Table:
    """The runs of a section, or of all, that the tiers of params.yaml have trained here,
    beside the table of the paper that the section is about: a row for each model, arm,
    task, rate and number of steps. FptError if there are none."""
    runs = results()
    if section:
        runs = everything(project().experiments)
        runs = runs[(runs["section"] == section) & (runs["role"] == "reported")]
    runs = runs[runs["experiment"].isin(TIERS)]
    if runs.empty:
        where = f"Section {section!r} has" if section else "There are"
        raise FptError(f"{where} no runs that were trained here; fpt run trains some.")
    called = sections().get(section or "", {}).get("table", "T9")
    printed = paper(called)
    notes: dict[str, str] = {}
    rows = []
    for (*_, rate, _, steps), of_task in runs.groupby(SETTINGS, sort=False):
        for arm, of_arm in of_task.groupby("arm", sort=False):
            task = str(of_arm["task"].iloc[0])
            column = tasks().get(task, {}).get("column", "")
            if column in printed.columns:
                ours = cell(of_arm, printed, str(arm), column, "test_accuracy", notes)
            else:
                ours = f"**{of_arm['test_accuracy'].mean():.1f}** / – ({len(of_arm)})"
            rows.append(
                {
                    "experiment": of_arm["experiment"].iloc[0],
                    "model": of_arm["model"].iloc[0],
                    "arm": arm,
                    "task": label_of(task),
                    "rate": f"{rate:g}",
                    "steps": f"{steps:,}",
                    "ours / paper (runs)": ours,
                    "trivial rule": rule(of_arm),
                }
            )
    frame = pd.DataFrame(rows).set_index(["experiment", "model", "arm"])
    about = "; ".join(f"{mark} {short}" for short, mark in notes.items())
    caption = f"Test accuracy in %, ours / the paper's {called}. {about}".strip()
    return Table(frame, caption)


# -------------------------------------------------------------------------- of the pipeline


def write_outputs(plan: Plan) -> None:
    """Write what the stages after the training read: for each section a file with the
    digests of its records, and for DVC metrics.json (accuracy by section, model, arm and
    task) and curves.csv, of the runs of the plan, or of all experiments if it has none."""
    for section in sections():
        write_json(project().reports / "index" / f"{section}.json", digests(section))
    runs = rows_of(plan)
    # Its runs have any rate, so their mean would be of no arm.
    runs = runs[runs["section"] != RATES]
    metrics: dict[str, Any] = {}
    by_cell = runs.groupby(["section", "model", "arm", "task"], sort=False)
    for (section, model, arm, task), rows in by_cell:
        of_arm = metrics.setdefault(section, {}).setdefault(model, {}).setdefault(arm, {})
        of_arm[task] = round(float(rows["test_accuracy"].mean()), 2)
    write_json(project().reports / "metrics.json", metrics)
    # Curves of what is sealed are on the pages, and never change.
    text = panels(runs if plan.runs else runs.head(0)).to_csv(index=False)
    write_atomic(project().reports / "curves.csv", text.encode())


def digests(section: str) -> dict[str, str]:
    """A digest of the records of a section by experiment."""
    found = {}
    every = everything(project().experiments)
    for experiment, rows in every[every["section"] == section].groupby("experiment"):
        store = Store(project().records(str(experiment)))
        found[str(experiment)] = digest(store.digests(sorted({*rows["key"]})))
    return found


def rows_of(plan: Plan) -> pd.DataFrame:
    """The reported runs of a plan that are recorded, as rows of `fpt.results`, whatever
    experiment holds them; those of all experiments if the plan has no runs."""
    runs = everything(project().experiments)
    if not plan.runs:
        return runs[runs["role"] == "reported"]
    keys = {run.key for run in plan.runs if not run.search}
    return runs[runs["key"].isin(keys)]


def panels(runs: pd.DataFrame) -> pd.DataFrame:
    """The mean curve of validation accuracy, in [0, 1], of each arm: a panel for each
    section, model and task."""
    columns = ["panel", "arm", "step", "accuracy"]
    curves = [pd.DataFrame(columns=columns)]
    for (section, model, task), rows in runs.groupby(
        ["section", "model", "task"], sort=False
    ):
        means = (
            curves_of(rows).groupby(["arm", "step"], sort=False)["accuracy"].mean() / 100
        )
        panel = f"{section}: {model}, {label_of(str(task))}"
        curves.append(means.reset_index().assign(panel=panel)[columns])
    full = [frame for frame in curves if len(frame)]
    return pd.concat(full).round(4) if full else curves[0]
