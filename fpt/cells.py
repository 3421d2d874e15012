"""Cells: what the runs of one arm on one task gave. Tables, figures and claims share them."""

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .errors import FptError
from .sections import Section
from .stats import Difference, Interval, difference, mean_interval
from .tasks import Task
from .train import task_of

CHOSEN, LAST = "test_accuracy", "last_test_accuracy"  # parameters chosen on validation, or the last


@dataclass(frozen=True)
class Cell:
    """`values` are test accuracies in [0, 1] of the runs that are done, in the order of seeds.

    A cell gives no number before each of its `expected` runs is recorded.
    """

    arm: str
    task: str
    values: tuple[float, ...]
    expected: int
    diverged: int = 0
    failed: int = 0
    items: int | None = None  # size of the test set
    lr: float | None = None  # learning rate of its runs, None where none is recorded

    @property
    def interval(self) -> Interval | None:
        """95%, over seeds and test items; None where a run is missing, or none is done."""
        return mean_interval(self.values, self.items) if self.complete and self.values else None

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
        """Why there is no number."""
        if not self.complete:
            return "not run"
        return "diverged" if self.diverged else "failed"

    def minus(self, other: "Cell | float") -> Difference | None:
        """Mean minus that of another cell or a known constant; None where a side has no number."""
        if self.interval is None:
            return None
        if isinstance(other, Cell):
            if other.interval is None:
                return None
            return difference(self.values, other.values, test_items=self.items)
        return difference(self.values, other, test_items=self.items)


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
    """The cells of a section's frame by (arm, task), in its order. FptError where one would mix
    learning rates: take the runs at one of them first (`fpt.rates`)."""
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
                "for; take the runs at one rate, such as fpt.rates.tuned(section)."
            )
        done = [row for row in rows if row["status"] == "done"]
        values = [float(row.get(metric, math.nan)) for row in done]
        finite = tuple(value for value in values if math.isfinite(value))
        items = [row["test_items"] for row in done if pd.notna(row.get("test_items"))]
        found[arm, task] = Cell(
            arm=arm,
            task=task,
            values=finite,
            expected=len({row["key"] for row in rows}),
            diverged=sum(row["status"] == "diverged" for row in rows) + len(done) - len(finite),
            failed=sum(row["status"] == "failed" for row in rows),
            items=int(items[0]) if items else None,
            lr=rates.pop() if rates else None,
        )
    return found


def section_tasks(section: Section, arms: Collection[str] | None = None) -> dict[str, Task]:
    """The tasks of a section, or of some arms of it, by the name that its columns have. Reads no
    data."""
    specs = {run.task: run.spec for run in section.runs if arms is None or run.arm in arms}
    return {name: task_of(spec) for name, spec in specs.items()}


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
