"""What is there, what is missing, and what the rest will cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .config import Run
from .records import Record
from .section import Section
from .train import task_of


def tokens_of(run: Run) -> int:
    """Tokens that a run trains on at most."""
    return run.spec.steps * run.spec.batch * task_of(run.spec).length


def rates(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """Median tokens per second by (backbone, kind of device), from what was measured."""
    seen: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.cost["seconds"] > 0:
            place = (record.spec.backbone, record.environment["kind"])
            seen.setdefault(place, []).append(record.cost["tokens"] / record.cost["seconds"])
    return {place: float(np.median(values)) for place, values in seen.items()}


def status(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """One row per section: runs expected and present, keys missing, hours left at the measured
    rate of the same backbone (None where it was never measured), and what that rate rests on."""
    found = {part.name: part.records() for part in sections}
    known = rates([record for records in found.values() for record in records.values()])
    rows = []
    for part in sections:
        present = found[part.name]
        missing = {run.spec.key: run for run in part.runs if run.spec.key not in present}
        hours: float | None = 0.0
        basis = set()
        for run in missing.values():
            options = {
                kind: rate for (name, kind), rate in known.items() if name == run.spec.backbone
            }
            if not options or hours is None:
                hours = None
                continue
            kind = max(options, key=lambda name: options[name])
            hours += tokens_of(run) / options[kind] / 3600
            basis.add(kind)
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
