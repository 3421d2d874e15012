"""What is read off a run's learning curve: the steps to a threshold, the primary measure of
`lab`, and the area under the validation loss, that of `language`."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import FptError
from ..records import Record
from ..spec import RunSpec
from ..tasks import Task, task_of
from ..training.progress import reached

# Of the loss of guessing: a mean area above it is that of an arm that learned nothing.
LEARNED = 0.98


@dataclass(frozen=True)
class Steps:
    """Gradient steps until validation accuracy is at the threshold in two consecutive
    evaluations (the first of them counts). `censored`: the budget ran out before, and
    `count` is the budget."""

    count: int
    censored: bool


def steps_to(record: Record, threshold: float) -> Steps:
    """How soon a run is at `threshold`; a diverged run never is."""
    index = reached([point["valid_accuracy"] for point in record.curve], threshold)
    if index is None or record.status != "done":
        return Steps(record.spec.steps, True)
    return Steps(int(record.curve[index]["step"]), False)


def validation_losses(record: Record) -> list[float]:
    """The validation loss at every planned evaluation of a run, in nats per answer. A run
    that diverged counts as one that guesses from there on."""
    if record.spec.eval_early:
        raise FptError(
            f"Run {record.key} is not evaluated at equal distances, so its curve has no "
            "area here; compare steps to a threshold or accuracies."
        )
    evaluations = record.spec.steps // record.spec.eval_every
    losses = [point["valid_loss"] for point in record.curve][:evaluations]
    return [*losses, *[guessing(record.spec)] * (evaluations - len(losses))]


def guessing(spec: RunSpec) -> float:
    """The loss of a guess that gives all classes of a run's task the same probability, in
    nats."""
    return math.log(task_of(spec).classes)


def area(record: Record) -> float:
    """The area under the curve of a run's validation loss, divided by its steps, in nats
    per answer. It needs no threshold, which curves that cross would make decide the
    comparison.

    The curve begins at the loss of guessing. Without that point, the logarithm of the area
    of a run that has learned before its first evaluation would have no lower bound, and
    chance would decide by how much.
    """
    curve = [guessing(record.spec), *validation_losses(record)]
    return float(np.trapezoid(curve) / (len(curve) - 1))


def is_learned(log_areas: "pd.Series[float]", task: Task) -> bool:
    """Whether the mean of the logarithms of areas is below that of guessing."""
    return float(log_areas.mean()) <= math.log(LEARNED * math.log(task.classes))
