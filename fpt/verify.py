"""Whether the numbers of a report can be had again.

The means of random printed cells are recomputed from the records, and the test accuracy of random
records from the parameters that were kept beside them (tested again), or by training from scratch.
"""

import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from .analysis.cells import CHOSEN
from .config import Run
from .records import Record, Store
from .sections.section import Section
from .training.device import environment
from .training.kept import kept_row
from .training.loop import Loop
from .training.train import task_of, train

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
    """An accuracy in [0, 1] held against what was `found`, up to `tolerance`, which it has for
    `reason`; `found` None: there is nothing to hold it against."""

    what: str
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
        start = f"{self.what}: {100 * self.recorded:.2f}"
        if self.found is None:
            return f"  not checked  {start}; {self.how}"
        word = "matches" if self.matches else "DIFFERS"
        end = f"{self.how} {100 * self.found:.2f}"
        if self.reason:
            end += f"; up to {100 * self.tolerance:.2f} points allowed, since {self.reason}"
        return f"  {word:11}  {start}, {end}"


def checks_of(
    part: Section, count: int, seed: int, device: torch.device, retrain: bool = False
) -> list[Check]:
    """Checks of `count` random printed cells of a section and of as many random records."""
    draw = random.Random(seed)
    cells = printed(part)
    checks = [mean_of(part, *cell) for cell in draw.sample(cells, min(count, len(cells)))]
    present = part.records()
    runs = [run for run in part.runs if run.key in present and present[run.key].status == "done"]
    again = retrained if retrain else retested
    for run in draw.sample(runs, min(count, len(runs))):
        checks.append(again(part, run, present[run.key], device))
    return checks


def printed(part: Section) -> list[tuple[str, str, float]]:
    """Arm, task and mean of every accuracy of ours that the tables of a section print."""
    found = set()
    for path in (part.folder / "tables" / part.name).glob("*.csv"):
        if path.stat().st_size > 1:  # one without rows is written without columns
            table = pd.read_csv(path).rename(columns={"arm": "row"})
            if {"of", "row", "task", "mean"} <= set(table.columns):
                ours = table[table["of"].isin(("ours", "tuned"))].dropna(subset="mean")
                found |= set(ours[["row", "task", "mean"]].itertuples(index=False, name=None))
    return sorted(found)


def mean_of(part: Section, arm: str, task: str, mean: float) -> Check:
    """A printed mean against that of the records."""
    present = part.part([task], [arm]).records()
    values = [_accuracy(record) for record in present.values() if record.status == "done"]
    found = math.fsum(values) / len(values) if values else math.nan
    return Check(f"{arm} on {task}, the printed mean", mean, found, "the mean of the records is")


def retested(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The parameters kept with a record, on the whole test set."""
    if part.store.parameters(record) is None:
        how = "no parameters were kept: train it again (--retrain)"
        return Check(_named(run), _accuracy(record), None, how)
    loop = Loop([run.spec], task_of(run.spec), device)
    loop.rows.bind(kept_row(record, part.store, loop.rows).to(device))
    (found,) = loop.evaluate("test", [0], run.spec.test_items)
    reason = elsewhere(record, device)
    answers = int(found["items"]) * loop.task.reads * loop.task.answers
    tolerance = max(1, math.isqrt(answers // CLOSE)) / answers if reason else 0.0
    how = "the kept parameters give"
    return Check(_named(run), _accuracy(record), found["accuracy"], how, tolerance, reason)


def retrained(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The run from scratch, with the members of its pack if all are known to the section."""
    known = {other.key: other.spec for other in part.runs}
    alone = any(key not in known for key in record.pack)
    specs = [run.spec] if alone else [known[key] for key in record.pack]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / part.profile.name / "records")
        made = train(specs, store, device=device, cache=Path(folder))
    again = next(it for it in made if it.key == run.key)
    reason = "; ".join(
        filter(None, [elsewhere(record, device), "it trained without its pack" if alone else ""])
    )
    tolerance = TRAINED_ELSEWHERE if reason else 0.0
    how = "training again gives"
    return Check(_named(run), _accuracy(record), _accuracy(again), how, tolerance, reason)


def elsewhere(record: Record, device: torch.device) -> str:
    """How the machine of a record differs from this one; empty if it does not."""
    here, there = environment(device), record.environment
    names = [name for name in SAME if there.get(name) != here[name]]
    return "; ".join(f"{name} was {there.get(name)}, here {here[name]}" for name in names)


def _accuracy(record: Record) -> float:
    return float(record.metrics.get(CHOSEN, math.nan))


def _named(run: Run) -> str:
    return f"{run.arm} on {run.task}, seed {run.spec.seed} ({run.key[:8]})"


def summary(checks: Sequence[Check]) -> str:
    states = [check.matches for check in checks]
    return (
        f"{states.count(True)} match, {states.count(False)} differ, "
        f"{states.count(None)} could not be checked"
    )
