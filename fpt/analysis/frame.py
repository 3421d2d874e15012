"""Runs and their records as a data frame: one row per run."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..backbones import backbone
from ..errors import FptError
from ..profile import Run
from ..records import Record
from ..sections.arms import arm
from .steps import area, steps_to

# Columns from a record's environment.
ENVIRONMENT = ("device", "data_digest", "weights_digest")
# The columns of every frame, with or without a record.
COLUMNS = [
    "arm", "task", "seed", "draw", "lr", "key", "search", "threshold", "status", "weights",
    "source", "init", "trained", "layers", "accuracy", "steps", "area", "censored",
]  # fmt: skip


def frame_of(
    runs: Iterable[Run], records: Mapping[str, Record], in_areas: bool = False
) -> pd.DataFrame:
    """The frame of `Study.frame`: a row for each of `runs`, whether or not `records` have
    it, with the area under the loss if tasks without a threshold are measured `in_areas`.
    FptError if runs of one arm and task saw different data or weights of one name."""
    rows = [_row(run, records.get(run.key), in_areas) for run in runs]
    frame = pd.DataFrame(rows, columns=None if rows else COLUMNS)
    _check_digests(frame)
    return frame.astype({"search": bool, "censored": bool})


def _row(run: Run, record: Record | None, in_areas: bool) -> dict[str, Any]:
    """The row of `Study.frame` for one run."""
    spec = run.spec
    row: dict[str, Any] = {
        "arm": run.arm,
        "task": run.task,
        "seed": spec.seed,
        "draw": spec.draw,
        "lr": spec.lr,
        "key": run.key,
        "search": run.search,
        "threshold": spec.threshold,
        "status": "not run",
        "weights": spec.weights,
        "source": arm(run.arm).weights if spec.weights else None,
        "init": spec.init,
        "trained": "+".join(spec.trainable),
        "layers": backbone(spec.backbone).layers,
        "accuracy": np.nan,
        "steps": np.nan,
        "area": np.nan,
        "censored": False,
    }
    if record is None:
        return row
    row |= {"status": record.status, **record.metrics, **record.cost}
    row |= {name: record.environment.get(name) for name in ENVIRONMENT}
    row["steps"] = np.nan  # the record's own are all that were trained
    # After a divergence, accuracy is that of whatever was best before.
    if record.status == "done":
        row["accuracy"] = 100 * record.metrics["test_accuracy"]
    if spec.threshold:
        steps = steps_to(record, spec.threshold)
        row |= {"steps": steps.count, "censored": steps.censored}
    # Elsewhere runs may end early, and an area over other steps is another measure.
    elif in_areas:
        row["area"] = area(record)
    return row


def _check_digests(frame: pd.DataFrame) -> None:
    """FptError if runs of one arm on one task were trained on different data, or on
    different weights of one name."""
    columns = {"data_digest": ["arm", "task"], "weights_digest": ["arm", "task", "weights"]}
    for digest, by in columns.items():
        digests = frame.reindex(columns=[*by, "key", digest]).dropna(subset=[digest])
        for (arm_name, task, *weights), rows in digests.groupby(by):
            if rows[digest].nunique() == 1:
                continue
            content = f"weights {weights[0]}" if weights else "data"
            keys = rows.groupby(digest)["key"].agg(", ".join)
            sides = [f"{key} (digest {text[:8]})" for text, key in keys.items()]
            raise FptError(
                f"The runs of {arm_name!r} on {task!r} saw different {content}: "
                f"{' against '.join(sides)}. Keep the records of one of them and train "
                "the others again."
            )
