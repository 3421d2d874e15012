"""What a section declares: arms that stand in one table, the differences of interest
between them, and what the paper printed of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..paper import reader as paper

Pair = tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """Arms in one table. `pairs` are the differences of interest, first arm minus second.

    `paper` names the paper's tables, in the order in which a number is looked for. `rows`
    has the arms that these tables call otherwise than we do. A table whose columns are not
    tasks names its one task in `task`, and in `columns` the column of each arm. `note` is
    one sentence that a reader of the table must know.
    """

    name: str
    title: str
    arms: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()
    paper: tuple[str, ...] = ()
    rows: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def row(self, arm: str) -> str:
        return self.rows.get(arm, arm)

    def source(self, *arms: str) -> str | None:
        """The first of the paper's tables that has a row for every one of `arms`, if
        any."""
        # Two numbers of different tables may come from different runs.
        rows = {self.row(arm) for arm in arms}
        return next(
            (name for name in self.paper if rows <= set(paper.table(name).rows)), None
        )

    def printed(self, arm: str, task: str, *partners: str) -> float | None:
        """What the paper printed for an arm, in percent, in the first table that has it and
        the arms that are its `partners`; None if it printed nothing."""
        name = self.source(arm, *partners)
        if name is None or (self.task is not None and task != self.task):
            return None
        # Some tables have arms as columns, all of one task.
        column = task if self.task is None else self.columns.get(arm, "")
        cell = paper.table(name).cells.get((self.row(arm), column))
        return None if cell is None else cell.value

    def effect(self, a: str, b: str, task: str) -> float | None:
        """Arm `a` minus arm `b` in points, both from one table; None if no table has
        both."""
        first, second = self.printed(a, task, b), self.printed(b, task, a)
        return None if first is None or second is None else first - second


@dataclass(frozen=True)
class Section:
    """What one notebook shows: its comparisons, and the registered claims that it
    reports."""

    comparisons: tuple[Comparison, ...] = ()
    claims: tuple[str, ...] = ()  # names in registration.yaml
    # Sections whose runs answer its question in a profile that plans none of its own.
    lenders: tuple[str, ...] = ()

    @property
    def is_summary(self) -> bool:
        """Whether it has claims and compares nothing itself: the page of all verdicts."""
        return bool(self.claims) and not self.comparisons


def minus(first: str, *seconds: str) -> tuple[Pair, ...]:
    """The first arm minus each of the second ones."""
    return tuple((first, second) for second in seconds)


def over(second: str, *firsts: str) -> tuple[Pair, ...]:
    """Each of the first arms minus the second."""
    return tuple((first, second) for first in firsts)


def in_turn(*arms: str) -> tuple[Pair, ...]:
    """Each arm minus the one before."""
    return tuple(zip(arms[1:], arms[:-1], strict=True))
