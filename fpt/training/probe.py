"""The probe: the output net on cached, clean features of the untrained model, to
convergence.

The paper trains the output net alone in two ways that disagree (section 3.9 against its
ablation tables; conflict E): 32.8% and 15% on ListOps, 24.7% and 17% on CIFAR-10 LRA, with
budgets that are not given. A converged fit has no budget: multinomial logistic regression
is convex, so what it reaches belongs to the features alone.

The input net is initialised as always and never trained; there is no augmentation and no
dropout. The backbone sees every example once; each later epoch is a pass over the cached
features.
"""

import copy
import math
import time
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..spec import RunSpec
from ..tasks import Batch, Task
from .device import AUTO, autocast, keep_memory
from .evaluation import EVAL_TOKENS, evaluate
from .model import Model, assemble
from .progress import Progress

# L2, the same for every arm.
PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
GRADIENT = 1e-5  # converged if no entry of the gradient is larger, in nats
SMALLEST_STEP = 1e-12  # of a weight or of the objective; below it lies rounding


class Head(nn.Module):
    """The fitted output net: linear in standardised features, in double precision.

    Standardising makes a penalty mean the same for features of any size, such as the few
    large ones of GPT-2; an output net without a penalty could undo it.
    """

    def __init__(self, features: Tensor, outputs: int) -> None:
        """The mean and scale of `features` (N, width) standardise; the net starts at
        zero."""
        super().__init__()
        std, self.mean = torch.std_mean(features.double(), 0, correction=0)
        # A feature that hardly varies holds rounding noise, which must not be scaled up.
        self.scale = std.clamp(min=float(std.square().mean().sqrt()) * 1e-4 + 1e-12)
        self.weight = nn.Parameter(
            self.mean.new_zeros(1, outputs, len(std)), requires_grad=False
        )
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


def fit(
    head: Head, features: Tensor, targets: Tensor, penalty: float, most: int
) -> tuple[int, int, float]:
    """Minimise mean cross-entropy + penalty / 2 * (sum of squared weights) / answers by
    L-BFGS.

    From the head's present values, in place, in at most `most` iterations. `features` are
    standardised, (N, width); `targets` (N, answers). Dividing by the answers per position
    makes a penalty mean the same for one answer as for fifty.

    Returns the numbers of iterations and of passes over the data, and the largest entry of
    the objective's gradient.
    """
    answers = targets.shape[1]
    # An approximate Hessian at the head's present probabilities, shared by all outputs. In
    # units of its root the objective would curve alike in all directions; that is quickest
    # for large sets and slow for small ones that can be separated, while half of it is
    # quick for both. The minimum is the same.
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
    objective()  # the gradient at the end, since the line search may have left another
    assert scaled.grad is not None
    assert bias.grad is not None
    gradient = float(max(scaled.grad.abs().max(), bias.grad.abs().max()))
    with torch.no_grad():
        head.weight.copy_(((scaled * unit) @ axes.T)[None])
        head.bias.copy_(bias[None])
    state = optimiser.state[scaled]
    return state["n_iter"], state["func_evals"] + 3, gradient


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over (N, answers * classes) logits and (N, answers) targets, in nats."""
    return F.cross_entropy(logits.view(targets.numel(), -1), targets.flatten())


def score(name: str, logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Loss and accuracy on a split of (N, answers * classes) logits and (N, answers)
    targets."""
    right = logits.view(*targets.shape, -1).argmax(-1) == targets
    return {
        f"{name}_loss": float(cross_entropy(logits, targets)),
        f"{name}_accuracy": float(right.double().mean()),
    }


def training_batches(
    task: Task, spec: RunSpec, size: int, device: torch.device
) -> Iterable[Batch]:
    """The clean training set once; of an endless task the first `spec.batch` examples."""
    if task.sizes["train"]:
        return task.eval_batches("train", size, device)
    counts = [min(size, spec.batch - start) for start in range(0, spec.batch, size)]
    return (
        task.train_batch([spec.seed], step, count, device)
        for step, count in enumerate(counts)
    )


@torch.no_grad()
def features_of(model: Model, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features that the model of one run hands to its output net, (N, width) float32 for N
    examples times the positions read, and their targets, (N, answers) int64."""
    model.eval()
    features = []
    targets = []
    first = 0
    for batch in batches:
        with autocast(model.output.weight.device, model.precision):
            features.append(model.features(batch, first=first).float().flatten(0, 2))
        targets.append(batch.targets.reshape(-1, model.task.answers))
        first += batch.targets.shape[1]
    return torch.cat(features), torch.cat(targets)


def probe(
    spec: RunSpec, task: Task, device: torch.device, precision: str = AUTO
) -> Progress:
    """Fit the output net of `spec` for every penalty and test the one that is best on
    validation.

    `spec` is one of `fpt.spec.probe_of`. The test set goes through the model once, with the
    chosen head. The curve has one point per penalty, from the strongest; its `step` counts
    L-BFGS iterations. The cost has the `tokens` that the backbone has seen;
    `first_epoch_seconds` (features of the training set and one pass over them) and
    `cached_epoch_seconds` (one pass), whose ratio is the speed-up of the paper's section
    3.9; `epochs`, the number of passes.
    """
    keep_memory()
    progress = Progress(status="done")
    began = time.perf_counter()
    began_process = time.process_time()
    model, _, _ = assemble([spec], task, device)
    model.compute_in(precision, device.type)
    size = max(1, EVAL_TOKENS // task.length)
    # Validation first: it reads the data and warms up.
    valid, valid_targets = features_of(model, task.eval_batches("valid", size, device))
    start = now(device)
    features, targets = features_of(model, training_batches(task, spec, size, device))
    extraction = now(device) - start
    head = Head(features, task.answers * task.classes)
    standardised = head.standardise(features)
    start = now(device)
    iterations = passes = 0
    best: tuple[float, float] = (-math.inf, -math.inf)  # accuracy and minus the loss
    for penalty in PENALTIES:  # from the strongest, each from where the last one ended
        steps, more, gradient = fit(head, standardised, targets, penalty, spec.steps)
        iterations += steps
        passes += more
        point = {"step": iterations, "penalty": penalty, "gradient": gradient}
        point |= score("train", head.logits(standardised), targets)
        point |= score("valid", head(valid), valid_targets)
        progress.curve.append(point)
        validated = (point["valid_accuracy"], -point["valid_loss"])
        if validated > best:  # of equals, the strongest penalty
            best = validated
            chosen = point
            model.output = copy.deepcopy(head)  # type: ignore[assignment]
    pass_seconds = (now(device) - start) / passes
    (tested,) = evaluate(model, "test", spec.test_items)
    progress.metrics = {f"test_{name}": value for name, value in tested.items()}
    for name in ("train_accuracy", "valid_accuracy", "penalty", "gradient"):
        progress.metrics[name] = chosen[name]
    progress.metrics |= {"best_step": chosen["step"], "steps": iterations}
    progress.cost = {
        "tokens": ((len(features) + len(valid)) / task.reads + tested["items"])
        * task.length,
        "first_epoch_seconds": extraction + pass_seconds,
        "cached_epoch_seconds": pass_seconds,
        "epochs": passes,
    }
    progress.seconds = time.perf_counter() - began
    progress.process_seconds = time.process_time() - began_process
    return progress


def now(device: torch.device) -> float:
    """Seconds, after the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
