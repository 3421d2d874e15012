"""The probe: the output net on cached, clean features of the untrained model, to convergence.

The paper trains the output net alone in two ways that disagree (section 3.9 against its ablation
tables; conflict E): 32.8% and 15% on ListOps, 24.7% and 17% on CIFAR-10 LRA, with budgets that are
not given. A converged fit has no budget: multinomial logistic regression is convex, so what it
reaches belongs to the features alone.

The input net starts as always and is never trained; there is no augmentation and no dropout. The
body sees every example once; each later epoch is a pass over the cached features.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..files import FptError
from ..spec import PROBE, RunSpec
from ..tasks import Batch, Task
from .device import autocast
from .loop import EVAL_TOKENS, Loop

PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # L2, the same for every arm
GRADIENT = 1e-5  # converged where no entry of the gradient is larger, in nats
SMALLEST_STEP = 1e-12  # of a weight or of the objective; below it lies rounding


@dataclass(frozen=True)
class Probed:
    """What a probe found: the `metrics`, `curve` and `cost` of its record.

    The curve has one point per penalty, from the strongest; its `step` counts L-BFGS iterations.
    """

    metrics: dict[str, float]
    curve: list[dict[str, float]]
    cost: dict[str, float]


@dataclass(frozen=True)
class Cached:
    """Features of all examples of a split at all positions read, and their targets."""

    features: Tensor  # (N, width) float32, N examples times reads
    targets: Tensor  # (N, answers) int64


class Head(nn.Module):
    """The fitted output net: linear in standardised features, in double precision.

    Standardising makes a penalty mean the same for features of any size, such as the few large
    ones of GPT-2; an output net without a penalty could undo it.
    """

    def __init__(self, features: Tensor, outputs: int) -> None:
        """Standardised are `features` (N, width); the net starts at zero."""
        super().__init__()
        std, self.mean = torch.std_mean(features.double(), 0, correction=0)
        # A feature that hardly moves holds rounding noise, not to be blown up.
        self.scale = std.clamp(min=float(std.square().mean().sqrt()) * 1e-4 + 1e-12)
        self.weight = nn.Parameter(self.mean.new_zeros(1, outputs, len(std)), requires_grad=False)
        self.bias = nn.Parameter(self.mean.new_zeros(1, outputs), requires_grad=False)

    def standardise(self, features: Tensor) -> Tensor:
        """(..., width) features -> (..., width) in double precision."""
        return (features - self.mean) / self.scale

    def forward(self, features: Tensor) -> Tensor:
        """(..., width) -> (..., outputs) logits."""
        with torch.autocast(features.device.type, enabled=False):
            return self.logits(self.standardise(features))

    def logits(self, standardised: Tensor) -> Tensor:
        return F.linear(standardised, self.weight[0], self.bias[0])


@dataclass(frozen=True)
class Fit:
    """How a fit ended: mean loss in nats and accuracy on what it was fitted to, iterations, passes
    over the data, and the largest entry of the objective's gradient."""

    loss: float
    accuracy: float
    iterations: int
    passes: int
    gradient: float


def fit(head: Head, features: Tensor, targets: Tensor, penalty: float, most: int) -> Fit:
    """Minimise mean cross-entropy + penalty / 2 * (sum of squared weights) / answers by L-BFGS.

    From the head's present values, in place, in at most `most` iterations. `features` are
    standardised, (N, width); `targets` (N, answers). Dividing by the answers per position makes a
    penalty mean the same for one answer as for fifty.
    """
    answers = targets.shape[1]
    # About the Hessian at the head's present odds, shared by all outputs. In units of its root the
    # objective would curve alike in all directions; that is quickest for large sets and slow for
    # small ones that can be separated, half of it is quick for both. The minimum is the same.
    odds = head.logits(features).unflatten(1, (answers, -1)).softmax(2)
    curvature = (odds * (1 - odds)).mean((1, 2))[:, None]
    size, axes = torch.linalg.eigh(features.T @ (features * curvature) / len(features))
    unit = (size.clamp(min=0) + penalty) ** -0.25
    scaled = (head.weight[0] @ axes / unit).requires_grad_()
    bias = head.bias[0].clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [scaled, bias],
        max_iter=most,
        max_eval=2 * most,
        history_size=50,
        tolerance_grad=GRADIENT,
        tolerance_change=SMALLEST_STEP,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimiser.zero_grad()
        weight = (scaled * unit) @ axes.T
        loss = cross_entropy(F.linear(features, weight, bias), targets)
        total = loss + penalty / (2 * answers) * weight.square().sum()
        total.backward()
        return total

    optimiser.step(objective)
    objective()  # the gradient at the end: the line search may have left another one
    assert scaled.grad is not None
    assert bias.grad is not None
    gradient = max(float(scaled.grad.abs().max()), float(bias.grad.abs().max()))
    with torch.no_grad():
        head.weight.copy_(((scaled * unit) @ axes.T)[None])
        head.bias.copy_(bias[None])
    logits = head.logits(features)
    state = optimiser.state[scaled]
    return Fit(
        loss=float(cross_entropy(logits, targets)),
        accuracy=accuracy(logits, targets),
        iterations=state["n_iter"],
        passes=state["func_evals"] + 3,
        gradient=gradient,
    )


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over (N, answers * classes) logits and (N, answers) targets, in nats."""
    return F.cross_entropy(logits.view(targets.numel(), -1), targets.flatten())


def accuracy(logits: Tensor, targets: Tensor) -> float:
    right = logits.view(*targets.shape, -1).argmax(-1) == targets
    return float(right.double().mean())


def training_batches(task: Task, spec: RunSpec, size: int, device: torch.device) -> Iterable[Batch]:
    """The clean training set once; of an endless task the first `spec.batch` examples."""
    if task.sizes["train"]:
        return task.eval_batches("train", size, device)
    counts = [min(size, spec.batch - start) for start in range(0, spec.batch, size)]
    return (task.train_batch([spec.seed], step, count, device) for step, count in enumerate(counts))


@torch.no_grad()
def cache(loop: Loop, batches: Iterable[Batch]) -> Cached:
    """Features that the untrained model of `loop` hands to its output net, and the targets."""
    model, task, found, targets = loop.model.eval(), loop.task, [], []
    model.draws.seeds = (loop.specs[0].seed,)
    kept: list[Tensor] = []
    hook = model.output.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    try:
        for batch in batches:
            with autocast(loop.device):
                model(batch)
            found.append(kept.pop().float().flatten(0, 2))
            targets.append(batch.targets.reshape(-1, task.answers))
    finally:
        hook.remove()
    return Cached(torch.cat(found), torch.cat(targets))


def probe(spec: RunSpec, task: Task, device: torch.device) -> Probed:
    """Fit the output net of `spec` for every penalty and test the one that is best on validation.

    `spec` is one of `fpt.spec.probe_of`. The test set goes through the model once, with the chosen
    head. `cost`: seconds, and those of the processor; tokens that the body has seen;
    `first_epoch_seconds` (features of the training set and one pass over them) and
    `cached_epoch_seconds` (one pass), whose ratio is the speed-up of the paper's section 3.9;
    `epochs`, the number of passes.
    """
    check(spec)
    began, began_process = time.perf_counter(), time.process_time()
    loop = Loop([spec], task, device)
    size = max(1, EVAL_TOKENS // task.length)
    valid = cache(loop, task.eval_batches("valid", size, device))  # first: reads data, warms up
    start = now(device)
    train = cache(loop, training_batches(task, spec, size, device))
    extraction = now(device) - start
    head = Head(train.features, task.answers * task.classes)
    standardised = head.standardise(train.features)
    start = now(device)
    iterations = passes = 0
    curve: list[dict[str, float]] = []
    best, chosen = (-1.0, 0.0), 0
    state = {}
    for penalty in PENALTIES:  # from the strongest, each from where the last one ended
        found = fit(head, standardised, train.targets, penalty, spec.steps)
        iterations, passes = iterations + found.iterations, passes + found.passes
        with torch.no_grad():
            logits = head(valid.features)
            point = {
                "step": iterations,
                "penalty": penalty,
                "train_loss": found.loss,
                "train_accuracy": found.accuracy,
                "valid_loss": float(cross_entropy(logits, valid.targets)),
                "valid_accuracy": accuracy(logits, valid.targets),
                "gradient": found.gradient,
            }
        if (point["valid_accuracy"], -point["valid_loss"]) > best or not curve:
            best, chosen = (point["valid_accuracy"], -point["valid_loss"]), len(curve)
            state = {name: value.clone() for name, value in head.state_dict().items()}
        curve.append(point)
    pass_seconds = (now(device) - start) / passes
    head.load_state_dict(state)
    loop.model.output = head  # type: ignore[assignment]
    tested = loop.evaluate("test", [0], spec.test_items)[0]
    point = curve[chosen]
    metrics = {f"test_{name}": value for name, value in tested.items()}
    metrics |= {name: point[name] for name in ("train_accuracy", "valid_accuracy", "penalty")}
    metrics |= {"gradient": point["gradient"], "best_step": point["step"], "steps": iterations}
    examples = sum(len(split.features) for split in (train, valid)) / task.reads + tested["items"]
    cost = {
        "seconds": time.perf_counter() - began,
        "process_seconds": time.process_time() - began_process,
        "tokens": examples * task.length,
        "first_epoch_seconds": extraction + pass_seconds,
        "cached_epoch_seconds": pass_seconds,
        "epochs": passes,
    }
    return Probed(metrics, curve, cost)


def check(spec: RunSpec) -> None:
    wrong = {name: getattr(spec, name) for name in PROBE if getattr(spec, name) != PROBE[name]}
    if wrong:
        raise FptError(
            f"A probe with {', '.join(f'{name} = {value!r}' for name, value in wrong.items())} is "
            "none: make its spec with fpt.spec.probe_of."
        )


def now(device: torch.device) -> float:
    """Seconds, when the device has done all that it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
