"""What caching the features is worth when the output net alone is trained (paper section 3.9)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch

from ..tasks import get_task
from ..training.loop import EVAL_TOKENS, Loop
from ..training.packing import losses
from ..training.probe import Head, cache, fit, training_batches
from .throughput import Case, seconds_per_step, specs_of

CACHED = Case("output net alone: digits, nano, batch 16", "digits", {}, "nano", 16, 1, "cpu")


@dataclass(frozen=True)
class OutputOnly:
    """Seconds per epoch of output-only training, as medians over rounds; `caching` is paid once."""

    case: str
    examples: int
    body: float  # through the body, in mini-batches: the arm `output`
    batches: float  # on cached features, in the same mini-batches with the same optimiser
    passes: float  # on cached features, one pass of the probe's L-BFGS over all of them
    caching: float

    @property
    def summary(self) -> dict[str, float]:
        return {
            "epochs on the cache / through the body, same mini-batches": self.body / self.batches,
            "epochs on the cache / through the body, whole passes": self.body / self.passes,
            "caching, in epochs through the body": self.caching / self.body,
        }


def output_only(case: Case, rounds: int, seconds: float) -> OutputOnly:
    """Time a case in `rounds` rounds of about `seconds` for each of its parts."""
    device, task = torch.device(case.kind), get_task(case.task, **case.options)
    spec = replace(specs_of(case)[0], trainable=("output",))
    loop, head = Loop([spec], task, device), Loop([spec], task, device)
    size = max(1, EVAL_TOKENS // task.length)
    found = []
    caching = seconds_per_step(
        lambda: found.append(cache(loop, training_batches(task, spec, size, device))), 1, device
    )
    features, targets = found[0].features, found[0].targets
    examples = len(features) // task.reads
    standard = Head(features, task.answers * task.classes)
    standardised = standard.standardise(features)

    def cached_step() -> None:
        """A step of `head`'s own output net and optimiser on cached features."""
        first = head.step * case.batch
        rows = torch.arange(first, first + case.batch, device=device) % examples
        x = features.view(1, examples, task.reads, -1)[:, rows]
        logits = head.model.output(x).view(1, case.batch, -1, task.classes)
        losses(logits, targets.view(1, examples, -1)[:, rows]).sum().backward()
        head.step += 1
        head.adam.step(head.step)

    parts: dict[str, Callable[[], Any]] = {"body": loop.train_step, "batches": cached_step}
    counts = {}
    for name, part in parts.items():
        seconds_per_step(part, 5, device)  # warm up
        counts[name] = max(1, round(seconds / seconds_per_step(part, 3, device)))
    times: dict[str, list[float]] = {"body": [], "batches": [], "passes": []}
    steps = examples / case.batch
    for _ in range(rounds):
        for name, part in parts.items():
            times[name].append(steps * seconds_per_step(part, counts[name], device))
        standard.weight.zero_()
        standard.bias.zero_()
        passes = 0

        def fitted() -> None:
            nonlocal passes
            passes = fit(standard, standardised, targets, 1e-3, 50).passes

        spent = seconds_per_step(fitted, 1, device)
        times["passes"].append(spent / passes)
    middle = {name: median(values) for name, values in times.items()}
    return OutputOnly(case.name, examples, caching=caching, **middle)
