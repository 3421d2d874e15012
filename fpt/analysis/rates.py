"""Learning rates: which one an arm gets on a task, and the runs at it.

Rothermel et al. (2021, arXiv:2107.12460) hold that the paper's one rate of 0.001 decides its
comparison. A block of params.yaml with `lrs` trains every arm on every task at each of them, with
two sets of seeds. Those of `search` choose: the rate of the best mean validation accuracy. The
block's `seeds` are reported, and they too are trained at every rate, not at the chosen one alone:
so every arm has equally many trials, and accuracy against the rate is a curve with intervals. No
seed that chooses is reported, and the test set chooses nothing. `fpt.analysis.grid` chooses, and
says when the grid goes on beyond its edge.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..config import Run
from ..paper import reader as paper
from ..sections.section import Section
from . import grid
from .cells import Cell, cells
from .grid import At, Choice

Rates = Mapping[At, Mapping[float, Cell]]  # cells at each rate, lowest first

PUBLISHED = "Rates"  # the paper's own, as a table


def published_rate(task: str) -> float:
    """The paper's rate on a task; on one that it does not have, its rate for most."""
    table = paper.table(PUBLISHED)
    cell = table.cells.get(("transformer", task), table.cells["transformer", "bit-memory"])
    assert cell.value is not None  # the table has no gaps
    return cell.value


def choices(section: Section) -> dict[At, Choice[Run]]:
    """The choice for every arm and task of a section; of one rate where there is only one."""
    searched = [run for run in (*section.runs, *section.together) if run.search]
    present = section.store.read_all(run.key for run in searched)
    return grid.choices(section.runs, present, section.together)


def reported(section: Section) -> Section:
    """The runs that are reported, at every rate."""
    return replace(section, runs=tuple(run for run in section.runs if not run.search))


def published(section: Section) -> Section:
    """The runs that are reported, at the paper's rate."""
    runs = [run for run in reported(section).runs if run.spec.lr == published_rate(run.task)]
    return replace(section, runs=tuple(runs))


def tuned(section: Section) -> Section:
    """The runs that are reported, of each arm and task at its chosen rate; the section itself where
    nothing is searched. Where nothing is chosen yet, the runs that are missing for it: such a cell
    is not run, whatever is recorded at single rates."""
    if not any(run.search for run in section.runs):
        return section
    runs: list[Run] = []
    for (arm, task), choice in choices(section).items():
        mine = [run for run in section.runs if (run.arm, run.task) == (arm, task)]
        if choice.rate is None:
            runs += [replace(run, arm=arm) for run in choice.missing]
        else:
            runs += [run for run in mine if not run.search and run.lr == choice.rate]
    return replace(section, runs=tuple(runs))


def by_rate(section: Section) -> Rates:
    """The cells of the reported runs at each rate; empty where nothing is searched."""
    if not any(run.search for run in section.runs):
        return {}
    frame = reported(section).frame()
    found: dict[At, dict[float, Cell]] = {}
    for lr, rows in frame.groupby("lr"):
        for at, cell in cells(rows).items():
            found.setdefault(at, {})[float(lr)] = cell
    return found
