"""What stands beside the areas of `language` and decides nothing: accuracy, steps to three
thresholds, and time."""

import math
from collections import Counter
from typing import Any

import pandas as pd

from ..analysis.steps import steps_to
from ..analysis.study import Study
from ..records import Record
from ..sections.arms import label
from .table import NONE, Table

LEVELS = (0.8, 0.95, 0.99)  # of validation accuracy
STEPS_TO = [f"steps to {level:.0%}" for level in LEVELS]


def progress_table(study: Study) -> Table:
    """A row for each arm and task with a recorded run, its means over these."""
    planned = Counter((run.task, label(run.arm)) for run in study.runs)
    records = study.records()
    rows = [
        {"task": run.task, "arm": label(run.arm), **_progress(records[run.key])}
        for run in study.runs
        if run.key in records
    ]
    columns = ["task", "arm", "accuracy", *STEPS_TO, "falls again", "processor seconds"]
    runs = pd.DataFrame(rows, columns=columns).groupby(["task", "arm"], sort=False)
    numbers = runs.mean()
    counts = runs.count()
    recorded = runs.size()
    texts = pd.DataFrame({"runs": recorded})
    texts["runs"] = [f"{count} of {planned[place]}" for place, count in recorded.items()]
    texts["accuracy"] = numbers["accuracy"].map("{:.1f}%".format)
    for name in STEPS_TO:
        by_place = zip(numbers[name], counts[name], recorded, strict=True)
        texts[name.removeprefix("steps ")] = [
            f"{steps:.0f} ({reached} of {count})" if reached else NONE
            for steps, reached, count in by_place
        ]
    texts["falls again"] = numbers["falls again"].map("{:.0%}".format)
    texts["seconds"] = numbers["processor seconds"].map("{:.0f}".format)
    caption = (
        "Means over the recorded runs: test accuracy; gradient steps to the first of two "
        "consecutive evaluations at three validation accuracies, over the runs that reach "
        f"them; the share of runs that fall below {LEVELS[-1]:.0%} afterwards; processor "
        "time per run."
    )
    texts.index = [f"{arm}: {task}" for task, arm in texts.index]
    numbers = numbers.assign(runs=recorded).reset_index()
    return Table("progress", "Beside the areas: steps and time", texts, numbers, caption)


def _progress(record: Record) -> dict[str, Any]:
    steps = [steps_to(record, level) for level in LEVELS]
    counts = [math.nan if reached.censored else reached.count for reached in steps]
    after = [
        point["valid_accuracy"] for point in record.curve if point["step"] > steps[-1].count
    ]
    return {
        # That of a run that diverged is of whatever was best before.
        "accuracy": 100 * record.metrics["test_accuracy"]
        if record.status == "done"
        else math.nan,
        **dict(zip(STEPS_TO, counts, strict=True)),
        "falls again": any(accuracy < LEVELS[-1] for accuracy in after),
        "processor seconds": record.cost.get("process_seconds", math.nan),
    }
