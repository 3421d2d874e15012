"""Prepare data sets and write the committed manifest.

`python -m fpt.tasks.manifest TASK[:k=v,...] ...`. Everything else reads the manifest; only this
module, run on purpose, changes it.
"""

import json
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..files import DATA, FptError, write_json
from . import TASKS, Task, get_task
from .base import FiniteTask
from .datasets import SOURCES, data_note, load, prepared_path, read_manifest
from .proteins import ProteinTask

# L-BFGS on unscaled features, weak L2 penalty: the textbook multinomial logistic regression.
LINEAR_SETTINGS = {"solver": "lbfgs", "C": 1.0, "max_iter": 100}


@dataclass(frozen=True)
class Prepared:
    """What `prepare` did for one task."""

    task: str
    data: str  # key of the data set, or "generated on the fly"
    examples: dict[str, int]
    digest: str
    note: str | None  # see fpt.tasks.datasets.data_note


def prepare(tasks: Iterable[str | Task] = TASKS) -> list[Prepared]:
    """Fetches, decodes or generates, and verifies the data of `tasks` (names mean defaults).

    Raises FptError where a source is out of reach.
    """
    summary = []
    for task in tasks:
        task = get_task(task) if isinstance(task, str) else task
        data = task.dataset.key if isinstance(task, FiniteTask) else "generated on the fly"
        summary.append(Prepared(task.name, data, task.sizes, task.digest(), data_note(task)))
    return summary


def linear_floor(task: FiniteTask) -> tuple[float, int] | None:
    """Test accuracy of logistic regression fitted on train, and the iterations it took."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    train, test = task.features("train"), task.features("test")
    if train is None or test is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the manifest states the iterations
        model = LogisticRegression(**LINEAR_SETTINGS).fit(train.numpy(), task.labels("train"))
    accuracy = float((model.predict(test.numpy()) == task.labels("test").numpy()).mean())
    return accuracy, int(model.n_iter_[0])


def manifest_for(task: FiniteTask, old: dict[str, Any]) -> dict[str, Any]:
    """The manifest entry of the task's data set; keys of `old` that are not computed stay."""
    arrays = load(task.dataset)
    entry: dict[str, Any] = {**old, **task.dataset.source}
    source = SOURCES.get(task.dataset.key.rpartition("-v")[0])  # of the hub
    if source is not None:
        entry |= {"licence": source.licence, "files": source.files}
    entry["examples"] = {split: len(arrays[f"{split}_labels"]) for split in task.sizes}
    entry["digest"] = task.digest()
    if isinstance(task, ProteinTask):
        entry["coverage"] = task.coverage()
    floors = task.measure_floors()
    if (fitted := linear_floor(task)) is not None:
        floors["linear classifier"] = fitted[0]
        fits = old.get("linear classifier", {})
        fit = {"model": "logistic regression on features in train", **LINEAR_SETTINGS}
        entry["linear classifier"] = {**fits, task.name: {**fit, "iterations": fitted[1]}}
    entry["floors"] = {**old.get("floors", {}), task.name: floors}
    return entry


def write_manifest(tasks: Iterable[Task]) -> None:
    """Sets the manifest's entries of `tasks` from the data that are here; keeps all others."""
    for task in tasks:
        if isinstance(task, FiniteTask):
            manifest = read_manifest()
            key = task.dataset.key
            manifest[key] = manifest_for(task, manifest.get(key, {}))
            write_json(DATA / "manifest.json", dict(sorted(manifest.items())))
            print(
                f"{task.name}: {prepared_path(task.dataset).name}, "
                f"floors {json.dumps(manifest[key]['floors'][task.name])}",
                flush=True,
            )


def parse_task(text: str) -> Task:
    """`name` or `name:option=value,...`, values in JSON where they are JSON."""
    name, _, rest = text.partition(":")
    options = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key in options:
            raise FptError(f"{text!r} is not of the form TASK or TASK:option=value,option=value.")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
        except RecursionError as error:
            raise FptError(f"The option {key!r} of {name!r} is nested too deep.") from error
    return get_task(name, **options)


if __name__ == "__main__":
    try:
        write_manifest(map(parse_task, sys.argv[1:] or TASKS))
    except FptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
