"""Compute recorded accuracies again: test the parameters that were kept with a record, or train
from scratch."""

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ..records import Record, Store
from .device import environment, precision_like
from .evaluation import evaluate
from .model import check_weights, trained_model
from .train import Job, train

SAME = ("device", "precision", "torch", "transformers")  # must agree for equal numbers
# If they do not, rounding changes answers that are close to a tie, in either direction: of n that
# change, about sqrt(n) more or fewer are then right. Between fp32 and bf16, at most 1.4% of the
# answers of a model of smoke changed; so n is taken as one answer in 50.
CLOSE = 50
# A training amplifies rounding step by step and ends in another model that is as good, so that this
# finds a number of another size, not one that was changed a little.
TRAINED_ELSEWHERE = 0.02
SUMMED = 1e-9  # equal numbers, computed in another order


@dataclass(frozen=True)
class Check:
    """The recorded test accuracy of a run, in [0, 1], against the one `found` again. They may
    differ by `tolerance`, for `reason`."""

    record: Record
    found: float
    how: str
    tolerance: float = 0.0
    reason: str = ""

    @property
    def recorded(self) -> float:
        return self.record.metrics["test_accuracy"]

    @property
    def matches(self) -> bool:
        return abs(self.found - self.recorded) <= self.tolerance + SUMMED

    def __str__(self) -> str:
        word, spec = "matches" if self.matches else "DIFFERS", self.record.spec
        name = f"{spec.task} on {spec.init} {spec.backbone}, seed {spec.seed} ({spec.key[:8]})"
        line = f"  {word:11}  {name}: {100 * self.recorded:.2f}; {self.how} {100 * self.found:.2f}"
        if self.reason:
            line += f"; up to {100 * self.tolerance:.2f} points allowed, since {self.reason}"
        return line


def retested(record: Record, store: Store, device: torch.device) -> Check:
    """Test the parameters kept with a record; FptError if that is not possible here."""
    model, spec = trained_model(record, store, device), record.spec
    model.compute_in(precision_like(record.environment, device), device.type)
    (found,) = evaluate(model, "test", [spec.seed], spec.test_items)
    reason = elsewhere(record, device)
    answers = int(found["items"]) * model.task.reads * model.task.answers
    tolerance = max(1, math.isqrt(answers // CLOSE)) / answers if reason else 0.0
    return Check(record, found["accuracy"], "the kept parameters give", tolerance, reason)


def retrained(record: Record, store: Store, device: torch.device) -> Check:
    """Train the run from scratch, with the members of its pack if all are recorded; FptError if its
    data or weights are not here."""
    check_weights(record)
    mates = store.read_all(record.pack)
    alone = len(mates) < len(record.pack)
    specs = [record.spec] if alone else [mates[key].spec for key in record.pack]
    with tempfile.TemporaryDirectory() as folder:
        fresh = Store(Path(folder) / "verify" / "records")
        precision = precision_like(record.environment, device)
        job = Job(fresh, device=device.type, precision=precision, cache=Path(folder))
        made = train(specs, job)
    found = next(it.metrics["test_accuracy"] for it in made if it.key == record.key)
    reasons = [elsewhere(record, device), "it trained without its pack" if alone else ""]
    reason = "; ".join(filter(None, reasons))
    tolerance = TRAINED_ELSEWHERE if reason else 0.0
    return Check(record, found, "training again gives", tolerance, reason)


def elsewhere(record: Record, device: torch.device) -> str:
    """How the machine of a record differs from this one; empty if it does not."""
    there = record.environment
    here = environment(device, precision_like(there, device))
    names = [name for name in SAME if there.get(name) != here[name]]
    return "; ".join(f"{name} was {there.get(name)}, here {here[name]}" for name in names)
