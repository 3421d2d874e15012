"""Recorded runs, trained again from scratch: a sample that nobody could choose."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..errors import FptError
from ..records import Record, Store
from ..training.kept import Check, retrained
from .study import Study


def recorded(studies: Sequence[Study], longest: float) -> list[Record]:
    """The records of some sections whose runs took at most `longest` processor seconds,
    each once, in the order of their keys."""
    by_key = {
        record.key: record
        for study in studies
        for record in study.records().values()
        if record.status == "done" and seconds_of(record) <= longest
    }
    return [by_key[key] for key in sorted(by_key)]


def seconds_of(record: Record) -> float:
    """Processor seconds of a run; its wall time if the record is of an older version."""
    return float(record.cost.get("process_seconds", record.cost["seconds"]))


@dataclass
class Sample:
    """Records in the random order of `seed`, of which the first `count` that can be trained
    here are. Those whose data or weights are not here are passed over, and `refused` says
    why."""

    records: list[Record]
    count: int
    seed: int

    def __post_init__(self) -> None:
        # Drawn at random, so that nobody can choose the records that look best.
        random.Random(self.seed).shuffle(self.records)
        self.checks: list[Check] = []
        self.refused: list[FptError] = []

    def train(self, store: Store, device: torch.device) -> Iterator[Check]:
        """Train until `count` records are checked, and give each check when it is made."""
        for record in self.records:
            if len(self.checks) == self.count:
                return
            try:
                self.checks.append(retrained(record, store, device))
            except FptError as error:
                self.refused.append(error)
            else:
                yield self.checks[-1]

    @property
    def differing(self) -> int:
        return sum(not check.matches for check in self.checks)

    def __str__(self) -> str:
        count = len(self.checks)
        errors = [abs(check.accuracy - check.recorded) for check in self.checks]
        allowed = max(check.tolerance for check in self.checks)
        tolerance = "equal to the digit is asked for, as on the machine of the records"
        if allowed:
            tolerance = f"{100 * allowed:.1f} are allowed on another machine"
        lines = [
            f"{count - self.differing} of {count} reproduce; the largest difference is "
            f"{100 * max(errors):.1f} points ({tolerance})."
        ]
        if self.refused:
            lines.append(
                f"{len(self.refused)} could not be checked, such as: {self.refused[-1]}"
            )
        return "\n".join(lines)
