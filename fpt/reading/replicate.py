"""Recorded runs, trained again from scratch: a sample that nobody could choose."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

import torch
from joblib import Parallel, delayed

from ..backbones.weights import files
from ..errors import FptError
from ..project import project
from ..records import Record, Store
from ..training.kept import Check, retrained
from .results import record_of, results

Found = tuple[str, Record]  # the experiment of a record, and the record


def recorded(experiment: str | None = None, longest: float = math.inf) -> list[Found]:
    """The reported records of an experiment, or of all, whose runs took at most `longest`
    processor seconds, in the order of their keys."""
    runs = results(experiment=experiment)
    keys = zip(runs["experiment"].map(str), runs["key"].map(str), strict=True)
    records = ((name, record_of(name, key)) for name, key in keys)
    fitting = [
        (name, record)
        for name, record in records
        if record.status == "done" and seconds_of(record) <= longest
    ]
    return sorted(fitting, key=lambda pair: pair[1].key)


def seconds_of(record: Record) -> float:
    """Processor seconds of a run; its wall time if the record is of an older version."""
    return float(record.cost.get("process_seconds", record.cost["seconds"]))


def why_missing(weights: str | None) -> FptError | None:
    """Why the weights that a run reads are not here; None if they are, or if it reads
    none."""
    try:
        if weights:
            files(weights)
    except FptError as error:
        return error
    return None


def with_weights(records: Sequence[Found], refused: list[FptError]) -> Iterator[Found]:
    """Those of `records` whose weights are here; for each of the others, the reason is
    added to `refused`."""
    # Weights are looked for once: a download that fails takes its time.
    reason_for = cache(why_missing)
    for experiment, record in records:
        reason = reason_for(record.spec.weights)
        if reason is None:
            yield experiment, record
        else:
            refused.append(reason)


def checked(recorded_run: Found, device: torch.device) -> Check | FptError:
    """A record trained again, or why that cannot be done here."""
    experiment, record = recorded_run
    try:
        return retrained(record, Store(project().records(experiment)), device)
    except FptError as error:
        return error


@dataclass
class Sample:
    """What training records again has shown so far: `checks`, and why others, whose data or
    weights are not here, could not be trained."""

    checks: list[Check] = field(default_factory=list)
    refused: list[FptError] = field(default_factory=list)

    @property
    def differing(self) -> int:
        return sum(not check.matches for check in self.checks)

    def __str__(self) -> str:
        count = len(self.checks)
        errors = [abs(check.accuracy - check.recorded) for check in self.checks]
        allowed = max(check.tolerance for check in self.checks)
        tolerance = "none is allowed on a machine like that of the records"
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


def train_sample(
    records: Sequence[Found],
    count: int,
    seed: int,
    device: torch.device,
    workers: int = 1,
) -> Iterator[Sample]:
    """Train `count` of the records again, `workers` side by side, and give the growing
    sample after each check. The seed alone says which: one that cannot be trained here is
    passed over for the next."""
    # Drawn at random, so that nobody can choose the records that look best.
    drawn = random.Random(seed).sample(records, len(records))
    sample = Sample()
    waiting = with_weights(drawn, sample.refused)
    while batch := list(islice(waiting, count - len(sample.checks))):
        jobs = (delayed(checked)(record, device) for record in batch)
        for outcome in Parallel(workers, return_as="generator")(jobs):
            if isinstance(outcome, FptError):
                sample.refused.append(outcome)
            else:
                sample.checks.append(outcome)
                yield sample
    if not sample.checks:
        reason = sample.refused[-1]
        raise FptError(
            f"None of {len(records)} records can be trained again here: {reason}"
        )
