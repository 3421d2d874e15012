"""Whether recorded numbers can be had again: the test accuracy of random records is computed from
the parameters that were kept beside them (tested again), or by training from scratch."""

import math
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from .analysis.cells import CHOSEN
from .config import Run
from .records import Record, Store
from .sections.section import Section
from .training.device import environment
from .training.evaluation import evaluate
from .training.kept import trained_model
from .training.train import train

SAME = ("device", "precision", "torch", "transformers")  # what must agree for equal numbers
# If they do not, rounding turns answers that are close to a tie, to either side: of n that turn,
# about sqrt(n) more or fewer are then right. Between fp32 and bf16, 1.4% of the answers of a model
# of smoke turned at most; so n is taken as one answer in 50.
CLOSE = 50
# A training amplifies rounding step by step and ends in another model, as good: this only tells a
# number of another size, not one that was changed a little.
TRAINED_ELSEWHERE = 0.02
SUMMED = 1e-9  # equal numbers, computed in another order


@dataclass(frozen=True)
class Check:
    """The recorded test accuracy of a run, in [0, 1], against the one that was `found` again; None
    if there was nothing to find it from. They may differ by `tolerance`, for `reason`."""

    run: Run
    recorded: float
    found: float | None
    how: str
    tolerance: float = 0.0
    reason: str = ""

    @property
    def matches(self) -> bool | None:
        if self.found is None:
            return None
        return abs(self.found - self.recorded) <= self.tolerance + SUMMED

    def __str__(self) -> str:
        word = {True: "matches", False: "DIFFERS", None: "not checked"}[self.matches]
        name = f"{self.run.arm} on {self.run.task}, seed {self.run.spec.seed} ({self.run.key[:8]})"
        line = f"  {word:11}  {name}: {100 * self.recorded:.2f}; {self.how}"
        if self.found is not None:
            line += f" {100 * self.found:.2f}"
        if self.reason:
            line += f"; up to {100 * self.tolerance:.2f} points allowed, since {self.reason}"
        return line


def checks_of(
    part: Section, count: int, seed: int, device: torch.device, retrain: bool = False
) -> list[Check]:
    """Checks of `count` random records of a section."""
    present = part.records()
    runs = [run for run in part.runs if run.key in present and present[run.key].status == "done"]
    check = retrained if retrain else retested
    drawn = random.Random(seed).sample(runs, min(count, len(runs)))
    return [check(part, run, present[run.key], device) for run in drawn]


def retested(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The parameters kept with a record, on the whole test set."""
    recorded, spec = record.metrics[CHOSEN], run.spec
    if part.store.parameters(record) is None:
        how = "no parameters were kept: train it again (--retrain)"
        return Check(run, recorded, None, how)
    model = trained_model(record, part.store, device)
    (found,) = evaluate(model, "test", [spec.seed], device, spec.test_items)
    reason = elsewhere(record, device)
    answers = int(found["items"]) * model.task.reads * model.task.answers
    tolerance = max(1, math.isqrt(answers // CLOSE)) / answers if reason else 0.0
    how = "the kept parameters give"
    return Check(run, recorded, found["accuracy"], how, tolerance, reason)


def retrained(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The run from scratch, with the members of its pack if all are known to the section."""
    known = {other.key: other.spec for other in part.runs}
    alone = any(key not in known for key in record.pack)
    specs = [run.spec] if alone else [known[key] for key in record.pack]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / part.profile.name / "records")
        made = train(specs, store, device=device, cache=Path(folder))
    found = next(it.metrics[CHOSEN] for it in made if it.key == run.key)
    reasons = [elsewhere(record, device), "it trained without its pack" if alone else ""]
    reason = "; ".join(filter(None, reasons))
    tolerance = TRAINED_ELSEWHERE if reason else 0.0
    how = "training again gives"
    return Check(run, record.metrics[CHOSEN], found, how, tolerance, reason)


def elsewhere(record: Record, device: torch.device) -> str:
    """How the machine of a record differs from this one; empty if it does not."""
    here, there = environment(device), record.environment
    names = [name for name in SAME if there.get(name) != here[name]]
    return "; ".join(f"{name} was {there.get(name)}, here {here[name]}" for name in names)
