"""Cells: what the runs of one arm on one task gave. Tables, figures and claims share them."""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..files import FptError
from ..sections.section import Section
from ..tasks import Task
from ..training.train import task_of
from .stats import Difference, Interval, difference, mean_interval

CHOSEN = "test_accuracy"  # of the parameters chosen on validation


@dataclass(frozen=True)
class Cell:
    """`values` are test accuracies in [0, 1] of the runs that are done, in the order of seeds.

    A cell has no interval, and enters no comparison, before each of its `expected` runs is
    recorded.
    """

    arm: str
    task: str
    values: tuple[float, ...]
    expected: int
    diverged: int = 0
    failed: int = 0
    lr: float | None = None  # learning rate of its runs, None where none is recorded

    @property
    def interval(self) -> Interval | None:
        """95%, over seeds; None if a run is missing, or none is done."""
        return mean_interval(self.values) if self.complete and self.values else None

    @property
    def present(self) -> int:
        return len(self.values) + self.diverged + self.failed

    @property
    def complete(self) -> bool:
        return self.present >= self.expected

    @property
    def whole(self) -> bool:
        """Whether every run that is recorded has an accuracy."""
        return not self.diverged and not self.failed

    @property
    def absence(self) -> str:
        """Why there is no interval."""
        if not self.complete:
            return f"{self.present} of {self.expected} runs" if self.present else "not run"
        return "diverged" if self.diverged else "failed"

    def minus(self, other: "Cell | float") -> Difference | None:
        """Mean minus that of another cell or a known constant; None where a side has no number."""
        if self.interval is None:
            return None
        if isinstance(other, Cell):
            if other.interval is None:
                return None
            return difference(self.values, other.values)
        return difference(self.values, other)


Cells = Mapping[tuple[str, str], Cell]


def ran(found: Cells, arm: str, task: str) -> bool:
    """Whether all runs of an arm on a task are recorded, diverged ones too; so it has a cell."""
    cell = found.get((arm, task))
    return cell is not None and cell.complete


def effect(found: Cells, a: str, b: str, task: str) -> Difference | None:
    """Arm `a` minus arm `b`; None where a side has no run, or is not expected to have one."""
    first, second = found.get((a, task)), found.get((b, task))
    return None if first is None or second is None else first.minus(second)


def cells(frame: pd.DataFrame, metric: str = CHOSEN) -> Cells:
    """The cells of a section's frame by (arm, task), in its order. FptError if one would mix
    learning rates: take the runs at one of them first (`fpt.analysis.tuning`); or if its runs saw
    different data or different weights under one name."""
    if frame.empty:
        return {}
    places: dict[tuple[str, str], list[Mapping[Hashable, Any]]] = {}
    for row in frame.to_dict("records"):  # grouping by pandas takes ten times as long
        places.setdefault((row["arm"], row["task"]), []).append(row)
    found = {}
    for (arm, task), rows in places.items():
        rates = {float(row["lr"]) for row in rows if row["status"] != "not run"}
        if len(rates) > 1:
            raise FptError(
                f"{arm!r} ran on {task!r} at several learning rates, which one number cannot stand "
                "for; take the runs at one rate, such as fpt.analysis.tuning.tuned(section)."
            )
        _check_digests(arm, task, rows)
        done = [row for row in rows if row["status"] == "done"]
        values = [float(row.get(metric, math.nan)) for row in done]
        finite = tuple(value for value in values if math.isfinite(value))
        found[arm, task] = Cell(
            arm=arm,
            task=task,
            values=finite,
            expected=len({row["key"] for row in rows}),
            diverged=sum(row["status"] == "diverged" for row in rows) + len(done) - len(finite),
            failed=sum(row["status"] == "failed" for row in rows),
            lr=rates.pop() if rates else None,
        )
    return found


def _check_digests(arm: str, task: str, rows: Sequence[Mapping[Hashable, Any]]) -> None:
    """FptError if runs of one cell were trained on different data, or on different weights of one
    name."""
    seen: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for what, digest in (
            ("data", row.get("data_digest")),
            (f"weights {row.get('weights')}", row.get("weights_digest")),
        ):
            if isinstance(digest, str):
                seen.setdefault(what, {}).setdefault(digest, []).append(row["key"])
    for what, by_digest in seen.items():
        if len(by_digest) > 1:
            groups = " against ".join(
                f"{', '.join(keys)} (digest {digest[:8]})" for digest, keys in by_digest.items()
            )
            raise FptError(
                f"The runs of {arm!r} on {task!r} saw different {what}, so they are no sample of "
                f"one arm: {groups}. Keep the records of one of them and train the others again."
            )


def section_tasks(section: Section, arms: Collection[str] | None = None) -> dict[str, Task]:
    """The tasks of a section, or of some arms of it, by the name that its columns have. Reads no
    data."""
    specs = {run.task: run.spec for run in section.runs if arms is None or run.arm in arms}
    return {name: task_of(spec) for name, spec in specs.items()}


def titles(tasks: Mapping[str, Task]) -> dict[str, str]:
    """What tables call the tasks: by their names, and whether they are fitting."""
    return {name: f"{name} (fitting)" if task.fitting else name for name, task in tasks.items()}


def section_arms(section: Section) -> list[str]:
    return list(dict.fromkeys(run.arm for run in section.runs))


def floors(task: Task) -> dict[str, float]:
    """Test accuracies of trivial predictors; empty where they need data that are not here.

    A floor of another score is named `score: predictor` by its task, and left out.
    """
    try:
        return {name: value for name, value in task.floors().items() if ": " not in name}
    except FptError:
        return {}


def best_floor(task: Task) -> float | None:
    """The floor that a trained model has to beat; None where none is known."""
    return max(floors(task).values(), default=None)
