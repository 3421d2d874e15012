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


def checked(record: Record, store: Store, device: torch.device) -> Check | FptError:
    """A record trained again, or why that cannot be done here."""
    try:
        return retrained(record, store, device)
    except FptError as error:
        return error


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

    def train(self, store: Store, device: torch.device, workers: int) -> Iterator[Check]:
        """Train until `count` records are checked, `workers` side by side, and give the
        checks in the order of the records."""
        # Needed only here, so that the library on a GPU needs no joblib.
        from joblib import Parallel, delayed

        waiting = list(self.records)
        with Parallel(n_jobs=workers, return_as="generator") as parallel:
            # As many as are lacking: which records are checked follows from the seed alone.
            while waiting and len(self.checks) < self.count:
                lacking = self.count - len(self.checks)
                batch = waiting[:lacking]
                waiting = waiting[lacking:]
                jobs = (delayed(checked)(record, store, device) for record in batch)
                for outcome in parallel(jobs):
                    if isinstance(outcome, FptError):
                        self.refused.append(outcome)
                    else:
                        self.checks.append(outcome)
                        yield outcome

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
