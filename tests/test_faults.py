"""The fault harness, few trials of it; `make faults` runs many and writes docs/faults.md."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parents[1] / "lab" / "faults.py"


def harness(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, str(HARNESS), "--json", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def test_nothing_is_lost_torn_or_doubled() -> None:
    """Every kind of fault once."""
    status, outcomes = harness("--trials", "12", "--seed", "1")
    assert status == 0, [it for it in outcomes if it["lost"] or it["torn"] or it["extra"]]
    assert len({it["point"] for it in outcomes}) == 12
    assert sum(it["injected"] for it in outcomes) >= 9
    assert {(it["lost"], it["torn"], it["extra"]) for it in outcomes} == {(0, 0, 0)}


def test_a_write_that_is_not_atomic_is_caught() -> None:
    status, outcomes = harness("--trials", "12", "--seed", "0", "--plant")
    assert status == 1
    assert sum(it["torn"] for it in outcomes) >= 2
