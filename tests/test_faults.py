"""The fault harness, few trials of it; `make faults` runs many."""

import json
import subprocess
import sys
from pathlib import Path

HARNESS = Path(__file__).parents[1] / "lab" / "faults.py"


def harness(*arguments):
    command = [sys.executable, str(HARNESS), "--json", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def test_nothing_is_lost_torn_or_doubled():
    """Every kind of fault once."""
    status, outcomes = harness("--trials", "12", "--seed", "1")
    bad = [fault for fault in outcomes if fault["lost"] or fault["torn"] or fault["extra"]]
    assert (status, bad) == (0, [])
    assert len({fault["point"] for fault in outcomes}) == 12
    assert sum(fault["injected"] for fault in outcomes) >= 9


def test_a_write_that_is_not_atomic_is_caught():
    status, outcomes = harness("--trials", "12", "--seed", "0", "--plant")
    assert status == 1
    assert sum(fault["torn"] for fault in outcomes) >= 2
