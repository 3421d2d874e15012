"""Fit: how much better a run is on what it was trained on than on what it was not (section 3.6).

Both accuracies are of the parameters chosen on validation, on clean inputs, without dropout. The
paper's training accuracy of FPT is of augmented images with dropout, and its baselines' are another
paper's; a gap needs both sides measured alike.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .cells import CHOSEN, Cell, cells, section_tasks
from .sections import Section
from .stats import Difference, paired_difference

TRAIN, SCORED = "train_accuracy", "train_items"
PART = re.compile(r"(.+)-(\d+)")  # `digits-100`: the task `digits` with 100 training examples


@dataclass(frozen=True)
class Fit:
    """Training and test accuracy of the same runs of one arm on one task, in the same order.

    `train.items` is None where all training examples were scored: nothing was sampled then.
    """

    train: Cell
    test: Cell

    def gap(self) -> Difference | None:
        """Training minus test accuracy, paired by run; None where a run is missing or none done."""
        if self.train.interval is None or self.test.interval is None:
            return None
        items = (self.train.items, self.test.items)
        return paired_difference(self.train.values, self.test.values, items=items)


Fits = Mapping[tuple[str, str], Fit]


def fits(section: Section) -> Fits:
    """The fits of a section by (arm, task), in its order. A run that is done without training
    accuracy (its task has endless examples, or its record is older) counts as not present."""
    frame = section.frame()
    frame = frame.reindex(columns=frame.columns.union([TRAIN, SCORED], sort=False))
    whole = frame[[TRAIN, SCORED]].notna().all(axis=1)
    frame["status"] = frame["status"].where(frame["status"].ne("done") | whole, "")
    train, test = cells(frame, TRAIN), cells(frame, CHOSEN)
    scored = frame.groupby(["arm", "task"])[SCORED].max()
    sizes = {name: task.sizes["train"] for name, task in section_tasks(section).items()}
    return {
        at: Fit(replace(cell, items=_sampled(scored[at], sizes[at[1]])), test[at])
        for at, cell in train.items()
        if at in test
    }


def _sampled(scored: float, size: int) -> int | None:
    """The number of training examples scored, where that is not all of them."""
    return int(scored) if scored < size else None


def whole_task(task: str) -> str | None:
    """`digits` for `digits-100`, the same task with fewer training examples; None for `digits`."""
    found = PART.fullmatch(task)
    return None if found is None else found[1]
