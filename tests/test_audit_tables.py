"""The tables of docs/audit.md are those of the results that the scripts of benchmarks/ write."""

import json
from pathlib import Path
from typing import Any

import audit_calibration
import audit_gallery
import audit_nulls
import blocks
import pytest

from fpt.auditing.verdict import CONTENT_HELPS, UNCLEAR


@pytest.mark.parametrize(
    ("name", "script"),
    [("calibration", audit_calibration), ("nulls", audit_nulls), ("gallery", audit_gallery)],
)
def test_the_page_shows_the_results(name: str, script: Any) -> None:
    path = blocks.RESULTS / f"audit_{name}.json"
    lines = script.table(json.loads(path.read_text())) if path.exists() else ["not been run"]
    block = blocks.PAGE.read_text().partition(f"<!-- {name}:")[2].partition(f"end of {name}")[0]
    assert "\n".join(lines) in block


def test_errors_in_nulls_are_counted() -> None:
    entries = [
        {"verdict": verdict, "beats_all_controls": verdict == CONTENT_HELPS}
        | {"beaten_controls": 4 * (verdict == CONTENT_HELPS), "controls": 4}
        for verdict in [CONTENT_HELPS] + 19 * [UNCLEAR]
    ]
    *_, summary = audit_nulls.table({audit_nulls.PERMUTED: entries})
    assert "1 of 20 audits (at most 21.6%" in summary
    assert "Of 80 single comparisons with a control, 4 " in summary


def test_a_block_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "audit.md"
    monkeypatch.setattr(blocks, "PAGE", page)
    monkeypatch.setattr(blocks, "RESULTS", tmp_path)
    begin = "<!-- nulls: made by python benchmarks/audit_nulls.py -->"
    page.write_text(f"before\n{begin}\nold\n<!-- end of nulls -->\nafter\n")
    blocks.write("nulls", {"key": 1}, ["new", "lines"])
    assert page.read_text() == f"before\n{begin}\nnew\nlines\n<!-- end of nulls -->\nafter\n"
    assert json.loads((tmp_path / "audit_nulls.json").read_text()) == {"key": 1}
    with pytest.raises(SystemExit, match="no block"):
        blocks.write("other", {}, [])
