"""Steps to a threshold, the primary measure of `lab`: sharper than a final accuracy that is at its
ceiling or cut off by the budget."""

from dataclasses import dataclass

from ..records import Record
from ..training.loop import reached


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
