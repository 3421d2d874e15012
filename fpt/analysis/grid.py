"""The learning rates of an arm on a task: which is chosen, and which are trained at all.

The grid `lrs` of a block is trained whole. A best rate at its edge may be short of a better one. So
the rates `beyond` the grid are trained too, one by one outwards, where the best rate of any arm of
the block on a task is the last on that side; by every arm of the block on that task, so that trials
stay equal. It is the only place where a result decides what is trained, and the result is that of
the seeds that choose. While one of their runs is missing, nothing is chosen for any of these arms:
it may still call for more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

At = tuple[str, str]  # an arm and a task
LOWEST, HIGHEST = "lowest", "highest"
NEVER = -1.0  # the accuracy of a rate at which a run diverged, or says none


class Trial(Protocol):
    """What is needed of a run: `block` is that of its section which it comes from, None where that
    has one rate; `search`: it chooses; `beyond`: its rate is outside the grid."""

    @property
    def arm(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def lr(self) -> float: ...
    @property
    def block(self) -> int | None: ...
    @property
    def search(self) -> bool: ...
    @property
    def beyond(self) -> bool: ...


class Result(Protocol):
    """What is needed of a record: metrics `valid_accuracy` and `best_step`."""

    @property
    def status(self) -> str: ...
    @property
    def metrics(self) -> Mapping[str, Any]: ...


T = TypeVar("T", bound=Trial)


@dataclass(frozen=True)
class Choice(Generic[T]):
    """The rate chosen for an arm on a task; None while runs that have a say in it are `missing`.

    `found` has for each rate, lowest first, the mean validation accuracy of the search and the mean
    step at which it was reached; (NEVER, 0) where a run diverged.
    """

    found: Mapping[float, tuple[float, float]]
    missing: tuple[T, ...]

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
        """`lowest` or `highest` where the chosen rate is the last on that side and no rate within
        is as good: a better one may lie outside, or, where all diverged, one that does not."""
        if self.rate is None or len(self.found) < 2:
            return None
        if self.diverged:
            return LOWEST
        first, *inside, last = self.found
        if any(self.found[lr][0] >= self.found[self.rate][0] for lr in inside):
            return None
        return {first: LOWEST, last: HIGHEST}[self.rate]


def choices(
    runs: Iterable[T], present: Mapping[str, Result], together: Iterable[T] = ()
) -> dict[At, Choice[T]]:
    """The choice for every arm and task among `runs`; of one rate where there is only one.
    `together`: runs that have a say in every choice of their block and task."""
    awaited: dict[tuple[int | None, str], list[T]] = {}
    for run in together:
        if run.key not in present:
            awaited.setdefault((run.block, run.task), []).append(run)
    by_place: dict[At, list[T]] = {}
    for run in runs:
        by_place.setdefault((run.arm, run.task), []).append(run)
    chosen = {}
    for at, mine in by_place.items():
        trials = [run for run in mine if run.search]
        found = {lr: _found(trials, lr, present) for lr in sorted({run.lr for run in mine})}
        missing = {run.key: run for run in trials if run.key not in present}
        if trials:
            missing |= {run.key: run for run in awaited.get((trials[0].block, at[1]), [])}
        chosen[at] = Choice(found, tuple(missing.values()))
    return chosen


def _found(
    trials: Iterable[Trial], lr: float, present: Mapping[str, Result]
) -> tuple[float, float]:
    here = [present[run.key] for run in trials if run.lr == lr and run.key in present]
    if not here or any(result.status != "done" for result in here):
        return NEVER, 0.0
    accuracy, step = (
        sum(result.metrics.get(name, without) for result in here) / len(here)
        for name, without in (("valid_accuracy", NEVER), ("best_step", 0))
    )
    return accuracy, step


def reached(runs: Sequence[T], present: Mapping[str, Result]) -> list[T]:
    """`runs` without those beyond the grid that no best rate calls for yet."""
    called: set[tuple[int | None, str, float]] = set()
    while True:
        here = [r for r in runs if not r.beyond or (r.block, r.task, r.lr) in called]
        asked = set()
        for (arm, task), choice in choices(here, present, together(here, runs)).items():
            mine = [run for run in runs if (run.arm, run.task) == (arm, task)]
            asked |= {(mine[0].block, task, lr) for lr in _next(choice, {r.lr for r in mine})}
        if asked <= called:
            return here
        called |= asked


def together(here: Sequence[T], runs: Iterable[T]) -> list[T]:
    """Those of `here` that choose rates whose grid, by the whole of `runs`, may go on."""
    open_ended = {(run.block, run.task) for run in runs if run.beyond}
    return [run for run in here if run.search and (run.block, run.task) in open_ended]


def sweeps(runs: Iterable[T]) -> list[list[T]]:
    """`runs` in the sweeps that train them: the grid, then each rate beyond it apart, so that its
    packs are the same ones in the call that finds that it is needed and in any later one."""
    found: dict[float | None, list[T]] = {None: []}
    for run in runs:
        found.setdefault(run.lr if run.beyond else None, []).append(run)
    return [mine for mine in found.values() if mine]


def _next(choice: Choice[Any], rates: Iterable[float]) -> list[float]:
    """The nearest of `rates` beyond the edge on which the choice lies; none where it lies on none,
    or where there is no further rate."""
    if choice.edge == LOWEST:
        return sorted(lr for lr in rates if lr < min(choice.found))[-1:]
    if choice.edge == HIGHEST:
        return sorted(lr for lr in rates if lr > max(choice.found))[:1]
    return []
