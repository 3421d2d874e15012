"""A claim: what is measured on a task, and where the paper makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import paper
from .cells import Cells
from .comparisons import COMPARISONS
from .stats import Difference, Direction
from .table import short


@dataclass(frozen=True)
class Evidence:
    """What a claim may look at: the cells of a section, and the best trivial floor per task."""

    cells: Cells
    floors: Mapping[str, float | None]


@dataclass(frozen=True)
class Measured:
    """An effect, None where not run, and the number of runs behind each of its sides."""

    effect: Difference | None
    runs: tuple[int, ...]


Test = Callable[[Evidence, str], Measured]


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed, `effect` what is measured; `covers` the tasks it is made for."""

    id: str
    text: str
    source: str
    effect: str
    test: Test
    direction: Direction
    margin: float = 0.0
    covers: Callable[[str], bool] = lambda task: True


def versus(a: str, b: str) -> Test:
    """Arm `a` minus arm `b`."""

    def test(seen: Evidence, task: str) -> Measured:
        first, second = (seen.cells.get((arm, task)) for arm in (a, b))
        runs = tuple(len(cell.values) if cell else 0 for cell in (first, second))
        return Measured(first.minus(second) if first and second else None, runs)

    return test


def above(a: str, level: float | None) -> Test:
    """Arm `a` minus a fixed accuracy, or minus the task's best floor where that is None."""

    def test(seen: Evidence, task: str) -> Measured:
        cell = seen.cells.get((a, task))
        bound = seen.floors[task] if level is None else level
        effect = cell.minus(bound) if cell and bound is not None else None
        return Measured(effect, (len(cell.values) if cell else 0,))

    return test


def paper_says(comparison: str, a: str, b: str, least: float) -> Callable[[str], bool]:
    """The tasks on which the paper's own numbers, arm `a` minus arm `b`, exceed `least` points."""
    return lambda task: (COMPARISONS[comparison].effect(a, b, task) or 0.0) > least


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
    covers = covers or (lambda task: True)
    return Claim(id, text, source, effect, versus(a, b), "greater", covers=covers)
