"""What is there, what is missing, and what the rest will cost.

The cost model has one number per body and kind of device: the FLOPs per second that its recorded
runs reached. What it would have said of each recorded run, from the others alone, is held against
what that run took.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .config import Run
from .records import Record
from .sections import Section
from .train import flops_per_token, task_of

ANY = ""  # in the place of a body: all bodies together

Rates = Mapping[tuple[str, str], float]


def flops_of(run: Run) -> float:
    """FLOPs of a run that uses its whole budget; one that stops early has fewer."""
    spec = run.spec
    return flops_per_token(spec) * spec.steps * spec.batch * task_of(spec).length


def rates(records: Sequence[Record]) -> Rates:
    """Median FLOPs per second by (body, kind of device), and by kind for all bodies together."""
    seen: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if timed(record):
            for body in (record.spec.backbone, ANY):
                place = (body, record.environment["kind"])
                seen.setdefault(place, []).append(record.cost["flops"] / record.cost["seconds"])
    return {place: float(np.median(values)) for place, values in seen.items()}


def timed(record: Record) -> bool:
    """Whether the cost model can learn from it: not from a control without a transformer."""
    return record.cost["seconds"] > 0 and record.cost["flops"] > 0


def best(known: Rates, body: str) -> tuple[float, str] | None:
    """The fastest rate of a body and what it rests on; that of all bodies where it has none."""
    for name in (body, ANY):
        options = [(rate, kind) for (other, kind), rate in known.items() if other == name]
        if options:
            rate, kind = max(options)
            return rate, kind if name else f"{kind} (other bodies)"
    return None


def held_against(records: Sequence[Record]) -> dict[str, float] | None:
    """Predicted over actual seconds of the recorded runs, each predicted from the others on its
    body and kind of device: their number, and the ratio's quartiles. None where none has others."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if timed(record):
            place = (record.spec.backbone, record.environment["kind"])
            groups.setdefault(place, []).append(record)
    ratios = []
    for mine in groups.values():
        speeds = np.array([record.cost["flops"] / record.cost["seconds"] for record in mine])
        for index, speed in enumerate(speeds):
            others = np.delete(speeds, index)
            if len(others):
                ratios.append(float(speed / np.median(others)))
    if not ratios:
        return None
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return {"runs": len(ratios), "low": float(low), "median": float(middle), "high": float(high)}


def status(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """One row per section: runs expected and present, keys missing, hours left at the measured
    rate of the same body (None where nothing was ever measured), and what that rate rests on."""
    found = {part.name: part.records() for part in sections}
    known = rates([record for records in found.values() for record in records.values()])
    rows = []
    for part in sections:
        present = found[part.name]
        missing = {run.spec.key: run for run in part.runs if run.spec.key not in present}
        hours: float | None = 0.0
        basis = set()
        for run in missing.values():
            rate = best(known, run.spec.backbone)
            if rate is None or hours is None:
                hours = None
                continue
            hours += flops_of(run) / rate[0] / 3600
            basis.add(rate[1])
        rows.append(
            {
                "section": part.name,
                "expected": len(part.keys),
                "present": len(present),
                "missing": list(missing),
                "hours_left": hours,
                "basis": " and ".join(sorted(basis)) if hours is not None else "",
            }
        )
    return rows
