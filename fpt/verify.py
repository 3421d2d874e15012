"""Whether a report can be had again: its printed cells, followed back to the models behind them.

Every cell that a section's tables print needs its evidence: the records of its runs, and the
parameters that were to be kept beside them. A sample of the cells is recomputed: the printed mean
from the records, each record's test accuracy from the parameters (tested again on the whole test
set), or from a training from scratch.
"""

import math
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from . import config
from .analysis.cells import CHOSEN
from .analysis.grid import At
from .config import Run
from .files import FptError
from .pretraining import metadata as notes
from .records import Record, Store
from .sections.section import Section
from .spec import RunSpec
from .training.device import environment
from .training.kept import kept_row
from .training.loop import Loop
from .training.train import task_of, train

SAME = ("device", "precision", "torch", "transformers")  # what must agree for equal numbers
# Where they do not, rounding turns answers that are close to a tie, to either side: of n that turn,
# about sqrt(n) more or fewer are then right. Between fp32 and bf16, 1.4% of the answers of a model
# of smoke turned at most, and 2 of 500 more or fewer were right; between batches of another size,
# in fp32, none turned. So n is taken as one answer in 50.
CLOSE = 50
# A training amplifies rounding step by step and ends in another model, as good: this only tells a
# number of another size, not one that was changed a little.
TRAINED_ELSEWHERE = 0.02
SUMMED = 1e-9  # equal numbers, computed in another order


@dataclass(frozen=True)
class Check:
    """One number held against its source, up to `tolerance`, which it has for `reason`.

    `found` None: there is nothing to hold it against, though there should be where it is `lost`.
    """

    what: str
    recorded: float
    found: float | None
    how: str
    tolerance: float = 0.0
    reason: str = ""
    lost: bool = False

    @property
    def matches(self) -> bool | None:
        if self.found is None:
            return None
        return abs(self.found - self.recorded) <= self.tolerance + SUMMED

    @property
    def fails(self) -> bool:
        return self.lost or self.matches is False


def verify(
    part: Section, count: int, seed: int, device: torch.device, retrain: bool = False
) -> list[Check]:
    """A check of every printed cell of a section whose evidence is lost, and those of `count` of
    the other ones, at random."""
    cells = printed(part)
    lost = {at: checks for at in cells if (checks := missing(part, at, cells[at]))}
    found = [check for checks in lost.values() for check in checks]
    for at in sample(cells.keys() - lost.keys(), count, seed):
        found += verify_cell(part, at, cells[at], device, retrain)
    return found


def printed(part: Section) -> dict[At, list[float]]:
    """The accuracies that the tables of a section print for its arms and tasks: one for each,
    unless its tables disagree."""
    found: dict[At, list[float]] = {}
    for path in sorted((part.folder / "tables" / part.name).glob("*.csv")):
        for at, mean in _numbers(path):
            means = found.setdefault(at, [])
            if mean not in means:
                means.append(mean)
    return found


def _numbers(path: Path) -> list[tuple[At, float]]:
    """The mean accuracies of arms of ours on tasks, where a table has such."""
    try:
        table = pd.read_csv(path).rename(columns={"arm": "row"})
        if not {"of", "row", "task", "mean"} <= set(table.columns):
            return []
        ours = table[table["of"].isin(("ours", "tuned"))].dropna(subset="mean")
        rows = zip(ours["row"], ours["task"], ours["mean"].astype(float), strict=True)
        return [((arm, task), mean) for arm, task, mean in rows]
    except pd.errors.EmptyDataError:  # a table without rows is written without columns
        return []
    except ValueError as error:
        said = str(error).strip()
        raise FptError(f"{path} is not a table ({said}); render its section again.") from error


def sample(cells: Iterable[At], count: int, seed: int) -> list[At]:
    """`count` random cells, by arm and task, or all where there are fewer."""
    ordered = sorted(cells)
    return random.Random(seed).sample(ordered, min(count, len(ordered)))


def missing(part: Section, at: At, means: Iterable[float]) -> list[Check]:
    """A check for each printed mean of a cell, where something that it rests on is not here."""
    runs = _runs(part, at)
    gone = [text for run in runs if (text := _gone(part, run))]
    if not runs:
        gone = ["no run of params.yaml is behind it"]
    how = "; ".join(gone)
    return [Check(_printed(at), mean, None, how, lost=True) for mean in means if gone]


def _gone(part: Section, run: Run) -> str:
    """What is not here of a run: its record, what was written of its body, or parameters that its
    section or record names."""
    record = part.store.read(run.key)
    if record is None:
        return f"the record of {_named(run)} is missing or damaged"
    said = notes.read(part.store.folder, run.spec.weights or "").get("weights_digest")
    if said not in (None, record.environment.get("weights_digest", said)):
        return f"the notes of {run.spec.weights} are of other weights than {_named(run)}"
    kept = run.key in part.keep or record.parameters is not None
    if kept and part.store.parameters(record) is None:
        return f"the kept parameters of {_named(run)} are missing or damaged"
    return ""


def verify_cell(
    part: Section, at: At, means: Iterable[float], device: torch.device, retrain: bool = False
) -> list[Check]:
    """Checks of one cell with all its evidence: its printed means, then each run that is done."""
    present = part.records()
    runs = [run for run in _runs(part, at) if present[run.key].status == "done"]
    values = [_accuracy(present[run.key]) for run in runs]
    mean = math.fsum(values) / len(values) if values else math.nan
    how = "the mean of the records is"
    checks = [Check(_printed(at), value, mean, how) for value in means]
    again = retrained if retrain else retested
    return checks + [again(part, run, present[run.key], device) for run in runs]


def retested(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The parameters kept with a record, on the whole test set."""
    what, recorded = f"{run.arm} on {run.task}, {_named(run)}", _accuracy(record)
    if record.parameters is None:
        how = "no parameters were kept: give its block `keep: true`, or train it again (--retrain)"
        return Check(what, recorded, None, how)
    loop = Loop([run.spec], task_of(run.spec), device)
    loop.rows.bind(kept_row(record, part.store, loop.rows).to(device))
    (found,) = loop.evaluate("test", [0], run.spec.test_items)
    reason = elsewhere(record, device)
    # Of the answers counted now: their number in the record is as much of a claim as its machine.
    answers = int(found["items"]) * loop.task.reads * loop.task.answers
    tolerance = turned(answers) / answers if reason else 0.0
    how = "the kept parameters give"
    return Check(what, recorded, found["accuracy"], how, tolerance, reason)


def retrained(part: Section, run: Run, record: Record, device: torch.device) -> Check:
    """The run from scratch, with the members of its pack where all are known to the profile."""
    known = specs_of(part.profile.name)
    alone = any(key not in known for key in record.pack)
    specs = [run.spec] if alone else [known[key] for key in record.pack]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / part.profile.name / "records")
        made = train(specs, store, device=device, cache=Path(folder))
    again = next(it for it in made if it.key == run.key)
    reasons = [elsewhere(record, device), "it trained without its pack" if alone else ""]
    reason = "; ".join(filter(None, reasons))
    tolerance = TRAINED_ELSEWHERE if reason else 0.0
    what = f"{run.arm} on {run.task}, {_named(run)}"
    how = "training again gives"
    return Check(what, _accuracy(record), _accuracy(again), how, tolerance, reason)


def turned(answers: int) -> int:
    """By how many right answers rounding may change a test."""
    return max(1, math.isqrt(answers // CLOSE))


def elsewhere(record: Record, device: torch.device) -> str:
    """In what the machine of a record was another than this one; empty where it was the same."""
    here, there = environment(device), record.environment
    names = [name for name in SAME if there.get(name) != here[name]]
    return "; ".join(f"{name} was {there.get(name)}, here {here[name]}" for name in names)


def specs_of(profile: str) -> dict[str, RunSpec]:
    """Every run of a profile by its key."""
    loaded = config.load(profile)
    runs = (run for name in loaded.sections for run in config.expand(loaded, name))
    return {run.spec.key: run.spec for run in runs}


def _runs(part: Section, at: At) -> list[Run]:
    return [run for run in part.runs if (run.arm, run.task) == at]


def _accuracy(record: Record) -> float:
    return float(record.metrics.get(CHOSEN, math.nan))


def _printed(at: At) -> str:
    return f"{at[0]} on {at[1]}, the printed mean"


def _named(run: Run) -> str:
    return f"seed {run.spec.seed} ({run.key[:8]})"


def report(checks: Sequence[Check]) -> list[str]:
    """A line per check, then a summary."""
    states = [check.matches for check in checks if not check.lost]
    summary = (
        f"{states.count(True)} match, {states.count(False)} differ, "
        f"{len(checks) - len(states)} not here, {states.count(None)} could not be checked"
    )
    return [*map(line, checks), summary]


def line(check: Check) -> str:
    start = f"{check.what}: {100 * check.recorded:.2f}"
    if check.lost:
        return f"  NOT HERE     {start}, but {check.how}"
    if check.found is None:
        return f"  not checked  {start}; {check.how}"
    word = "matches" if check.matches else "DIFFERS"
    end = f"{check.how} {100 * check.found:.2f}"
    if check.reason:
        end += f"; up to {100 * check.tolerance:.2f} points allowed, since {check.reason}"
    return f"  {word:11}  {start}, {end}"
