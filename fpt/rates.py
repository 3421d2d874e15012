"""Learning rates: which one an arm gets on a task, and the runs at it.

Rothermel et al. (2021, arXiv:2107.12460) hold that the paper's one rate of 0.001 decides its
comparison. A block of params.yaml with `lrs` trains every arm on every task at each of them, with
two sets of seeds. Those of `search` choose: the rate of the best mean validation accuracy. The
block's `seeds` are reported, and they too are trained at every rate, not at the chosen one alone:
so what is trained follows from params.yaml and never from a result, every arm has equally many
trials, and accuracy against the rate is a curve with intervals. No seed that chooses is reported,
and the test set chooses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from . import paper
from .cells import Cell, cells
from .config import Run
from .sections import Section

At = tuple[str, str]  # an arm and a task
Rates = Mapping[At, Mapping[float, Cell]]  # cells at each rate, lowest first

PUBLISHED = "Rates"  # the paper's own, as a table


@dataclass(frozen=True)
class Choice:
    """The rate chosen for an arm on a task; None while runs of the search are `missing`.

    `found` has for each rate of the grid, lowest first, the mean validation accuracy of the search
    and the mean step at which it was reached; (-1, 0) where a run diverged.
    """

    found: Mapping[float, tuple[float, float]]
    missing: frozenset[str]  # keys

    @property
    def rate(self) -> float | None:
        """The best; of equal ones that which gets there first, then the lowest."""
        if self.missing:
            return None
        return max(self.found, key=lambda lr: (self.found[lr][0], -self.found[lr][1], -lr))

    @property
    def edge(self) -> str | None:
        """`lowest` or `highest` where the chosen rate is the last of the grid on that side and no
        rate within it is as good: a better one may lie outside."""
        if self.rate is None or len(self.found) < 2:
            return None
        first, *inside, last = self.found
        if any(self.found[lr][0] >= self.found[self.rate][0] for lr in inside):
            return None
        return {first: "lowest", last: "highest"}[self.rate]


def published_rate(task: str) -> float:
    """The paper's rate on a task; on one that it does not have, its rate for most."""
    table = paper.table(PUBLISHED)
    cell = table.cells.get(("transformer", task), table.cells["transformer", "bit-memory"])
    assert cell.value is not None  # the table has no gaps
    return cell.value


def choices(section: Section) -> dict[At, Choice]:
    """The choice for every arm and task of a section; of one rate where there is only one."""
    present = section.records()
    runs: dict[At, list[Run]] = {}
    for run in section.runs:
        runs.setdefault((run.arm, run.task), []).append(run)
    chosen = {}
    for at, mine in runs.items():
        trials = [run for run in mine if run.search]
        found = {}
        for lr in sorted({run.spec.lr for run in mine}):
            keys = [run.spec.key for run in trials if run.spec.lr == lr]
            here = [present[key] for key in keys if key in present]
            whole = bool(here) and all(record.status == "done" for record in here)
            means = [
                sum(record.metrics[name] for record in here) / len(here)
                for name in ("valid_accuracy", "best_step")
                if whole
            ]
            found[lr] = (means[0], means[1]) if whole else (-1.0, 0.0)
        missing = {run.spec.key for run in trials if run.spec.key not in present}
        chosen[at] = Choice(found, frozenset(missing))
    return chosen


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
    chosen = choices(section)

    def shown(run: Run) -> bool:
        choice = chosen[run.arm, run.task]
        if choice.rate is None:
            return run.spec.key in choice.missing
        return not run.search and run.spec.lr == choice.rate

    return replace(section, runs=tuple(filter(shown, section.runs)))


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
