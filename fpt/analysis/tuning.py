"""Learning rates: which one an arm gets on a task, and the runs at it.

Rothermel et al. (2021, arXiv:2107.12460) hold that the paper's one rate of 0.001 decides its
comparison. A block of params.yaml with `lrs` trains every arm on every task at each of them, with
two sets of seeds. Those of `search` choose: the rate of the best mean validation accuracy. The
block's `seeds` are reported, and they too are trained at every rate, not at the chosen one alone:
so every arm has equally many trials, and accuracy against the rate is a curve with intervals. No
seed that chooses is reported, and the test set chooses nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..config import Run
from ..paper import reader as paper
from ..records import Record
from ..sections.section import Section
from .cells import Cell, cells

At = tuple[str, str]  # an arm and a task
Rates = Mapping[At, Mapping[float, Cell]]  # cells at each rate, lowest first

PUBLISHED = "Rates"  # the paper's own, as a table
LOWEST, HIGHEST = "lowest", "highest"
NEVER = -1.0  # the accuracy of a rate at which a run diverged


@dataclass(frozen=True)
class Choice:
    """The rate chosen for an arm on a task; None while runs of the search are `missing`.

    `found` has for each rate, lowest first, the mean validation accuracy of the search and the mean
    step at which it was reached; (NEVER, 0) if a run diverged.
    """

    found: Mapping[float, tuple[float, float]]
    missing: tuple[Run, ...]

    @property
    def rate(self) -> float | None:
        """The best; of equal ones that which gets there first, then the lowest."""
        if self.missing:
            return None
        return max(self.found, key=lambda lr: (self.found[lr][0], -self.found[lr][1], -lr))

    @property
    def best(self) -> float | None:
        """The rate, unless nothing was better there than anywhere: all diverged."""
        return None if self.diverged else self.rate

    @property
    def diverged(self) -> bool:
        """Whether there is no rate at which the whole search stayed finite."""
        searched = len(self.found) > 1 and not self.missing
        return searched and all(accuracy == NEVER for accuracy, _ in self.found.values())

    @property
    def edge(self) -> str | None:
        """`lowest` or `highest` if the chosen rate is the last on that side and no rate within is
        as good: a better one may lie outside."""
        if self.best is None or len(self.found) < 2:
            return None
        first, *inside, last = self.found
        if any(self.found[lr][0] >= self.found[self.best][0] for lr in inside):
            return None
        return {first: LOWEST, last: HIGHEST}[self.best]


def choices(section: Section) -> dict[At, Choice]:
    """The choice for every arm and task of a section; of one rate if there is only one."""
    present = section.store.read_all(run.key for run in section.runs if run.search)
    by_place: dict[At, list[Run]] = {}
    for run in section.runs:
        by_place.setdefault((run.arm, run.task), []).append(run)
    chosen = {}
    for at, runs in by_place.items():
        trials = [run for run in runs if run.search]
        found = {
            lr: _searched(present.get(run.key) for run in trials if run.lr == lr)
            for lr in sorted({run.lr for run in runs})
        }
        chosen[at] = Choice(found, tuple(run for run in trials if run.key not in present))
    return chosen


def _searched(records: Iterable[Record | None]) -> tuple[float, float]:
    """Mean validation accuracy and mean best step of the recorded runs at one rate."""
    here = [record for record in records if record is not None]
    if not here or any(record.status == "diverged" for record in here):
        return NEVER, 0.0
    accuracy = sum(record.metrics["valid_accuracy"] for record in here) / len(here)
    return accuracy, sum(record.metrics["best_step"] for record in here) / len(here)


def reported(section: Section) -> Section:
    """The runs that are reported, at every rate."""
    return replace(section, runs=tuple(run for run in section.runs if not run.search))


def published(section: Section) -> Section:
    """The runs that are reported, at the paper's rate."""
    runs = [run for run in reported(section).runs if run.spec.lr == published_rate(run.task)]
    return replace(section, runs=tuple(runs))


def published_rate(task: str) -> float:
    """The paper's rate on a task; on one that it does not have, its rate for most."""
    table = paper.table(PUBLISHED)
    cell = table.cells.get(("transformer", task), table.cells["transformer", "bit-memory"])
    assert cell.value is not None  # the table has no gaps
    return cell.value


def tuned(section: Section) -> Section:
    """The runs that are reported, of each arm and task at its chosen rate; the section itself if
    nothing is searched. If nothing is chosen yet, the runs that are missing for it: such a cell is
    not run, whatever is recorded at single rates."""
    if not any(run.search for run in section.runs):
        return section
    runs: list[Run] = []
    for (arm, task), choice in choices(section).items():
        mine = [run for run in section.runs if (run.arm, run.task) == (arm, task)]
        if choice.rate is None:
            runs += choice.missing
        else:
            runs += [run for run in mine if not run.search and run.lr == choice.rate]
    return replace(section, runs=tuple(runs))


def by_rate(section: Section) -> Rates:
    """The cells of the reported runs at each rate; empty if nothing is searched."""
    if not any(run.search for run in section.runs):
        return {}
    frame = reported(section).frame()
    found: dict[At, dict[float, Cell]] = {}
    for lr, rows in frame.groupby("lr"):
        for at, cell in cells(rows).items():
            found.setdefault(at, {})[float(lr)] = cell
    return found
