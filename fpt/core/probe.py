"""The probe: the output net alone, on clean features of the untrained model, to
convergence.

The paper trains the output net alone in two ways that disagree (section 3.9 against its
ablation tables): 32.8% and 15% on ListOps, with budgets that are not given. A converged fit
has no budget: logistic regression is convex, so what it reaches belongs to the features
alone.

The backbone sees every example once; each later pass is one over the cached features.
"""

import time
import warnings
from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from ..spec import RunSpec
from ..tasks import Batch, Task
from ..training.device import AUTO
from ..training.progress import Progress
from .evaluation import EVAL_TOKENS
from .runs import Runs

PENALTIES = (
    1.0,
    1e-1,
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
    1e-7,
    1e-8,
)  # L2, the same for every arm


def features_of(runs: Runs, batches: Iterable[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """What the model of one run hands to its output net, (N, width) float64 for N examples
    times the positions read, and their targets (N, answers)."""
    features: list[Tensor] = []
    targets: list[Tensor] = []
    first = 0
    for batch in batches:
        features.append(runs.features(batch, first)[0].double().flatten(0, 1).cpu())
        targets.append(batch.targets.reshape(-1, runs.task.answers).cpu())
        first += batch.targets.shape[1]
    return torch.cat(features).numpy(), torch.cat(targets).numpy()


def training_batches(task: Task, spec: RunSpec, size: int, device: str) -> Iterable[Batch]:
    """The clean training set once; of an endless task the first `spec.batch` examples."""
    if task.sizes["train"]:
        return task.eval_batches("train", size, device)
    counts = [min(size, spec.batch - start) for start in range(0, spec.batch, size)]
    return (
        task.train_batch([spec.seed], step, count, device)
        for step, count in enumerate(counts)
    )


class Head:
    """The fitted output net: one logistic regression on standardised features for each
    answer."""

    def __init__(self, features: np.ndarray, answers: int, iterations: int) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        # Standardised, so that a penalty means the same for features of any size.
        self.scaler = StandardScaler().fit(features)
        self.models = [
            LogisticRegression(max_iter=iterations, tol=1e-5, warm_start=True)
            for _ in range(answers)
        ]

    def fit(self, features: np.ndarray, targets: np.ndarray, penalty: float) -> int:
        """Minimise mean cross-entropy + penalty / 2 * sum of squared weights, from where
        the last fit ended; the iterations that it took."""
        standard = self.scaler.transform(features)
        for answer, model in enumerate(self.models):
            # Of two classes scikit-learn has one weight, the difference of ours.
            count = len(np.unique(targets[:, answer]))
            model.C = (2 if count == 2 else 1) / (penalty * len(features))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of too few iterations
                model.fit(standard, targets[:, answer])
        return max(int(model.n_iter_.max()) for model in self.models)

    def scores(
        self, name: str, features: np.ndarray, targets: np.ndarray
    ) -> dict[str, float]:
        """Loss in nats and accuracy on a split."""
        standard = self.scaler.transform(features)
        losses, right = [], []
        for model, of_answer in zip(self.models, targets.T, strict=True):
            chances = model.predict_proba(standard)
            # A class that the training set lacks has no chance.
            is_class = of_answer[:, None] == model.classes_
            losses.append(-np.log(np.maximum((chances * is_class).sum(1), 1e-300)).mean())
            right.append((model.classes_[chances.argmax(1)] == of_answer).mean())
        return {
            f"{name}_loss": float(np.mean(losses)),
            f"{name}_accuracy": float(np.mean(right)),
        }


def probe(spec: RunSpec, task: Task, device: str, precision: str = AUTO) -> Progress:
    """Fit the output net of `spec` for every penalty and test the one that is best on
    validation; of equals, the strongest. `spec` is one of `fpt.spec.probe_of`.

    The curve has one point per penalty, from the strongest; its `step` counts iterations of
    L-BFGS. The cost has the `tokens` that the backbone has seen; `first_epoch_seconds`
    (features of the training set and one pass over them) and `cached_epoch_seconds` (one
    pass), whose ratio is the speed-up of the paper's section 3.9; `epochs`, the number of
    passes.
    """
    progress = Progress(status="done")
    began, began_process = time.perf_counter(), time.process_time()
    runs = Runs([spec], task, device, precision=precision)
    size = max(1, EVAL_TOKENS // task.length)
    valid = features_of(runs, task.eval_batches("valid", size, device))
    start = time.perf_counter()
    train = features_of(runs, training_batches(task, spec, size, device))
    extraction = time.perf_counter() - start
    start = time.perf_counter()
    best = (-1.0, -1.0)  # accuracy and minus the loss
    iterations = 0
    head = Head(train[0], task.answers, spec.steps)
    for penalty in PENALTIES:
        iterations += head.fit(*train, penalty)
        point = {"step": iterations, "penalty": penalty}
        point |= head.scores("train", *train) | head.scores("valid", *valid)
        progress.curve.append(point)
        validated = (point["valid_accuracy"], -point["valid_loss"])
        if validated > best:
            best, chosen, selected = validated, point, deepcopy(head)
    pass_seconds = (time.perf_counter() - start) / max(1, iterations)
    test = features_of(runs, task.eval_batches("test", size, device, spec.test_items))
    items = len(test[0]) // task.reads
    progress.metrics = {**selected.scores("test", *test), "test_items": items}
    for name in ("train_accuracy", "valid_accuracy", "penalty"):
        progress.metrics[name] = chosen[name]
    progress.metrics |= {"best_step": chosen["step"], "steps": iterations}
    seen = (len(train[0]) + len(valid[0])) / task.reads + items
    progress.cost = {
        "tokens": seen * task.length,
        "first_epoch_seconds": extraction + pass_seconds,
        "cached_epoch_seconds": pass_seconds,
        "epochs": iterations,
    }
    progress.seconds = time.perf_counter() - began
    progress.process_seconds = time.process_time() - began_process
    return progress
