"""Comparisons: which arms stand in one table, and where the paper printed their numbers.

The paper's tables have other arms and other columns than a section has runs, so what stands beside
what is said here once, for tables, figures and claims alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import paper


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


FULL = "output+layernorm+input+positions"  # the whole recipe, in the tables of its parts
STATISTICS = ("statistics-tensor", "statistics-layer", "statistics-global")
STARTS = (*STATISTICS, "shuffled", "permuted-rows", "pretrained-body", "random-body")
UNFROZEN = ("feedforward", "attention", "feedforward+attention", "feedforward+last-attention")
LAYERNORM = {"fpt": "trained-layernorm", "output+input+positions": "frozen-layernorm"}
LAYERNORM |= {"random": "trained-layernorm", "random-output+input+positions": "frozen-layernorm"}


def _minus(first: str, *others: str) -> tuple[tuple[str, str], ...]:
    return tuple((first, other) for other in others)


def _steps(arms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each arm minus the one before."""
    return tuple(zip(arms[1:], arms[:-1], strict=True))


def _beside(arms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each arm minus the first."""
    return tuple((arm, arms[0]) for arm in arms[1:])


def _successive(start: str) -> tuple[str, ...]:
    parts = ("output", "output+layernorm", "output+layernorm+input")
    return tuple(start + part for part in parts)


def _individual(start: str) -> tuple[str, ...]:
    parts = ("output", "output+input", "output+positions", "output+layernorm")
    return tuple(start + part for part in parts)


def _without(start: str, arms: tuple[str, ...]) -> dict[str, str]:
    return {arm: arm.removeprefix(start) for arm in arms}


COMPARISONS: Mapping[str, Comparison] = {
    comparison.name: comparison
    for comparison in (
        Comparison(
            "transfer",
            "FPT against other bodies",
            ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            ("T1", "T2"),
            _minus("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released"),
            rows={"lstm-released": "lstm"},  # the paper's LSTM is the released code's
        ),
        Comparison(
            "initialization",
            "How the frozen body starts",
            ("fpt", *STARTS, "random", "random-scaled"),
            ("T9",),
            (
                *_minus("fpt", *STARTS, "random", "random-scaled"),
                *((start, "random") for start in (*STARTS, "random-scaled")),
            ),
            rows=dict.fromkeys(STATISTICS, "statistics"),
            notes=(
                "The paper does not say over what its statistics are taken: its one row stands "
                "beside each of ours.",
                "Language matrices only: norms and positions start as in the random body; random "
                "matrices only: they start as in the language body.",
            ),
        ),
        Comparison(
            "successive",
            "Trained parts of the language body, one after another",
            (*_successive(""), "fpt"),
            ("T15",),
            _steps((*_successive(""), "fpt")),
            rows={"fpt": FULL},
        ),
        Comparison(
            "individual",
            "Trained parts of the language body, one at a time",
            _individual(""),
            ("T18",),
            _beside(_individual("")),
        ),
        Comparison(
            "random_successive",
            "Trained parts of a random body, one after another",
            (*_successive("random-"), "random"),
            ("T20",),
            _steps((*_successive("random-"), "random")),
            rows={**_without("random-", _successive("random-")), "random": FULL},
        ),
        Comparison(
            "random_individual",
            "Trained parts of a random body, one at a time",
            _individual("random-"),
            ("T21",),
            _beside(_individual("random-")),
            rows=_without("random-", _individual("random-")),
        ),
        Comparison(
            "layernorm",
            "Layer norms trained or frozen",
            tuple(LAYERNORM),
            ("T16",),
            (("fpt", "output+input+positions"), ("random", "random-output+input+positions")),
            rows={"output+input+positions": "fpt", "random-output+input+positions": "random"},
            task="cifar10",
            columns=LAYERNORM,
            notes=(
                "The paper's caption says that input and output alone are trained beside frozen "
                "norms; its numbers fit only with the positions trained too, as here.",
            ),
        ),
        Comparison(
            "unfreezing",
            "Training parts of the body too",
            ("fpt", *(f"fpt+{parts}" for parts in UNFROZEN)),
            ("T13", "T14"),
            (
                *((f"fpt+{parts}", "fpt") for parts in UNFROZEN),
                ("fpt+feedforward+last-attention", "fpt+feedforward"),
            ),
            notes=(
                "T13 uses one learning rate, 0.001, with two runs that diverged; ours are in the "
                "protocol.",
            ),
        ),
    )
}  # fmt: skip
