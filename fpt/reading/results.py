"""One row per run: what the records of all experiments say, in the paper's units.

An experiment is a folder of `reports/experiments`: its records, and `index.json`, which
says of each record's key the section, model, arm, task and role. Tables are made from these
facts, not from a plan.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import FptError, check_names
from ..project import project
from ..records import Record, Store
from ..spec import RunSpec
from ..tasks import get_task, task_of
from ..tasks.base import FiniteTask
from ..training.progress import reached

INDEX = "index.json"
RATES = "learning_rate"  # the section whose runs may have any rate
ALIKE = ("experiment", "rate", "warmup", "planned_steps")  # of runs whose mean is taken
THRESHOLDS = (80, 95, 99)  # percent of validation accuracy
FILTERS = ("section", "experiment", "model", "arm", "task", "role")
COLUMNS = [
    "experiment", "section", "model", "arm", "task", "role", "column", "seed", "draw",
    "test_accuracy", "valid_accuracy", "steps_to_80", "steps_to_95", "steps_to_99", "area",
    "steps_to_threshold", "threshold", "steps", "planned_steps", "rate", "warmup",
    "positions", "status", "processor", "key",
]  # fmt: skip


def results(
    section: str | None = None,
    experiment: str | None = None,
    model: str | None = None,
    arm: str | None = None,
    task: str | None = None,
    role: str | None = "reported",
) -> pd.DataFrame:
    """A row for each run of the experiments, those that fit what is given. FptError for a
    name that no experiment has.

    Of a run: its experiment, section, model, arm and task; `column`, the task's name in the
    paper's tables; `seed`, and `draw`, the seed of a backbone that is drawn;
    `test_accuracy` and the best `valid_accuracy` in percent; `steps_to_80`, `steps_to_95`
    and `steps_to_99`, the first of two consecutive evaluations at that validation accuracy,
    and `steps_to_threshold`, at the `threshold` in percent that ends the run: NaN if it is
    not reached or if there is none; the `area` under the validation loss, in nats, NaN
    where evaluations are not equally far apart; the `steps` that were made and those that
    were planned; the learning `rate` and its `warmup`; whether `positions` were trained;
    the `processor`, and the `key`. A run that several sections show has a row in each,
    unless no `section` is given; then runs that are there to compare rates are left out.
    """
    frame = everything(project().experiments)
    given = (section, experiment, model, arm, task, role)
    for name, value in zip(FILTERS, given, strict=True):
        if value is not None:
            # In a project without records every name is right, and has none; and the usual
            # role is, where all runs only check the code.
            if len(frame) and value != "reported":
                check_names(name, [value], sorted({*frame[name]}))
            frame = frame[frame[name] == value]
    if section is None:
        if role == "reported":
            frame = frame[frame["section"] != RATES]
        frame = frame.drop_duplicates(["experiment", "key"])
    return frame.reset_index(drop=True)


def check_alike(runs: pd.DataFrame) -> None:
    """FptError if runs of one arm on one task differ in more than seed and draw: their mean
    would be of no arm."""
    for (model, arm, task), rows in runs.groupby(["model", "arm", "task"]):
        for name in ALIKE:
            values = sorted({*rows[name]})
            if len(values) > 1:
                raise FptError(
                    f"Runs of {model}, {arm} on {task} differ in {name} "
                    f"({', '.join(map(str, values))}); choose one section, experiment or "
                    f"{name} before their mean is taken."
                )


def everything(folder: Path) -> pd.DataFrame:
    """All rows of all experiments in a folder, read again if a file has changed."""
    paths = sorted(folder.glob(f"*/{INDEX}"))
    frames = [_rows(path.parent, _state(path.parent)) for path in paths]
    # An empty frame has no types, and would take them from the others.
    full = [frame for frame in frames if len(frame)]
    return pd.concat(full, ignore_index=True) if full else pd.DataFrame(columns=COLUMNS)


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """The files of an experiment with their sizes and times of change."""
    files = sorted([*folder.glob("*.json"), *folder.glob("*.xz")])
    stats = [(path.name, path.stat()) for path in files]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@cache
def _rows(folder: Path, state: object) -> pd.DataFrame:
    """The rows of one experiment; `state` keys the cache."""
    store = Store(folder)
    index = complete(json.loads((folder / INDEX).read_text()), store)
    records = store.read_all({row["key"] for row in index})
    rows = [
        {"experiment": folder.name, "section": "", **row, **facts_of(records[row["key"]])}
        for row in index
        if row["key"] in records
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def complete(index: Sequence[Mapping[str, Any]], store: Store) -> list[Mapping[str, Any]]:
    """The rows of an index that tables may read. Those of a registered block only when all
    of it is recorded: what is known of a part of it must change nothing."""
    keys = store.keys()
    blocks: dict[Any, list[Mapping[str, Any]]] = {}
    for row in index:
        blocks.setdefault(row.get("block"), []).append(row)
    readable: list[Mapping[str, Any]] = []
    for block, rows in blocks.items():
        is_reported = any(row["role"] == "reported" for row in rows)
        if block is None or (is_reported and all(row["key"] in keys for row in rows)):
            readable += rows
    return readable


def facts_of(record: Record) -> dict[str, Any]:
    """What `results` says of a run beside its names."""
    spec = record.spec
    accuracies = [point["valid_accuracy"] for point in record.curve]
    steps = {}
    thresholds = {str(percent): percent / 100 for percent in THRESHOLDS}
    for name, accuracy in {**thresholds, "threshold": spec.threshold or math.nan}.items():
        first = reached(accuracies, accuracy)
        is_reached = first is not None and record.status == "done"
        step = record.curve[first or 0]["step"] if is_reached else math.nan
        steps[f"steps_to_{name}"] = step
    return {
        "column": spec.task,
        "seed": spec.seed,
        "draw": math.nan if spec.draw is None else spec.draw,
        "test_accuracy": 100 * record.metrics["test_accuracy"],
        "valid_accuracy": 100 * record.metrics["valid_accuracy"],
        **steps,
        "area": area(record),
        "steps": record.metrics["steps"],
        "planned_steps": spec.steps,
        "rate": spec.lr,
        "warmup": spec.warmup,
        "threshold": 100 * spec.threshold or math.nan,
        "positions": has_positions(spec),
        "status": record.status,
        "processor": record.environment.get("device", ""),
        "key": record.key,
    }


def has_positions(spec: RunSpec) -> bool | None:
    """Whether a frozen transformer trains the paper's fourth group; None for runs that are
    not about it: an LSTM, and arms that train fewer groups than the paper's."""
    is_about_it = {"input", "layernorm", "output"} <= {*spec.trainable}
    if spec.backbone.startswith("lstm") or not is_about_it:
        return None
    return "positions" in spec.trainable


def area(record: Record) -> float:
    """The area under the curve of a run's validation loss by the trapezoidal rule, divided
    by its steps, in nats per answer. The curve begins at the loss of guessing, and a run
    that diverged counts as one that guesses from there on. NaN if evaluations are not
    equally far apart, or if a run ended at its threshold."""
    spec = record.spec
    planned = spec.steps // spec.eval_every
    losses = [point["valid_loss"] for point in record.curve][:planned]
    ended_early = record.status == "done" and len(losses) < planned
    if spec.eval_early or ended_early or planned == 0:
        return math.nan
    try:
        guessing = math.log(task_of(spec).classes)
    except FptError:  # a task of the lab's exploratory runs that is trained no longer
        return math.nan
    losses += [guessing] * (planned - len(losses))
    return float(np.trapezoid([guessing, *losses]) / planned)


# ---------------------------------------------------------------------------- trivial rules


@cache
def trivial_rule(data: str) -> tuple[str, float]:
    """The best rule that learns next to nothing on a task, of which `data` is the identity
    in JSON (`RunSpec.data`): its name and test accuracy in percent. FptError if it needs
    data that are not here and is not recorded."""
    content = json.loads(data)
    task = get_task(content["name"], **content["options"])
    # What a table says must not depend on which data happen to be on this machine.
    if isinstance(task, FiniteTask) and task.needs and task.recorded_floors() is None:
        raise FptError(f"No trivial rule is recorded for task {task.name!r}.")
    # A colon names a part of the test set.
    floors = {name: share for name, share in task.floors().items() if ": " not in name}
    if not floors:
        raise FptError(f"No trivial rule is known for task {task.name!r}.")
    name = max(floors, key=floors.__getitem__)
    return name, 100 * floors[name]


def record_of(experiment: str, key: str) -> Record:
    """The record of a run. KeyError if its experiment has none."""
    record = Store(project().records(experiment)).read(key)
    if record is None:
        raise KeyError(key)
    return record
