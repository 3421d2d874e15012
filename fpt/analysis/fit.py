"""Fit: how much better a run is on what it was trained on than on what it was not (section 3.6).

Both accuracies are of the parameters chosen on validation, on clean inputs, without dropout. The
paper's training accuracy of FPT is of augmented images with dropout, and its baselines' are another
paper's; a gap needs both sides measured alike.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..sections.section import Section
from .cells import CHOSEN, Cell, cells
from .stats import Difference, difference

TRAIN = "train_accuracy"
PART = re.compile(r"(.+)-(\d+)")  # `digits-100`: the task `digits` with 100 training examples


@dataclass(frozen=True)
class Fit:
    """Training and test accuracy of the same runs of one arm on one task, in the same order."""

    train: Cell
    test: Cell

    def gap(self) -> Difference | None:
        """Training minus test accuracy, paired by run; None where a run is missing or none done."""
        if self.train.interval is None or self.test.interval is None:
            return None
        pairs = zip(self.train.values, self.test.values, strict=True)
        return difference([train - test for train, test in pairs], 0.0)


Fits = Mapping[tuple[str, str], Fit]


def fits(section: Section) -> Fits:
    """The fits of a section by (arm, task), in its order. A run that is done without training
    accuracy (its task has endless examples, or its record is older) counts as not present."""
    frame = section.frame()
    frame = frame.reindex(columns=frame.columns.union([TRAIN], sort=False))
    whole = frame[TRAIN].notna()
    frame["status"] = frame["status"].where(frame["status"].ne("done") | whole, "")
    train, test = cells(frame, TRAIN), cells(frame, CHOSEN)
    return {at: Fit(cell, test[at]) for at, cell in train.items() if at in test}


def whole_task(task: str) -> str | None:
    """`digits` for `digits-100`, the same task with fewer training examples; None for `digits`."""
    found = PART.fullmatch(task)
    return None if found is None else found[1]
