"""What is there, what is missing, and what the rest will cost."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .. import config
from ..paper import reader as paper
from ..records import Record
from ..report.coverage import Coverage, cells
from ..training.flops import planned_flops
from ..training.train import task_of
from .section import Section, section

ALL = ""  # in the place of a backbone: all together

Speeds = Mapping[str, float]


def speeds(records: Iterable[Record]) -> Speeds:
    """Measured seconds per FLOP by backbone, and of all together. A control without a transformer
    counts no FLOPs and says nothing."""
    seconds, flops = dict[str, float](), dict[str, float]()
    for record in records:
        if record.cost["flops"] > 0:
            for name in (record.spec.backbone, ALL):
                spent = record.cost.get("process_seconds", record.cost["seconds"])
                seconds[name] = seconds.get(name, 0.0) + spent
                flops[name] = flops.get(name, 0.0) + record.cost["flops"]
    return {name: seconds[name] / flops[name] for name in flops}


def row(part: Section, present: Mapping[str, Record], measured: Speeds) -> dict[str, Any]:
    """Counts of a section's runs, the keys of those that are missing, and the hours that they take
    at the measured speed of their backbone; None if nothing was measured."""
    runs = {run.key: run for run in part.runs}
    missing = [run for key, run in runs.items() if key not in present]
    states = Counter(present[key].status for key in runs if key in present)
    seconds = sum(
        planned_flops(run.spec, task_of(run.spec))
        * measured.get(run.spec.backbone, measured.get(ALL, 0.0))
        for run in missing
    )
    return {
        "section": part.name,
        "expected": len(runs),
        "done": states["done"],
        "diverged": states["diverged"],
        "missing": len(missing),
        "missing_keys": [run.key for run in missing],
        "hours_left": seconds / 3600 if measured or not missing else None,
    }


def lines(rows: Sequence[Mapping[str, Any]], found: Sequence[Coverage], missing: set[str]) -> str:
    """The status as text."""
    text = []
    for it in rows:
        line = f"  {it['section']:24} {it['done'] + it['diverged']:5d} of {it['expected']} runs"
        if it["diverged"]:
            line += f", {it['diverged']} diverged"
        if it["missing"] and it["hours_left"] is None:
            line += ", cost unknown: no run was measured yet"
        elif it["missing"]:
            line += f", {it['hours_left']:.1f} h left at the measured speed"
        text.append(line)
    text.append("cells of the paper's tables: runs present/expected")
    by_row: dict[tuple[str, str], list[str]] = {}
    for cell in found:
        there = f"{len(set(cell.expected) - missing)}/{len(cell.expected)}"
        value = "counted" if cell.counted else there if cell.expected else "no runs"
        by_row.setdefault((cell.table, cell.row), []).append(f"{cell.column} {value}")
    text += [f"  {table:4} {name:32} {', '.join(it)}" for (table, name), it in by_row.items()]
    text += [f"  {table:4} no printed number: {why}" for table, why in paper.missing().items()]
    return "\n".join(text)


def show(profile: str, as_json: bool) -> None:
    """Print the status of a profile."""
    parts = [section(name, profile) for name in config.load(profile).sections]
    present = [part.records() for part in parts]
    measured = speeds(record for records in present for record in records.values())
    rows = [row(part, here, measured) for part, here in zip(parts, present, strict=True)]
    found = cells(parts)
    missing = {key for it in rows for key in it["missing_keys"]}
    if as_json:
        print(json.dumps({"sections": rows, "cells": [asdict(it) for it in found]}, indent=1))
    else:
        print(f"profile {profile}\n{lines(rows, found, missing)}")
