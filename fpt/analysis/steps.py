"""What is read off a run's learning curve: the steps to a threshold, the primary measure of `lab`,
and the area under the validation loss, that of `language`."""

import math
from dataclasses import dataclass

import pandas as pd

from ..records import Record
from ..tasks import Task
from ..training.loop import reached
from ..training.train import task_of

LEARNED = (
    0.98  # of the loss of guessing: a mean area above it is that of an arm that learned nothing
)


@dataclass(frozen=True)
class Steps:
    """Gradient steps until validation accuracy is at the threshold in two consecutive evaluations
    (the first of them counts). `censored`: the budget ran out before, and `count` is the budget."""

    count: int
    censored: bool


def steps_to(record: Record, threshold: float) -> Steps:
    """How soon a run is at `threshold`; a diverged run never is."""
    index = reached([point["valid_accuracy"] for point in record.curve], threshold)
    if index is None or record.status != "done":
        return Steps(record.spec.steps, True)
    return Steps(int(record.curve[index]["step"]), False)


def area(record: Record) -> float:
    """The mean validation loss over all evaluations of a run, in nats per answer: the area under
    its curve, divided by its steps. It needs no threshold, which curves that cross would make
    decide the comparison.

    A run that diverged counts as one that guesses, log(classes) nats, from there on.
    """
    evaluations = record.spec.steps // record.spec.eval_every
    losses = [point["valid_loss"] for point in record.curve][:evaluations]
    guessing = math.log(task_of(record.spec).classes)
    return math.fsum([*losses, *[guessing] * (evaluations - len(losses))]) / evaluations


def is_learned(log_areas: "pd.Series[float]", task: Task) -> bool:
    """Whether the mean of the logarithms of areas is below that of guessing."""
    return float(log_areas.mean()) <= math.log(LEARNED * math.log(task.classes))
