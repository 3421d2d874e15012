"""What is recorded, what is missing, and what the rest will cost."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .. import config
from ..records import Record, store
from ..tasks import task_of
from ..training.flops import planned_flops
from .study import Study, section

ALL = ""  # in the place of a backbone: all together
Speeds = Mapping[str, float]


def speeds(records: Iterable[Record]) -> Speeds:
    """Measured processor seconds per FLOP, by backbone and (ALL) of all together; unlike
    wall time they do not grow on a shared machine. Controls without a transformer have no
    FLOPs and are left out."""
    seconds: defaultdict[str, float] = defaultdict(float)
    flops: defaultdict[str, float] = defaultdict(float)
    for record in records:
        # Records of older versions have no processor time.
        if record.cost["flops"] > 0 and "process_seconds" in record.cost:
            for name in (record.spec.backbone, ALL):
                seconds[name] += record.cost["process_seconds"]
                flops[name] += record.cost["flops"]
    return {name: seconds[name] / flops[name] for name in flops}


def row(study: Study, records: Mapping[str, Record], measured: Speeds) -> dict[str, Any]:
    """Counts of a section's runs, the keys of those that are missing, and the hours that
    they take at the measured speed of their backbone; None if nothing was measured."""
    specs = {run.key: run.spec for run in study.runs}
    states = Counter(records[key].status for key in specs if key in records)
    missing = {key: spec for key, spec in specs.items() if key not in records}
    # A backbone that was never timed is taken to be as fast as all together.
    seconds = 0.0
    for spec in missing.values():
        speed = measured.get(spec.backbone, measured.get(ALL, 0.0))
        seconds += speed * planned_flops(spec, task_of(spec))
    return {
        "section": study.name,
        "expected": len(specs),
        "done": states["done"],
        "diverged": states["diverged"],
        "missing": len(missing),
        "missing_keys": list(missing),
        "hours_left": seconds / 3600 if measured or not missing else None,
    }


def cost(hours: float | None) -> str:
    """The hours left, in words."""
    if hours is None:
        return "cost unknown: no run was measured yet"
    text = f"{hours:.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"
    return f"{text} left at the measured speed"


def left(study: Study) -> str:
    """What is missing of a study, with its cost, and a line for each arm and task; empty if
    nothing is."""
    missing = study.missing()
    if not missing:
        return ""
    # Every record of the profile tells how fast this machine is.
    records = store(study.profile.name)
    measured = speeds(records.read_all(records.keys()).values())
    counts = row(study, study.records(), measured)
    cost_left = cost(counts["hours_left"])
    lines = [f"missing: {counts['missing']} of {counts['expected']} runs, {cost_left}"]
    places = Counter(f"{run.arm} on {run.task}" for run in missing)
    return "\n".join([*lines, *(f"  {place}: {count}" for place, count in places.items())])


def show(profile: str, as_json: bool) -> None:
    """Print the status of a profile."""
    studies = [section(name, profile) for name in config.load(profile).sections]
    records = [study.records() for study in studies]
    measured = speeds(record for of_study in records for record in of_study.values())
    rows = [
        row(study, of_study, measured)
        for study, of_study in zip(studies, records, strict=True)
    ]
    if as_json:
        print(json.dumps({"sections": rows}, indent=1))
        return
    # A run that several sections show counts once in the last line.
    runs = tuple(run for study in studies for run in study.runs)
    together = replace(studies[0], name="all", runs=runs)
    rows.append(row(together, together.records(), measured))
    print(f"profile {profile}")
    for counts in rows:
        recorded = counts["done"] + counts["diverged"]
        line = f"  {counts['section']:24} {recorded:5d} of {counts['expected']} runs"
        if counts["diverged"]:
            line += f", {counts['diverged']} diverged"
        if counts["missing"]:
            line += f", {cost(counts['hours_left'])}"
        print(line)
