"""Exploratory runs: records that no plan expects, kept in the folder `exploratory` of a store.

They were trained to find settings, or for an earlier plan. They are shown as means, without
intervals or verdicts.
"""

import json
import math
from dataclasses import replace

import pandas as pd

from ..analysis.cells import titles
from ..records import Record, Store
from ..spec import RunSpec
from ..training.train import task_of
from .table import NONE, Table, percent


def exploratory(store: Store) -> list[Record]:
    """The exploratory records beside those of `store`, by task, body and learning rate."""
    there = Store(store.folder / "exploratory")
    found = there.read_all(sorted(there.keys())).values()
    return sorted(found, key=lambda it: (it.spec.data, it.spec.backbone, it.spec.lr, it.key))


def exploratory_table(store: Store) -> Table:
    """A row per setting, over its seeds: runs, and the mean of their test accuracies."""
    records = exploratory(store)
    settings: dict[RunSpec, list[Record]] = {}
    for record in records:
        settings.setdefault(replace(record.spec, seed=0), []).append(record)
    shown, numbers, names = [], [], []
    for spec, mine in settings.items():
        task, data = task_of(spec), json.loads(spec.data)
        done = [record.metrics["test_accuracy"] for record in mine if record.status == "done"]
        mean = math.fsum(done) / len(done) if done else math.nan
        row: dict[str, object] = {
            "options": ", ".join(f"{name} {value}" for name, value in data["options"].items()),
            "body": spec.backbone,
            "start": spec.init,
            "weights": spec.weights or NONE,
            "trained": ", ".join(spec.trainable),
            "lr": spec.lr,
            "batch": spec.batch,
            "steps": spec.steps,
            "runs": len(mine),
        }
        names.append(titles({task.name: task})[task.name])
        shown.append(row | {"test accuracy, %": percent(mean) if done else NONE})
        numbers.append({"task": task.name, "fitting": task.fitting, **row})
        numbers[-1] |= {"done": len(done), "test_accuracy": mean}
    notes = (
        f"{len(records)} runs that the plan does not expect, or no longer: they are in no other "
        "table, and nothing is concluded from them. Means over the runs that are done, without "
        "intervals.",
    )
    frame = pd.DataFrame(shown, index=names)
    return Table("exploratory", "Exploratory runs", frame, pd.DataFrame(numbers), notes)
