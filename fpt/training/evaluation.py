"""Accuracy, loss and the task's own scores of the runs of a pack on a split."""

import torch
from torch import Tensor

from .device import autocast
from .model import Model

EVAL_TOKENS = 1 << 15  # tokens of all runs together in one evaluation batch


@torch.no_grad()
def evaluate(model: Model, split: str, at_most: int = 0) -> list[dict[str, float]]:
    """One mapping per run of `model`: `accuracy` in [0, 1], `loss` in nats, the task's own scores
    if they apply to any example, and `items`, the number of examples.

    Evaluated are the fixed subset of `at_most` examples of `split` (`Task.subset`) or (0) all,
    without dropout and augmentation.
    """
    task = model.task
    runs = len(model.seeds)
    device = model.output.weight.device
    model.eval()
    sums: dict[str, Tensor] = {}  # (2, K): of the values, and of the answers that they apply to
    items = 0
    size = max(1, EVAL_TOKENS // (runs * task.length))
    for batch in task.eval_batches(split, size, device, at_most):
        with autocast(device, model.precision):
            logits = model(batch, first=items).float()
        targets = batch.targets.expand(runs, -1, -1)
        always = {
            "accuracy": task.correct(logits, targets),
            "loss": task.losses(logits, targets),
        }
        for name, values in (always | task.scores(logits, batch)).items():  # each (K, B, R)
            applies = torch.ones_like(values).bool() if name in always else ~values.isnan()
            added = torch.stack([values.where(applies, 0).double(), applies.double()]).sum((2, 3))
            sums[name] = sums[name] + added if name in sums else added
        items += targets.shape[1]
    applied = [name for name, (_, count) in sums.items() if bool(count.all())]
    means = {name: (sums[name][0] / sums[name][1]).tolist() for name in applied}
    return [{name: means[name][run] for name in applied} | {"items": items} for run in range(runs)]
