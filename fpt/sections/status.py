"""What is there, what is missing, and what the rest will cost.

The cost model has one number per body and kind of device: the FLOPs per second that its recorded
runs reached. What it would have said of each recorded run, from its whole budget and the others
alone, is held against what that run took.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from statistics import median, quantiles
from typing import Any

from ..analysis.grid import reached
from ..records import store
from .expected import Coverage, Expected, expected
from .summaries import Summary, summaries

ANY = ""  # in the place of a body: all bodies together

Rates = Mapping[tuple[str, str], float]


def rates(found: Iterable[Summary]) -> Rates:
    """Median FLOPs per second by (body, kind of device), and by kind for all bodies together."""
    seen: dict[tuple[str, str], list[float]] = {}
    for it in filter(timed, found):
        for body in (it.backbone, ANY):
            seen.setdefault((body, it.kind), []).append(it.flops / it.seconds)
    return {place: median(values) for place, values in seen.items()}


def timed(summary: Summary) -> bool:
    """Whether the cost model can learn from it: not from a control without a transformer."""
    return summary.seconds > 0 and summary.flops > 0


def best(known: Rates, body: str) -> tuple[float, str] | None:
    """The fastest rate of a body and what it rests on; that of all bodies where it has none."""
    for name in (body, ANY):
        options = [(rate, kind) for (other, kind), rate in known.items() if other == name]
        if options:
            rate, kind = max(options)
            return rate, kind if name else f"{kind} (other bodies)"
    return None


def held_against(wanted: Expected, found: Mapping[str, Summary]) -> dict[str, float] | None:
    """Predicted over actual seconds of the recorded runs that are wanted, each predicted from its
    planned FLOPs and the rates of the others on its body and kind of device: their number, and the
    ratio's quartiles. One that stopped early is above 1. None where none has others."""
    planned = {run.key: run.flops for run in wanted.runs}
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for key, it in found.items():
        if key in planned and timed(it):
            rate, needed = it.flops / it.seconds, planned[key] / it.seconds
            groups.setdefault((it.backbone, it.kind), []).append((rate, needed))
    ratios = []
    for runs in map(sorted, groups.values()):
        low, high = (len(runs) - 2) // 2, (len(runs) - 1) // 2  # the middle of the others
        for index, (_, needed) in enumerate(runs if len(runs) > 1 else ()):
            middle = runs[low + (low >= index)][0] + runs[high + (high >= index)][0]
            ratios.append(2 * needed / middle)
    if not ratios:
        return None
    first, second, third = quantiles(ratios, method="inclusive")
    return {"runs": len(ratios), "low": first, "median": second, "high": third}


def status(wanted: Expected, found: Mapping[str, Summary]) -> list[dict[str, Any]]:
    """One row per section: runs expected and present, keys missing, hours left at the measured
    rate of the same body (None where nothing was ever measured), and what that rate rests on. Runs
    beyond a grid of learning rates count where a best rate calls for them; `beyond` is how many
    more there can be, as long as something is missing."""
    known = rates(found.values())
    rows = []
    for name in wanted.sections:
        every = [run for run in wanted.runs if run.section == name]
        here = reached(every, found) if any(run.beyond for run in every) else every
        runs = {run.key: run for run in here}
        keep = {key for key, run in runs.items() if run.keep}
        missing = [
            run
            for key, run in runs.items()
            if key not in found or (key in keep and not found[key].kept)
        ]
        hours: float | None = 0.0
        basis = set()
        for run in missing:
            rate = best(known, run.backbone)
            if rate is None or hours is None:
                hours = None
                continue
            hours += run.flops / rate[0] / 3600
            basis.add(rate[1])
        rows.append(
            {
                "section": name,
                "expected": len(runs),
                "present": len(runs) - len(missing),
                "missing": [run.key for run in missing],
                "beyond": len({run.key for run in every} - set(runs)) if missing else 0,
                "hours_left": hours,
                "basis": " and ".join(sorted(basis)) if hours is not None else "",
            }
        )
    return rows


def covered(wanted: Expected, rows: Iterable[Mapping[str, Any]]) -> list[Coverage]:
    """The cells of the paper with the runs that the rows of `status` do not miss."""
    missing = {row["section"]: set(row["missing"]) for row in rows}
    here = {run.key for run in wanted.runs if run.key not in missing[run.section]}
    return [
        replace(cell, present=tuple(key for key in cell.expected if key in here))
        for cell in wanted.cells
    ]


def show(profile: str, as_json: bool) -> None:
    """Print the status of a profile."""
    wanted = expected(profile)
    found = summaries(store(profile), (run.key for run in wanted.runs))
    rows, model = status(wanted, found), held_against(wanted, found)
    cells = covered(wanted, rows)
    if as_json:
        listed = [asdict(cell) for cell in cells]
        print(json.dumps({"sections": rows, "cost_model": model, "cells": listed}, indent=1))
        return
    print(f"profile {profile}")
    for row in rows:
        line = f"  {row['section']:24} {row['present']:5d} of {row['expected']} runs"
        if row["missing"] and row["hours_left"] is None:
            line += ", cost unknown: no run was measured yet"
        elif row["missing"]:
            line += f", {row['hours_left']:.1f} h left at the rate measured on {row['basis']}"
        if row["beyond"]:
            line += f"; up to {row['beyond']} more if best rates are at the edge of their grid"
        print(line)
    if model is not None:
        print(
            f"cost model: predicted over actual time of {model['runs']} recorded runs, each from "
            f"all its steps and the speed of the others: median {model['median']:.2f}, quartiles "
            f"{model['low']:.2f} and {model['high']:.2f}; above 1 where runs stopped early"
        )
    print("cells of the paper's tables: runs present/expected")
    by_row: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        by_row.setdefault((cell.table, cell.row), []).append(f"{cell.column} {cell.text}")
    for (table, name), texts in by_row.items():
        print(f"  {table:4} {name:32} " + ", ".join(texts))
    for table, why in wanted.unprinted.items():
        print(f"  {table:4} no printed number: {why}")
