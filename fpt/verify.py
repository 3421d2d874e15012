"""Whether a report can be had again: a sample of its cells, recomputed and compared.

A cell is followed back through all that is between it and a model: the printed mean from the
records, each record's test accuracy from the parameters that were kept beside it (tested again on
the whole test set), or from a training from scratch.
"""

import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from . import config
from .cells import CHOSEN
from .device import environment
from .kept import kept_row
from .loop import Loop
from .records import Record, Store
from .sections import Section
from .spec import RunSpec
from .train import task_of, train

# Sums in another order, or in another precision, turn a few answers of a test set.
ELSEWHERE = 0.02
SAME = ("device", "precision", "torch", "transformers")  # what must agree for equal numbers


@dataclass(frozen=True)
class Check:
    """One number held against its source. `found` None: there is nothing to hold it against."""

    what: str
    recorded: float
    found: float | None
    tolerance: float
    how: str

    @property
    def matches(self) -> bool | None:
        return None if self.found is None else abs(self.found - self.recorded) <= self.tolerance


def sample(part: Section, count: int, seed: int) -> list[tuple[str, str]]:
    """`count` random cells, by arm and task, of those whose runs are all recorded."""
    cells = sorted(part.complete())
    return random.Random(seed).sample(cells, min(count, len(cells)))


def verify_cell(
    part: Section, arm: str, task: str, device: torch.device, retrain: bool = False
) -> list[Check]:
    """Checks of one complete cell: its printed mean, then each run that is done."""
    present = part.records()
    runs = [run for run in part.runs if (run.arm, run.task) == (arm, task)]
    done = [present[run.spec.key] for run in runs if present[run.spec.key].status == "done"]
    checks = [printed(part, arm, task, [record.metrics[CHOSEN] for record in done])]
    for record in done:
        one = retrained(record, part, device) if retrain else retested(record, part, device)
        checks.append(one)
    return checks


def printed(part: Section, arm: str, task: str, values: Sequence[float]) -> Check:
    """The mean of the records against the one in the report's tables."""
    what, how = f"{arm} on {task}, the printed mean", "mean of the records"
    if not values:
        return Check(what, math.nan, None, 0.0, "every run diverged, so there is no mean")
    mean = math.fsum(values) / len(values)
    for path in sorted((part.folder / "tables" / part.name).glob("*.csv")):
        table = pd.read_csv(path).rename(columns={"arm": "row"})
        if {"of", "row", "task", "mean"} <= set(table.columns) and not path.stem.endswith("_last"):
            mine = table.query("of in ('ours', 'tuned') and row == @arm and task == @task")[
                "mean"
            ].dropna()
            if len(mine):
                return Check(what, float(mine.iloc[0]), mean, 1e-9, how)
    return Check(what, mean, None, 0.0, "no table of the report has it; render the section")


def retested(record: Record, part: Section, device: torch.device) -> Check:
    """The parameters kept with a record, on the whole test set."""
    what, spec = _name(record, part), record.spec
    recorded = float(record.metrics[CHOSEN])
    if record.parameters is None:
        how = "no parameters were kept: give its block `keep: true`, or train it again (--retrain)"
        return Check(what, recorded, None, 0.0, how)
    loop = Loop([spec], task_of(spec), device)
    loop.rows.bind(kept_row(record, part.store, loop.rows).to(device))
    found = loop.evaluate("test", [0])[0]["accuracy"]
    return Check(what, recorded, found, tolerance(record, device, []), "kept parameters")


def retrained(record: Record, part: Section, device: torch.device) -> Check:
    """The run from scratch, with the members of its pack where all are known to the profile."""
    known = specs_of(part.profile.name)
    alone = any(key not in known for key in record.pack)
    specs = [record.spec] if alone else [known[key] for key in record.pack]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / part.profile.name / "records")
        made = train(specs, store, device=device, cache=Path(folder))
    again = next(it for it in made if it.key == record.key)
    found = again.metrics.get(CHOSEN, math.nan)
    how = "trained again" + (", without its pack" if alone else "")
    members = [spec.key for spec in specs]
    limit = tolerance(record, device, members)
    return Check(_name(record, part), float(record.metrics[CHOSEN]), found, limit, how)


def tolerance(record: Record, device: torch.device, pack: list[str]) -> float:
    """0 where the machine, and for a training the pack, are those of the record."""
    here = environment(device)
    same = all(record.environment.get(name) == here[name] for name in SAME)
    return 0.0 if same and (not pack or pack == record.pack) else ELSEWHERE


def specs_of(profile: str) -> dict[str, RunSpec]:
    """Every run of a profile by its key."""
    loaded = config.load(profile)
    runs = (run for name in loaded.sections for run in config.expand(loaded, name))
    return {run.spec.key: run.spec for run in runs}


def _name(record: Record, part: Section) -> str:
    run = next(run for run in part.runs if run.spec.key == record.key)
    return f"{run.arm} on {run.task}, seed {record.spec.seed} ({record.key[:8]})"


def report(checks: Sequence[Check]) -> list[str]:
    """A line per check, then a summary."""
    lines = []
    for check in checks:
        if check.found is None:
            lines.append(f"  not checked  {check.what}: {100 * check.recorded:.2f}; {check.how}")
            continue
        word = "matches" if check.matches else "DIFFERS"
        lines.append(
            f"  {word:11}  {check.what}: {100 * check.recorded:.2f}, {check.how} gives "
            f"{100 * check.found:.2f}"
        )
    states = [check.matches for check in checks]
    lines.append(
        f"{states.count(True)} match, {states.count(False)} differ, {states.count(None)} could "
        "not be checked"
    )
    return lines
