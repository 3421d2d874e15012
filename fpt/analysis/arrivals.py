"""When runs arrive: steps to convergence from the learning curves of a section's records.

A level is reached at the first evaluation at which the mean over the last `WINDOW` evaluations on
the validation set is at most 1% of it below. A run has converged once it has reached its own final
level. Two arms race to one target, the lowest accuracy at which any of their runs ends, since steps
to unequal ends say nothing about speed.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..paper import reader as paper
from ..records import Record
from ..sections.section import Section
from ..tasks import Task
from .cells import floors, section_tasks
from .claim import Evidence, Measured, Test
from .convergence import SLACK, Convergence, Speedup, speedup, steps_to_convergence
from .stats import difference

WINDOW = 3  # evaluations; fewer for a run with less than two windows
LINEAR = "linear classifier"  # the one floor that is learned

Histories = Mapping[tuple[str, str], Sequence[Record]]  # records by arm and task


def histories(section: Section) -> Histories:
    """The records with a learning curve, by arm and task, for every arm that is trained by steps.

    Empty where a run is missing; one that failed is left out.
    """
    present, complete = section.records(), section.complete()
    found: dict[tuple[str, str], list[Record]] = {}
    for run in section.runs:
        if run.spec.procedure != "sgd":
            continue
        at = (run.arm, run.task)
        mine = found.setdefault(at, [])
        if at in complete and present[run.spec.key].status != "failed":
            mine.append(present[run.spec.key])
    return found


def stopped_early(record: Record) -> bool:
    """Whether a run was ended because it no longer got better."""
    return record.status == "done" and record.metrics["steps"] < record.spec.steps


def end(record: Record) -> float:
    """The accuracy at which a run ends: the mean over its last looks."""
    last = [point["valid_accuracy"] for point in record.curve[-_window(record) :]]
    return math.fsum(last) / len(last)


def end_level(records: Sequence[Record]) -> float | None:
    """The median accuracy at which the runs of an arm end; None where none is done."""
    ends = [end(record) for record in records if record.status == "done"]
    return statistics.median(ends) if ends else None


def arrival(record: Record, target: float | None = None) -> Convergence:
    """When a run reached `target`, or its own final level.

    A run that was stopped because it no longer got better never reaches a target that it has not.
    """
    if record.status == "diverged":
        return Convergence(math.inf, True)
    steps = [int(point["step"]) for point in record.curve]
    if len(steps) < 2:
        return Convergence(float(steps[-1]), True)
    values = [point["valid_accuracy"] for point in record.curve]
    stopped = stopped_early(record)
    found = steps_to_convergence(steps, values, target, _window(record), plateau=stopped)
    return Convergence(math.inf, True) if found.censored and stopped else found


def _window(record: Record) -> int:
    return max(1, min(WINDOW, len(record.curve) // 2))


@dataclass(frozen=True)
class Race:
    """Steps of two arms to one accuracy. `at_floor`: it is no better than what a predictor reaches
    that fits nothing to its input, so a run has not learned the task and speeds do not compare."""

    target: float
    slow: tuple[Convergence, ...]
    fast: tuple[Convergence, ...]
    at_floor: bool

    @property
    def speedup(self) -> Speedup:
        return speedup(self.slow, self.fast)


def race(found: Histories, task: Task, name: str, slow: str, fast: str) -> Race | None:
    """Arm `slow` against arm `fast` on the task called `name`; None where one has no run done."""
    sides = [found.get((arm, name), ()) for arm in (slow, fast)]
    ends = [[end(record) for record in side if record.status == "done"] for side in sides]
    if not all(ends):
        return None
    target = min(min(side) for side in ends)
    arrived = [tuple(arrival(record, target) for record in side) for side in sides]
    reached = (1 - SLACK) * target
    at_floor = any(reached <= it for name, it in floors(task).items() if name != LINEAR)
    return Race(target, arrived[0], arrived[1], at_floor)


def sooner(fast: str, slow: str) -> Test:
    """Steps of arm `slow` to the common accuracy minus those of `fast`, as a share of the budget.

    A run that does not arrive, since it diverged, counts with the whole budget, the least that it
    can need. At a trivial baseline no speed is compared.
    """

    def test(seen: Evidence, name: str) -> Measured:
        if seen.section is None:
            return Measured(None, (0, 0))
        found = histories(seen.section)
        ran = race(found, section_tasks(seen.section)[name], name, slow, fast)
        runs = tuple(len(found.get((arm, name), ())) for arm in (slow, fast))
        if ran is None:
            return Measured(None, runs)
        if ran.at_floor:
            return Measured(None, runs, "a run ends at the trivial baseline")
        spec = found[fast, name][0].spec
        late, soon = (
            [1.0 if run.censored else run.step / spec.steps for run in side]
            for side in (ran.slow, ran.fast)
        )
        return Measured(difference(late, soon), runs)

    return test


def speeds_up(task: str) -> bool:
    """Whether the paper saw FPT converge sooner than a random body (Table 6), or has not the
    task."""
    cell = paper.table("T6").cells.get(("speed-up", task))
    return cell is None or (cell.value or 0.0) > 1
