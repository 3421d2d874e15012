"""Set entries of the committed data/manifest.json: source, digest and trivial baselines of data.

`python -m lab.manifest TASK[:k=v,...] ...` does it for these tasks (default: all), from the data
that are here. The library only reads the manifest.
"""

import sys
from collections.abc import Iterable

import torch
from torch import Tensor

from fpt.files import write_json
from fpt.project import project
from fpt.tasks import TASKS, Task, parse_task
from fpt.tasks.base import FiniteTask
from fpt.tasks.datasets import load, read_manifest
from fpt.tasks.images import ImageTask
from fpt.tasks.listops import ListOps
from fpt.tasks.sequences import SequenceTask


def features(task: FiniteTask, split: str) -> tuple[Tensor, Tensor] | None:
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
    examples = arrays[f"{split}_tokens"].long().split(lengths.tolist())
    counts = torch.stack([torch.bincount(tokens, minlength=task.dim) for tokens in examples])
    return counts.float().sqrt(), task.labels(split)


def linear_baseline(task: FiniteTask) -> dict[str, float]:
    """Test accuracy of logistic regression fitted on the training examples, unscaled and with a
    weak L2 penalty, by its name; empty if the task has no such baseline."""
    from sklearn.linear_model import LogisticRegression

    train = features(task, "train")
    test = features(task, "test")
    if train is None or test is None:
        return {}
    model = LogisticRegression(solver="lbfgs", C=1.0, max_iter=100).fit(*train)
    return {"linear classifier": float(model.score(*test))}


def write_manifest(tasks: Iterable[Task]) -> None:
    """Set the manifest's entries of `tasks` from the data that are here; other tasks' and what is
    not computed here, such as licences, stay."""
    for task in tasks:
        if isinstance(task, FiniteTask):
            manifest = read_manifest()
            entry = manifest.get(task.dataset.key, {})
            floors = {**task.measure_floors(), **linear_baseline(task)}
            entry |= {**task.source(), "examples": task.sizes, "digest": task.digest()}
            entry["floors"] = {**entry.get("floors", {}), task.name: floors}
            manifest[task.dataset.key] = entry
            write_json(project().data / "manifest.json", dict(sorted(manifest.items())))


if __name__ == "__main__":
    write_manifest(map(parse_task, sys.argv[1:] or TASKS))
