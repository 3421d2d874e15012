"""What is recorded, what is missing, what the rest will cost, and which cells of the paper's tables
the runs of a profile fill."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import config
from ..paper import reader as paper
from ..records import Record, store
from ..sections import comparisons
from ..training.flops import planned_flops
from ..training.sweep import packs
from ..training.train import task_of
from .study import Study, section

ALL = ""  # in the place of a backbone: all together
# Rows and columns of the paper's tables that are no accuracy of one arm on one task.
STEPS = {"fpt": ("fpt",), "random": ("random",), "speed-up": ("fpt", "random")}
TRAINED = {"fpt": ("fpt",), "vanilla-transformer": ("vanilla",), "linformer": ("linformer",)}
CACHED = "cached-epoch-speed-up"  # rows of the running text that our probes measure
# Columns and tables that follow from an architecture or from the data alone.
COUNTED = {
    "T7": ("layers",),
    "T8": ("layers", "width", "heads", "total", "trained"),
    "Text": ("value",),
}
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


def left(study: Study, max_runs: int) -> str:
    """What is missing of a study, with its cost, and a line for each arm and task; empty if
    nothing is."""
    present = study.records()
    made = store(study.profile.name)
    it = row(study, present, speeds(made.read_all(made.keys()).values()))
    missing = [run for run in study.runs if run.key not in present]
    found = packs((run.spec for run in missing), max_runs, config.sections_of(study.profile))
    lines = [f"{it['missing']} runs in {len(found)} packs are missing: {cost(it['hours_left'])}"]
    counts = Counter(f"{run.arm} on {run.task}" for run in missing)
    lines += [f"  {title}: {count}" for title, count in counts.items()]
    return "\n".join(lines) if missing else ""


def places(table: str, row: str, column: str) -> list[tuple[str, str, str]]:
    """The sections, arms and tasks whose number stands beside a cell of the paper."""
    if table == "T6":
        return [("efficiency", arm, column) for arm in STEPS[row]]
    if (table, column) == ("T7", "train"):
        return [("overfitting", arm, "cifar10-lra") for arm in TRAINED[row]]
    if row.startswith(CACHED):
        return [("efficiency", "probe", task) for task in paper.table("T10").columns]
    return [
        (section, *place)
        for section, its in comparisons().items()
        for comparison in its
        for place in comparison.places(table, row, column)
    ]


def cells(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """Every cell of the paper's own tables that has a number, in print order: what was printed,
    whether it follows from an architecture alone (`counted`), and the keys of the runs for it."""
    runs: dict[tuple[str, str, str], list[str]] = {}
    for study in studies:
        for run in study.runs:
            runs.setdefault((study.name, run.arm, run.task), []).append(run.key)
    found = []
    for name, table in paper.tables().items():
        if name != "Text" and not name[1:].isdigit():
            continue
        for (row, column), cell in table.cells.items():
            if cell.value is None:
                continue
            counted = column in COUNTED.get(name, ()) and not row.startswith(CACHED)
            beside = [] if counted else places(name, row, column)
            keys = dict.fromkeys(key for place in beside for key in runs.get(place, ()))
            found.append(
                {"table": name, "row": row, "column": column, "value": cell.value}
                | {"counted": counted, "expected": list(keys)}
            )
    return found


def lines(
    rows: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]], missing: set[str]
) -> str:
    """The status as text."""
    text = []
    for it in rows:
        line = f"  {it['section']:24} {it['done'] + it['diverged']:5d} of {it['expected']} runs"
        if it["diverged"]:
            line += f", {it['diverged']} diverged"
        text.append(line + (f", {cost(it['hours_left'])}" if it["missing"] else ""))
    text.append("cells of the paper's tables: runs present/expected")
    by_row: dict[tuple[str, str], list[str]] = {}
    for cell in found:
        there = f"{len(set(cell['expected']) - missing)}/{len(cell['expected'])}"
        value = "counted" if cell["counted"] else there if cell["expected"] else "no runs"
        by_row.setdefault((cell["table"], cell["row"]), []).append(f"{cell['column']} {value}")
    text += [f"  {table:4} {name:32} {', '.join(it)}" for (table, name), it in by_row.items()]
    text += [f"  {table:4} no printed number: {why}" for table, why in paper.missing().items()]
    return "\n".join(text)


def show(profile: str, as_json: bool) -> None:
    """Print the status of a profile."""
    studies = [section(name, profile) for name in config.load(profile).sections]
    present = [study.records() for study in studies]
    measured = speeds(record for records in present for record in records.values())
    rows = [row(study, here, measured) for study, here in zip(studies, present, strict=True)]
    found = cells(studies)
    if as_json:
        print(json.dumps({"sections": rows, "cells": found}, indent=1))
    else:
        missing = {key for it in rows for key in it["missing_keys"]}
        every = replace(studies[0], name="all", runs=sum((it.runs for it in studies), ()))
        rows.append(row(every, every.records(), measured))
        print(f"profile {profile}\n{lines(rows, found, missing)}")
