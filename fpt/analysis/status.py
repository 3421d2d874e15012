"""What is recorded, what is missing, and what the rest will cost."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .. import config
from ..records import Record, store
from ..training.flops import planned_flops
from ..training.train import task_of
from .study import Study, section

ALL = ""  # in the place of a backbone: all together
Speeds = Mapping[str, float]


def speeds(records: Iterable[Record]) -> Speeds:
    """Measured processor seconds, which do not grow if a machine is shared, per FLOP by backbone,
    and of all together. A control without a transformer counts no FLOPs and says nothing."""
    seconds, flops = Counter[str](), Counter[str]()
    for record in records:
        if record.cost["flops"] > 0 and "process_seconds" in record.cost:
            for name in (record.spec.backbone, ALL):
                seconds[name] += record.cost["process_seconds"]  # type: ignore[assignment]
                flops[name] += record.cost["flops"]  # type: ignore[assignment]
    return {name: seconds[name] / flops[name] for name in flops}


def row(study: Study, present: Mapping[str, Record], measured: Speeds) -> dict[str, Any]:
    """Counts of a section's runs, the keys of those that are missing, and the hours that they take
    at the measured speed of their backbone; None if nothing was measured."""
    runs = {run.key: run for run in study.runs}
    missing = [run for key, run in runs.items() if key not in present]
    states = Counter(present[key].status for key in runs if key in present)
    seconds = sum(
        planned_flops(run.spec, task_of(run.spec))
        * measured.get(run.spec.backbone, measured.get(ALL, 0.0))
        for run in missing
    )
    return {
        "section": study.name,
        "expected": len(runs),
        "done": states["done"],
        "diverged": states["diverged"],
        "missing": len(missing),
        "missing_keys": [run.key for run in missing],
        "hours_left": seconds / 3600 if measured or not missing else None,
    }


def cost(hours: float | None) -> str:
    """The hours left, in words."""
    if hours is None:
        return "cost unknown: no run was measured yet"
    shown = f"{hours:.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"
    return f"{shown} left at the measured speed"


def left(study: Study) -> str:
    """What is missing of a study, with its cost, and a line for each arm and task; empty if
    nothing is."""
    made, missing = store(study.profile.name), study.missing()
    it = row(study, study.records(), speeds(made.read_all(made.keys()).values()))
    lines = [f"missing: {it['missing']} of {it['expected']} runs, {cost(it['hours_left'])}"]
    counts = Counter(f"{run.arm} on {run.task}" for run in missing)
    lines += [f"  {title}: {count}" for title, count in counts.items()]
    return "\n".join(lines) if missing else ""


def show(profile: str, as_json: bool) -> None:
    """Print the status of a profile."""
    studies = [section(name, profile) for name in config.load(profile).sections]
    present = [study.records() for study in studies]
    measured = speeds(record for records in present for record in records.values())
    rows = [row(study, here, measured) for study, here in zip(studies, present, strict=True)]
    if as_json:
        print(json.dumps({"sections": rows}, indent=1))
        return
    every = replace(studies[0], name="all", runs=sum((it.runs for it in studies), ()))
    print(f"profile {profile}")
    for it in (*rows, row(every, every.records(), measured)):
        line = f"  {it['section']:24} {it['done'] + it['diverged']:5d} of {it['expected']} runs"
        if it["diverged"]:
            line += f", {it['diverged']} diverged"
        print(line + (f", {cost(it['hours_left'])}" if it["missing"] else ""))
