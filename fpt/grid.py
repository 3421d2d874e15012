"""The learning rates of an arm on a task: which is chosen, and which are trained at all.

The grid `lrs` of a block is trained whole. A best rate at its edge may be short of a better one. So
the rates `beyond` the grid are trained too, one by one outwards, where the best rate of any arm on
a task is the last on that side; by every arm on that task, so that trials stay equal. It is the
only place where a result decides what is trained, and the result is that of the seeds that choose.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .config import Run
from .records import Record

At = tuple[str, str]  # an arm and a task
LOWEST, HIGHEST = "lowest", "highest"


@dataclass(frozen=True)
class Choice:
    """The rate chosen for an arm on a task; None while runs of the search are `missing`.

    `found` has for each rate, lowest first, the mean validation accuracy of the search and the mean
    step at which it was reached; (-1, 0) where a run diverged.
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
        """`lowest` or `highest` where the chosen rate is the last on that side and no rate within
        is as good: a better one may lie outside."""
        if self.rate is None or len(self.found) < 2:
            return None
        first, *inside, last = self.found
        if any(self.found[lr][0] >= self.found[self.rate][0] for lr in inside):
            return None
        return {first: LOWEST, last: HIGHEST}[self.rate]


def choices(runs: Iterable[Run], present: Mapping[str, Record]) -> dict[At, Choice]:
    """The choice for every arm and task among `runs`; of one rate where there is only one."""
    by_place: dict[At, list[Run]] = {}
    for run in runs:
        by_place.setdefault((run.arm, run.task), []).append(run)
    chosen = {}
    for at, mine in by_place.items():
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


def reached(runs: Sequence[Run], present: Mapping[str, Record]) -> list[Run]:
    """`runs` without those beyond the grid that no best rate calls for yet."""
    here = [run for run in runs if not run.beyond]
    called: set[tuple[str, float]] = set()  # tasks and rates
    while True:
        asked = {
            (task, lr)
            for (arm, task), choice in choices(here, present).items()
            for lr in _next(choice, {r.spec.lr for r in runs if (r.arm, r.task) == (arm, task)})
        }
        if asked <= called:
            return here
        called |= asked
        here = [run for run in runs if not run.beyond or (run.task, run.spec.lr) in called]


def _next(choice: Choice, rates: Iterable[float]) -> list[float]:
    """The nearest of `rates` beyond the edge on which the choice lies; none where it lies on none,
    or where there is no further rate."""
    if choice.edge == LOWEST:
        return sorted(lr for lr in rates if lr < min(choice.found))[-1:]
    if choice.edge == HIGHEST:
        return sorted(lr for lr in rates if lr > max(choice.found))[:1]
    return []
