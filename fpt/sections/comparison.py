"""One comparison: arms that stand in one table, and what the paper printed of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..paper import reader as paper


@dataclass(frozen=True)
class Comparison:
    """`tables` are the paper's, in the order in which a number is looked for.

    `pairs` are the differences of interest, first arm minus second. `rows` has the arms that a
    table calls otherwise than we do. A table whose columns are not tasks
    names its one task in `task`, and in `columns` the column of each arm.
    """

    name: str
    title: str
    arms: tuple[str, ...]
    tables: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    rows: Mapping[str, str] = field(default_factory=dict)
    task: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    section: str = ""  # whose runs are compared, where it is not called like the comparison

    @property
    def of(self) -> str:
        """The section whose runs are compared."""
        return self.section or self.name

    def row(self, arm: str) -> str:
        return self.rows.get(arm, arm)

    def knows(self, task: str) -> bool:
        """Whether the paper has the task in one of the tables."""
        if self.task is not None:
            return task == self.task
        return any(task in paper.table(table).columns for table in self.tables)

    def source(self, *arms: str) -> str | None:
        """The first table that has a row for every one of `arms`; None where there is none."""
        rows = {self.row(arm) for arm in arms}
        return next((name for name in self.tables if rows <= set(paper.table(name).rows)), None)

    def printed(self, arm: str, task: str, *beside: str) -> float | None:
        """What the paper printed for an arm, in percent, in the first table that has it (and the
        arms `beside` it); None where nothing."""
        name = self.source(arm, *beside)
        if name is None or not self.knows(task):
            return None
        column = self.columns.get(arm) if self.task is not None else task
        cell = paper.table(name).cells.get((self.row(arm), str(column)))
        return None if cell is None else cell.value

    def effect(self, a: str, b: str, task: str) -> float | None:
        """Arm `a` minus arm `b` in points, both from one table; None where no table has both."""
        first, second = self.printed(a, task, b), self.printed(b, task, a)
        return None if first is None or second is None else first - second
