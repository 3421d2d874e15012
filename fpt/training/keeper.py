"""What keeps the checkpoints of packs on Ray beside the driver.

It is a process of its own, which needs no torch: so not in `fpt.training.ray_executor`.
"""

import time
from pathlib import Path

from ..files import write_atomic


class Keeper:
    """Checkpoints on the driver's machine, by file name, and its clock. Lives as an actor there."""

    def __init__(self, folder: str, budget: float) -> None:
        self.folder, self.deadline = Path(folder), time.monotonic() + budget

    def left(self) -> float:
        """Seconds of the budget: the clocks of two machines need not agree."""
        return self.deadline - time.monotonic()

    def put(self, name: str, content: bytes) -> None:
        write_atomic(self.folder / name, content)

    def latest(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.exists() else None
