"""Prepare data sets and write the committed manifest.

`python -m fpt.tasks.manifest TASK[:k=v,...] ...` sets the entries of these tasks (default: all).
Everything else reads the manifest; only this module, run on purpose, changes it.
"""

import json
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from ..files import DATA, FptError, write_json
from . import TASKS, Task, get_task
from .base import FiniteTask
from .datasets import data_note, read_manifest
from .proteins import ProteinTask

# L-BFGS on unscaled features, weak L2 penalty: the textbook multinomial logistic regression.
LINEAR_SETTINGS = {"solver": "lbfgs", "C": 1.0, "max_iter": 100}


def prepare(task: Task) -> str:
    """Fetches, decodes or generates, and verifies the data of `task`; returns a line that says what
    they are. FptError if a source is out of reach."""
    data = task.dataset.key if isinstance(task, FiniteTask) else "generated on the fly"
    note = data_note(task)
    return f"{task.name}: {data}, {task.digest()[:12]}" + (f" ({note})" if note else "")


def linear_floor(task: FiniteTask) -> tuple[float, int] | None:
    """Test accuracy of logistic regression fitted on train, and the iterations it took; None if a
    linear classifier is no trivial baseline of the task."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    train, test = task.linear_problem("train"), task.linear_problem("test")
    if train is None or test is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the manifest states the iterations
        model = LogisticRegression(**LINEAR_SETTINGS).fit(train[0].numpy(), train[1].numpy())
    accuracy = float((model.predict(test[0].numpy()) == test[1].numpy()).mean())
    return accuracy, int(model.n_iter_[0])


def manifest_for(task: FiniteTask, old: dict[str, Any]) -> dict[str, Any]:
    """The manifest entry of the task's data set; keys of `old` that are not computed stay."""
    entry: dict[str, Any] = {**old, **task.dataset.source}
    if (repository := task.dataset.repository) is not None:
        entry |= {"licence": repository.licence, "files": repository.files}
    entry |= {"examples": task.sizes, "digest": task.digest()}
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
            print(f"{key}: {json.dumps(manifest[key]['floors'][task.name])}", flush=True)


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
    return get_task(name, **options)


if __name__ == "__main__":
    try:
        write_manifest(map(parse_task, sys.argv[1:] or TASKS))
    except FptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
