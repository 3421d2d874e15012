"""How far the runs of a pack have come, as a checkpoint keeps it; what it says is checked here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """What one run has shown so far; plain JSON values, so a checkpoint can hold it."""

    curve: list[dict[str, float]] = field(default_factory=list)
    best_accuracy: float = -1.0
    best_step: int = 0
    waited: int = 0  # looks since the best one
    seconds: float = 0.0  # its share of the pack's wall time
    process_seconds: float = 0.0  # its share of the processor time of the pack's process
    status: str = "running"
    metrics: dict[str, float] = field(default_factory=dict)


def progress_of(values: Mapping[str, Any]) -> Progress:
    """What was stored of a run; TypeError or ValueError where that cannot be."""
    found = Progress(**values)
    if found.status not in ("running", "done", "diverged"):
        raise ValueError(f"the status of a run is {found.status!r}")
    return found


def check_steps(history: Mapping[str, Any], runs: list[Progress], steps: int) -> None:
    """ValueError where the steps of `history` are not those of a pack of `runs` that ends after
    `steps`, or others are alive than run. KeyError where it does not say."""
    step, summed = history["step"], history["summed"]
    alive = [index for index, run in enumerate(runs) if run.status == "running"]
    if history["alive"] != alive:
        raise ValueError(f"runs {history['alive']!r:.40} are alive in it, where {alive} go on")
    if type(step) is not int or not 0 <= step <= steps or (alive and step == steps):
        raise ValueError(f"its step is {step!r:.40} of {steps}")
    if type(summed) is not int or not 0 <= summed <= step:
        raise ValueError(f"it sums {summed!r:.40} steps")
