"""A claim: what is measured on a task, and where the paper makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from . import paper
from .cells import Cell, Cells
from .comparisons import COMPARISONS
from .fit import Fits, whole_task
from .rates import Rates
from .sections import Section
from .stats import Difference, Direction, contrast
from .table import short

OURS = "not claimed by the paper"
# Within 5 points counts as a match: the paper itself calls gaps of up to 3.7 points one.
MATCH = 0.05
# The paper's cells rest on about 100 test images, so 5 points are the least it can claim.
LEAD = 5.0
LANGUAGE = "English"  # as a language, in place of a task: what bodies are taught (`fpt.lessons`)


def every_task(task: str) -> bool:
    """Every task, English as a language not being one."""
    return task != LANGUAGE


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the cells of a section, the best trivial floor per task, training
    beside test accuracy, the cells at each learning rate where there are several, and the section
    itself for what is no accuracy."""

    cells: Cells
    floors: Mapping[str, float | None]
    fits: Fits = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    section: Section | None = None


@dataclass(frozen=True)
class Measured:
    """An effect, None where not run, and the number of runs behind each of its sides. It is not
    `whole` where some of them diverged: those that are left are no sample, and decide nothing."""

    effect: Difference | None
    runs: tuple[int, ...]
    whole: bool = True


Test = Callable[[Evidence, str], Measured]


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed, `effect` what is measured; `covers` the tasks it is made for,
    `arms` the arms whose pretraining must not give it away (`fpt.origins`). `asked`: the profile
    has runs for it."""

    id: str
    text: str
    source: str
    effect: str
    test: Test
    direction: Direction
    margin: float = 0.0
    covers: Callable[[str], bool] = every_task
    arms: tuple[str, ...] = ()
    asked: bool = True


def compared(first: Cell | None, second: Cell | None) -> Measured:
    """The first cell minus the second."""
    runs = tuple(len(cell.values) if cell else 0 for cell in (first, second))
    whole = all(cell is None or cell.whole for cell in (first, second))
    return Measured(first.minus(second) if first and second else None, runs, whole)


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
        runs = (len(cell.values) if cell else 0,)
        return Measured(effect, runs, cell is None or cell.whole)

    return test


def between(first: Measured, second: Measured) -> Measured:
    """The first effect minus the second, of other runs."""
    both = first.effect and second.effect and contrast(first.effect, second.effect)
    return Measured(both, first.runs + second.runs, first.whole and second.whole)


def gap(a: str) -> Test:
    """Training minus test accuracy of arm `a`."""

    def test(seen: Evidence, task: str) -> Measured:
        fit = seen.fits.get((a, task))
        runs = (len(fit.test.values) if fit else 0,)
        return Measured(fit.gap() if fit else None, runs, fit is None or fit.test.whole)

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
    """The tasks on which the paper's arm `a` is above its arm `b`, and those that it has not."""
    seen = paper_says(comparison, a, b, 0.0)
    return lambda task: not known_to_paper(task) or seen(task)


def leads(
    id: str, text: str, source: str, a: str, b: str, covers: Callable[[str], bool] | None = None
) -> Claim:
    """Arm `a` is better than arm `b`."""
    effect = f"{short(a)} minus {short(b)}"
    return Claim(
        id, text, source, effect, versus(a, b), "greater", covers=covers or every_task, arms=(a, b)
    )
