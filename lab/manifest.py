"""Set entries of the committed data/manifest.json: source, digest and trivial baselines of data.

`python -m lab.manifest TASK[:k=v,...] ...` does it for these tasks (default: all), from the data
that are here. The library only reads the manifest.
"""

import sys
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from fpt.files import DATA, FptError, write_json
from fpt.tasks import TASKS, Task, parse_task
from fpt.tasks.base import FiniteTask
from fpt.tasks.datasets import load, read_manifest
from fpt.tasks.images import ImageTask
from fpt.tasks.listops import ListOps
from fpt.tasks.sequences import SequenceTask


def linear_problem(task: FiniteTask, split: str) -> tuple[Tensor, Tensor] | None:
    """Features (N, F) float32 and labels (N,) int64 on which a linear classifier is a trivial
    baseline: pixels, or the square root of how often each symbol occurs, which evens out the
    variance. None if the task has no such baseline."""
    if isinstance(task, ImageTask):
        images, labels = task.chosen(split, torch.arange(task.sizes[split]), "cpu")
        return task.pixels(images).flatten(1), labels
    if isinstance(task, ListOps) or not isinstance(task, SequenceTask):
        return None
    arrays = load(task.dataset)
    lengths = arrays[f"{split}_starts"].diff()
    rows = torch.arange(len(lengths)).repeat_interleave(lengths)
    index = rows * task.dim + arrays[f"{split}_tokens"].long()
    counts = torch.bincount(index, minlength=len(lengths) * task.dim).view(-1, task.dim)
    return counts.float().sqrt(), task.labels(split)


def linear_baseline(task: FiniteTask) -> float | None:
    """Test accuracy of logistic regression fitted on the training examples, unscaled and with a
    weak L2 penalty; None if the task has no such baseline."""
    from sklearn.linear_model import LogisticRegression

    train, test = linear_problem(task, "train"), linear_problem(task, "test")
    if train is None or test is None:
        return None
    model = LogisticRegression(solver="lbfgs", C=1.0, max_iter=100)
    return float(model.fit(*map(np.asarray, train)).score(*map(np.asarray, test)))


def write_manifest(tasks: Iterable[Task]) -> None:
    """Set the manifest's entries of `tasks` from the data that are here; other tasks' and what is
    not computed here, such as licences, stay."""
    for task in tasks:
        if isinstance(task, FiniteTask):
            manifest, key = read_manifest(), task.dataset.key
            entry, floors = manifest.get(key, {}), task.measure_floors()
            if (accuracy := linear_baseline(task)) is not None:
                floors["linear classifier"] = accuracy
            entry |= {**task.source(), "examples": task.sizes, "digest": task.digest()}
            entry["floors"] = {**entry.get("floors", {}), task.name: floors}
            write_json(DATA / "manifest.json", dict(sorted({**manifest, key: entry}.items())))


if __name__ == "__main__":
    try:
        write_manifest(map(parse_task, sys.argv[1:] or TASKS))
    except FptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
