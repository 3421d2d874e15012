"""No number moves: the committed exploratory records of `lab`, and what is computed of them, are
those of tests/frozen. Tables of `smoke` are in the outputs of the notebooks, which nbval compares.

If a number moves on purpose, `python tests/test_frozen_numbers.py` writes the files anew.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import pandas as pd
import pytest

from fpt.analysis.convergence import median_steps, speedup, steps_to_convergence
from fpt.analysis.stats import difference, holm, mean_interval, verdict
from fpt.analysis.steps import steps_to
from fpt.records import Record, Store

FROZEN = Path(__file__).with_name("frozen")
EXPLORATORY = Path(__file__).parents[1] / "reports/lab/records/exploratory"
THRESHOLD = 0.6  # of validation accuracy: some runs never reach it
MARGIN = 0.05


@cache
def records() -> list[Record]:
    """Every record, those of one setting one after the other."""
    store = Store(EXPLORATORY)
    found = store.read_all(store.keys()).values()
    return sorted(found, key=lambda it: (replace(it.spec, seed=0).key, it.spec.seed))


@cache
def settings() -> dict[str, list[Record]]:
    """The records of the settings that were run with several seeds, by their key at seed 0."""
    grouped = groupby(records(), key=lambda it: replace(it.spec, seed=0).key)
    found = {key: list(runs) for key, runs in grouped}
    return {key: runs for key, runs in found.items() if len(runs) > 1}


def accuracies(runs: list[Record]) -> list[float]:
    return [run.metrics["test_accuracy"] for run in runs]


def convergence(runs: list[Record]) -> list:
    curves = [(run.curve, [point["valid_accuracy"] for point in run.curve]) for run in runs]
    return [
        steps_to_convergence([int(point["step"]) for point in curve], values)
        for curve, values in curves
        if len(curve) >= 6
    ]


def measured() -> pd.DataFrame:
    """A digest of the key and of everything that was measured, per record."""
    rows = []
    for record in records():
        text = json.dumps([record.spec.key, record.measured()], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        rows.append({"key": record.spec.key, "digest": digest})
    return pd.DataFrame(rows).sort_values("key", ignore_index=True)


def cells() -> pd.DataFrame:
    """Per setting: the mean accuracy with its interval, steps to convergence and to a threshold."""
    rows = []
    for key, runs in settings().items():
        interval, converged = mean_interval(accuracies(runs)), convergence(runs)
        median = vars(median_steps(converged)) if converged else {}
        reached = [steps_to(run, THRESHOLD) for run in runs]
        steps = {f"steps {name}": value for name, value in median.items()}
        steps["to threshold"] = sum(it.count for it in reached) / len(reached)
        steps["censored"] = sum(it.censored for it in reached)
        rows.append({"setting": key, **vars(interval), **steps})
    return pd.DataFrame(rows)


def effects() -> pd.DataFrame:
    """Every pretrained or resampled backbone against the random one of the same setting."""
    rows = []
    for key, runs in settings().items():
        bare = replace(runs[0].spec, seed=0, init="random", weights=None).key
        if key == bare or bare not in settings():
            continue
        others = settings()[bare]
        found = difference(accuracies(runs), accuracies(others))
        judged = verdict(found, "greater", MARGIN)
        row = {"setting": key, "minus": bare, **vars(found), "label": judged.label}
        row["p of label"] = judged.p
        slow, fast = convergence(others), convergence(runs)
        if slow and fast:
            ratio = speedup(slow, fast)
            bounds = ("least", "most", "low", "high")
            row |= {f"speed-up {name}": getattr(ratio, name) for name in bounds}
        rows.append(row)
    frame = pd.DataFrame(rows)
    return frame.assign(holm=holm(list(frame["p"]), tests=200))


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "records": measured,
    "cells": cells,
    "effects": effects,
}


@pytest.mark.parametrize("name", TABLES)
def test_no_number_has_moved(name: str) -> None:
    frozen = pd.read_csv(FROZEN / f"{name}.csv", dtype={"key": str, "setting": str, "minus": str})
    found = TABLES[name]()
    if name == "records":  # others may be added
        found = found[found["key"].isin(frozen["key"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, frozen, check_dtype=False, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    for name, table in TABLES.items():
        table().to_csv(FROZEN / f"{name}.csv", index=False, float_format="%.12g")
