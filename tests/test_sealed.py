"""The experiments that are sealed: each record has its rows in the index, and none has changed."""

import hashlib
import json
import math
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from called import arm_of, model_of

from fpt.names import ARMS
from fpt.reading.made import sections
from fpt.records import INDEX, Store

EXPERIMENTS = Path(__file__).parents[1] / "reports" / "experiments"
# How many records have each role, and the SHA-256 of the sorted keys with their digests.
SEALED = {
    "language": (
        {"reported": 1348, "search": 957},
        "bf48b2c158cbd2e786f6ce15e835fbd8f57fb051d5f3299aaf2da4a2fa7427ed",
    ),
    "lab": (
        # 329 of the exploratory runs are expected by no plan, 19 by sensitivity.yaml.
        {"reported": 674, "search": 6, "exploratory": 329 + 19},
        "14938bacb8c7486f72a82e10da379b7a9ca095acd7cc53099ede22459cfe861d",
    ),
    "gpu-2026-11": (
        {"reported": 45},
        "eb277856ca87e5e73f95620272b1609072fadd8a58eff4ebf4ae795f94412d7b",
    ),
}
COLUMNS = ["key", "section", "model", "arm", "task", "role"]


@pytest.fixture(params=SEALED)
def experiment(request):
    """Name, store and index of a sealed experiment."""
    folder = EXPERIMENTS / request.param
    return request.param, Store(folder), json.loads((folder / INDEX).read_text())


def test_no_record_has_changed(experiment):
    name, store, _ = experiment
    digests = sorted(store.digests(store.archive().records).items())
    assert hashlib.sha256(json.dumps(digests).encode()).hexdigest() == SEALED[name][1]


def test_every_record_has_a_row_and_every_row_a_record(experiment):
    name, store, index = experiment
    assert {row["key"] for row in index} == store.archive().records.keys()
    assert all(list(row) == COLUMNS for row in index)
    rows = [tuple(row.values()) for row in index]
    assert len(set(rows)) == len(rows)
    roles = {(row["key"], row["role"]) for row in index}
    assert Counter(role for _, role in roles) == SEALED[name][0]


def test_a_row_has_the_names_of_its_record(experiment):
    _, store, index = experiment
    # The last two are of runs that no page shows.
    assert {row["section"] for row in index} <= {*sections(), "sensitivity", "verdict"}
    for row in index:
        spec = store.archive().records[row["key"]].spec
        assert (row["model"], row["arm"]) == (model_of(spec), arm_of(spec)), row
        assert row["arm"] in ARMS
        if row["role"] == "reported":
            assert row["task"].startswith(spec.task)


@pytest.mark.parametrize("name", ["language", "lab"])
def test_the_page_of_an_experiment_has_the_verdicts_of_its_tables(name):
    page = (EXPERIMENTS / name / "README.md").read_text(encoding="utf-8")
    for path in sorted((EXPERIMENTS / name / "verdicts").glob("*ary.csv")):
        rows = pd.read_csv(path)
        in_points = abs(rows["effect"]) * 100
        for row, points in zip(rows.itertuples(), in_points, strict=True):
            # A claim of `language` is a cell of a table of arms.
            lines = [line for line in page.splitlines() if line.startswith(f"| {row.claim}:")]
            text = lines[0] if lines else page
            assert row.verdict in text
            if not math.isnan(row.effect):
                assert f"{row.effect:.2f}" in text or f"{points:.1f} points" in text
            if not math.isnan(row.adjusted):
                assert f"{row.adjusted:.2g}" in text or f"{row.adjusted:.4f}" in text
    assert SEALED[name][1] in page
