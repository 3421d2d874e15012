"""The tables of docs/own-data.md are those of the results that the scripts of benchmarks/ write."""

import json

import audit_calibration
import audit_nulls
import blocks
import pytest


@pytest.mark.parametrize(
    ("name", "script"),
    [("calibration", audit_calibration), ("nulls", audit_nulls)],
)
def test_the_page_shows_the_results(name, script):
    path = blocks.RESULTS / f"audit_{name}.json"
    lines = script.table(json.loads(path.read_text())) if path.exists() else ["not been run"]
    block = blocks.PAGE.read_text().partition(f"<!-- {name}:")[2].partition(f"end of {name}")[0]
    assert "\n".join(lines) in block
