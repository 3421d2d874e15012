"""Prepare data sets and write the committed manifest.

`python -m fpt.tasks.manifest TASK[:k=v,...] ...` sets the entries of these tasks (default: all).
Everything else only reads the manifest.
"""

import json
import sys
import warnings
from collections.abc import Iterable

from ..files import DATA, FptError, write_json
from . import TASKS, Task, get_task
from .base import FiniteTask
from .datasets import data_note, read_manifest

# L-BFGS on unscaled features, weak L2 penalty: the textbook multinomial logistic regression.
LINEAR_SETTINGS = {"solver": "lbfgs", "C": 1.0, "max_iter": 100}


def prepare(task: Task) -> str:
    """Fetch, decode or generate, and verify the data of `task`; returns a line that describes them.
    FptError if a source cannot be reached."""
    data = task.dataset.key if isinstance(task, FiniteTask) else "generated on the fly"
    note = data_note(task)
    return f"{task.name}: {data}, {task.digest()[:12]}" + (f" ({note})" if note else "")


def linear_floor(task: FiniteTask) -> float | None:
    """Test accuracy of logistic regression fitted on train; None if the task has no such
    baseline."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    train, test = task.linear_problem("train"), task.linear_problem("test")
    if train is None or test is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the settings are fixed
        model = LogisticRegression(**LINEAR_SETTINGS).fit(train[0].numpy(), train[1].numpy())
    return float((model.predict(test[0].numpy()) == test[1].numpy()).mean())


def write_manifest(tasks: Iterable[Task]) -> None:
    """Set the manifest's entries of `tasks` from the data that are here; other tasks' and what is
    not computed here, such as licences, stay."""
    for task in tasks:
        if isinstance(task, FiniteTask):
            manifest, key = read_manifest(), task.dataset.key
            entry, floors = manifest.get(key, {}), task.measure_floors()
            if (accuracy := linear_floor(task)) is not None:
                floors["linear classifier"] = accuracy
            entry |= {**task.source(), "examples": task.sizes, "digest": task.digest()}
            entry["floors"] = {**entry.get("floors", {}), task.name: floors}
            write_json(DATA / "manifest.json", dict(sorted({**manifest, key: entry}.items())))


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
