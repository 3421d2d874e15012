"""Whether what is missed may be the budget's: how much runs still learned as their steps ended."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..analysis.cells import section_arms, section_tasks, titles
from ..paper import reader as paper
from ..sections.claims import signed
from ..sections.section import Section
from .basis import coverage
from .table import NONE, Table, label

PART = 0.2  # of the steps that a run made


def late_gain(curve: Sequence[Mapping[str, float]]) -> float | None:
    """Mean validation accuracy over the looks of the last fifth of a run, less that of the fifth
    before; None where one of them has no look."""
    last = curve[-1]["step"] if curve else 0
    parts: list[list[float]] = [[], []]
    for point in curve:
        age = (last - point["step"]) / last
        if age < 2 * PART:
            parts[int(age >= PART)].append(point["valid_accuracy"])
    return float(np.mean(parts[0]) - np.mean(parts[1])) if all(parts) else None


def budget_table(section: Section) -> Table:
    """Arms by tasks: `late_gain` in points, a mean over seeds; then the steps here, and those that
    the paper's FPT took to converge."""
    present, tasks = section.records(), section_tasks(section)
    printed = paper.table("T6").cells
    shown: dict[str, list[str]] = {}
    numbers = []
    for arm in section_arms(section):
        texts = []
        for task in tasks:
            records = [
                present[run.spec.key]
                for run in section.runs
                if (run.arm, run.task) == (arm, task) and run.spec.key in present
            ]
            gains = [late_gain(record.curve) for record in records]
            known = [gain for gain in gains if gain is not None]
            texts.append(f"{signed(float(np.mean(known)))} ({len(known)})" if known else NONE)
            numbers += [{"arm": arm, "task": task, "gain": gain} for gain in known]
        shown[label(arm)] = texts
    most = {run.task: f"{run.spec.steps:,}" for run in section.runs}
    shown["steps at most"] = [most[task] for task in tasks]
    took = [getattr(printed.get(("fpt", task)), "value", None) for task in tasks]
    shown["paper: steps of its FPT (T6)"] = [NONE if n is None else f"{n:,.0f}" for n in took]
    notes = (
        "Points of validation accuracy that the last fifth of a run is above the fifth before, "
        "mean over (seeds). A run that still gains, or is still at the floor after fewer steps "
        "than the paper's took, has not shown what it can reach.",
        "A profile's longer runs of the same tasks are on the page on efficiency. "
        "What it misses may also be its learning rate's, of which the page on learning rates has "
        "curves. The bodies are held against transformers' own in tests/test_gpt2.py and "
        "tests/test_backbones.py.",
        coverage(section),
    )
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=list(titles(tasks).values()))
    return Table("budget", "Is it the budget?", frame, pd.DataFrame(numbers), notes)
