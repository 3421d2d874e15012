"""Processes of a sweep, for the tests that end them."""

import os
import time
from pathlib import Path

from fpt.project import PACKAGE


def environment(root):
    """That of a process that works in the project in `root`."""
    return os.environ | {"PYTHONPATH": str(PACKAGE.parent), "FPT_ROOT": str(root)}


def until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers_of(process):
    """Process ids of the workers of a sweep that live."""
    workers = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process and b"popen_loky" in (path / "cmdline").read_bytes():
                workers.append(int(path.name))
        except OSError:
            continue
    return workers


def lives(process):
    """Zombies, which nobody may wait for in a container, do not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
