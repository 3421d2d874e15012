"""A claim: what is measured on a task, and where the paper makes it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ..paper import reader as paper
from ..report.table import short
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section
from .cells import Cell, Cells
from .fit import Fits, whole_task
from .stats import Difference, Direction, contrast
from .tuning import Rates

OURS = "not claimed by the paper"
# Within 5 points counts as a match: the paper itself calls gaps of up to 3.7 points one.
MATCH = 0.05
# The paper's cells rest on about 100 test images, so 5 points are the least it can claim.
LEAD = 5.0


def every_task(task: str) -> bool:
    """Covers all tasks."""
    del task
    return True


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the cells of a section, the best trivial floor per task, training
    beside test accuracy, the cells at each learning rate where there are several, and the section
    itself for what is no accuracy. `unlearned`: arms whose body did not learn its corpus; `titles`:
    what tables call the tasks."""

    cells: Cells
    floors: Mapping[str, float | None]
    fits: Fits = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    section: Section | None = None
    unlearned: Collection[str] = ()
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """An effect, None if it was not run, and the number of runs behind each of its sides. `barred`
    says why the runs decide nothing, though all of them are there."""

    effect: Difference | None
    runs: tuple[int, ...]
    barred: str = ""

    @property
    def ran(self) -> bool:
        return self.effect is not None or bool(self.barred)


Test = Callable[[Evidence, str], Measured]


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed, `effect` what is measured; `covers` the tasks it is made for,
    `arms` the arms whose pretraining must not give it away (`fpt.analysis.provenance`). `unit`: of
    the effect as it is printed. `asked`: the profile has runs for it."""

    id: str
    text: str
    source: str
    effect: str
    test: Test
    direction: Direction
    margin: float = 0.0
    covers: Callable[[str], bool] = every_task
    arms: tuple[str, ...] = ()
    unit: str = "points of test accuracy"
    asked: bool = True


def measured(effect: Difference | None, runs: tuple[int, ...], *sides: Cell | None) -> Measured:
    """The effect between cells; of runs that diverged those that are left are no sample."""
    whole = all(cell is None or cell.whole for cell in sides)
    return Measured(effect, runs, "" if whole or effect is None else "runs diverged")


def compared(first: Cell | None, second: Cell | None) -> Measured:
    """The first cell minus the second."""
    runs = tuple(len(cell.values) if cell else 0 for cell in (first, second))
    return measured(first.minus(second) if first and second else None, runs, first, second)


def versus(a: str, b: str) -> Test:
    """Arm `a` minus arm `b`."""

    def test(seen: Evidence, task: str) -> Measured:
        return compared(*(seen.cells.get((arm, task)) for arm in (a, b)))

    return test


def above(a: str, level: float | None) -> Test:
    """Arm `a` minus a fixed accuracy, or minus the task's best floor where that is None."""

    def test(seen: Evidence, task: str) -> Measured:
        cell = seen.cells.get((a, task))
        bound = seen.floors[task] if level is None else level
        effect = cell.minus(bound) if cell and bound is not None else None
        return measured(effect, (len(cell.values) if cell else 0,), cell)

    return test


def between(first: Measured, second: Measured) -> Measured:
    """The first effect minus the second, of other runs."""
    both = first.effect and second.effect and contrast(first.effect, second.effect)
    barred = (first.barred or second.barred) if both else ""
    return Measured(both, first.runs + second.runs, barred)


def gap(a: str) -> Test:
    """Training minus test accuracy of arm `a`."""

    def test(seen: Evidence, task: str) -> Measured:
        fit = seen.fits.get((a, task))
        if fit is None:
            return Measured(None, (0,))
        return measured(fit.gap(), (len(fit.test.values),), fit.test)

    return test


def wider_gap(a: str, b: str) -> Test:
    """How much more of its training than of its test arm `a` knows, minus the same of arm `b`."""

    def test(seen: Evidence, task: str) -> Measured:
        first, second = gap(a)(seen, task), gap(b)(seen, task)
        return between(first, second)

    return test


def fades(a: str, b: str) -> Test:
    """Arm `a` minus arm `b` with the training examples of the task, minus the same with all."""

    def test(seen: Evidence, task: str) -> Measured:
        few, all_ = versus(a, b)(seen, task), versus(a, b)(seen, whole_task(task) or task)
        return between(few, all_)

    return test


def paper_says(comparison: str, a: str, b: str, least: float) -> Callable[[str], bool]:
    """The tasks on which the paper's own numbers, arm `a` minus arm `b`, exceed `least` points."""
    return lambda task: (COMPARISONS[comparison].effect(a, b, task) or 0.0) > least


def alike_in_paper(comparison: str, a: str, b: str) -> Callable[[str], bool]:
    """The tasks on which the paper's own numbers differ by no more than a match."""

    def covers(task: str) -> bool:
        printed = COMPARISONS[comparison].effect(a, b, task)
        return printed is not None and abs(printed) <= 100 * MATCH

    return covers


def among(*tasks: str) -> Callable[[str], bool]:
    """These tasks."""
    return lambda task: task in tasks


def known_to_paper(task: str) -> bool:
    return task in paper.table("T1").columns


def where_seen(comparison: str, a: str, b: str) -> Callable[[str], bool]:
    """The tasks on which the paper's arm `a` is above its arm `b`."""
    return paper_says(comparison, a, b, 0.0)


def leads(
    id: str, text: str, source: str, a: str, b: str, covers: Callable[[str], bool] | None = None
) -> Claim:
    """Arm `a` is better than arm `b`."""
    effect = f"{short(a)} minus {short(b)}"
    return Claim(
        id, text, source, effect, versus(a, b), "greater", covers=covers or every_task, arms=(a, b)
    )
