"""Every cell of every table of the paper, and the runs of a profile that would fill it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..paper import reader as paper
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section

# Tables that print something else than an accuracy of one arm: section, and the arms of each row.
STEPS = {"fpt": ("fpt",), "random": ("random",), "speed-up": ("fpt", "random")}
TRAINED = {"fpt": ("fpt",), "vanilla-transformer": ("vanilla",), "linformer": ("linformer",)}
CACHED = "cached-epoch-speed-up"  # rows of the running text that our probes measure
# Columns and tables that follow from an architecture or from the data alone.
COUNTED = {
    "T7": ("layers",),
    "T8": ("layers", "width", "heads", "total", "trained"),
    "Text": ("value",),
}


@dataclass(frozen=True)
class Place:
    """Where a number of ours comes from: an arm of a section on a task."""

    section: str
    arm: str
    task: str


@dataclass(frozen=True)
class Coverage:
    """One printed cell. `expected` are keys of runs; there are none if the number is `counted`, or
    if the profile has no run for it."""

    table: str
    row: str
    column: str
    value: float
    counted: bool
    places: tuple[Place, ...]
    expected: tuple[str, ...]


def places(table: str, row: str, column: str) -> list[Place]:
    """What stands beside a printed cell; more than one place where the paper's arm is several of
    ours, or is needed in several."""
    if table == "T6":
        return [Place("efficiency", arm, column) for arm in STEPS[row]]
    if (table, column) == ("T7", "train"):
        return [Place("overfitting", arm, "cifar10-lra") for arm in TRAINED[row]]
    if row.startswith(CACHED):
        return [Place("efficiency", "probe", task) for task in paper.table("T10").columns]
    found = []
    for comparison in COMPARISONS.values():
        if table not in comparison.tables:
            continue
        for arm in comparison.arms:
            here = column if comparison.task is None else comparison.columns.get(arm)
            if comparison.row(arm) == row and here == column:
                found.append(Place(comparison.of, arm, comparison.task or column))
    return list(dict.fromkeys(found))


def cells(sections: Sequence[Section]) -> list[Coverage]:
    """Every cell of the tables of the paper itself that has a number, in print order, with the runs
    that it needs; which of them are recorded is not looked at."""
    runs: dict[Place, list[str]] = {}
    for section in sections:
        for run in section.runs:
            place = Place(section.name, run.arm, run.task)
            runs.setdefault(place, []).append(run.spec.key)
    found = []
    for name, table in paper.tables().items():
        if not is_own(name):
            continue
        for (row, column), cell in table.cells.items():
            if cell.value is None:
                continue
            counted = column in COUNTED.get(name, ()) and not row.startswith(CACHED)
            there = () if counted else tuple(places(name, row, column))
            keys = tuple(dict.fromkeys(key for place in there for key in runs.get(place, [])))
            found.append(Coverage(name, row, column, cell.value, counted, there, keys))
    return found


def is_own(table: str) -> bool:
    """Whether the paper printed it, not one of its critics or followers."""
    return table == "Text" or (table[0] == "T" and table[1:].isdigit())
