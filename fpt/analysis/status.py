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

Speeds = Mapping[str, float]


def speeds(records: Iterable[Record]) -> Speeds:
    """Measured processor seconds per FLOP, by backbone; unlike wall time they do not grow
    on a shared machine. 0 for a control without a transformer, which has no FLOPs."""
    seconds: defaultdict[str, float] = defaultdict(float)
    flops: defaultdict[str, float] = defaultdict(float)
    for record in records:
        # Records of older versions have no processor time.
        if "process_seconds" in record.cost:
            seconds[record.spec.backbone] += record.cost["process_seconds"]
            flops[record.spec.backbone] += record.cost["flops"]
    return {name: seconds[name] / flops[name] if flops[name] else 0.0 for name in flops}


def row(study: Study, records: Mapping[str, Record], measured: Speeds) -> dict[str, Any]:
    """Counts of a section's runs, the keys of those that are missing, the hours that they
    take at the measured speed of their backbone, None if none was measured, and how many of
    them have a backbone that was not."""
    specs = {run.key: run.spec for run in study.runs}
    states = Counter(records[key].status for key in specs if key in records)
    missing = {key: spec for key, spec in specs.items() if key not in records}
    timed = [spec for spec in missing.values() if spec.backbone in measured]
    seconds = [
        measured[spec.backbone] * planned_flops(spec, task_of(spec)) for spec in timed
    ]
    return {
        "section": study.name,
        "expected": len(specs),
        "done": states["done"],
        "diverged": states["diverged"],
        "missing": len(missing),
        "missing_keys": list(missing),
        "hours_left": sum(seconds) / 3600 if timed or not missing else None,
        "not_timed": len(missing) - len(timed),
    }


def cost(counts: Mapping[str, Any]) -> str:
    """The hours left, in words."""
    hours = counts["hours_left"]
    if hours is None:
        return "cost unknown: no run on these backbones was measured yet"
    text = f"{hours:.1f} h" if hours >= 1 else f"{math.ceil(60 * hours)} min"
    text += " left at the measured speed"
    if counts["not_timed"]:
        text += f", not counting {counts['not_timed']} runs on other backbones"
    return text


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
    lines = [f"missing: {counts['missing']} of {counts['expected']} runs, {cost(counts)}"]
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
            line += f", {cost(counts)}"
        print(line)
