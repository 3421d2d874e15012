"""What needs no training by gradients: linear models of the tokens, of random convolutions,
and of the frozen features of the pretrained backbone.

Each model has one penalty, which validation chooses. The test examples are predicted once.
"""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from ..isolation import usual_settings
from ..spec import RunSpec
from ..tasks import Batch
from ..training import device as devices
from ..training.evaluation import EVAL_TOKENS
from ..training.model import assemble
from ..training.probe import features_of
from .arms import Body
from .folds import Fold
from .runs import Machine

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
SHORTEST_SERIES = 9  # tokens, the length of a kernel of MiniRocket
KERNELS = 10_000
ITERATIONS = 300
Features = Mapping[str, Any]


class Late(Exception):
    """The time was over before a model was fitted."""


def until(deadline: float, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches; Late after the `deadline`, a time of `time.monotonic()`."""
    for batch in batches:
        if time.monotonic() > deadline:
            raise Late
        yield batch


def linear(fold: Fold, deadline: float) -> dict[str, Any]:
    """Logistic or ridge regression on the tokens of each example, end to end."""
    features = {split: fold.flat(split) for split in fold.rows}
    if fold.task.kind == "token":
        # A vocabulary may have 50,000 symbols at each place, and the data few of them.
        columns = np.unique(features["train"].indices)
        features = {split: values[:, columns] for split, values in features.items()}
    return best_penalty(fold, features, models_of(fold), deadline)


def has_convolutions(fold: Fold) -> bool:
    """Whether random convolutions apply: to series of equal length, by aeon or sktime."""
    lengths = fold.inputs.lengths
    is_series = fold.task.kind == "vector" and lengths.min() == lengths.max()
    return is_series and fold.task.length >= SHORTEST_SERIES and mini_rocket() is not None


def mini_rocket() -> Any:
    """A MiniRocket of the library that is installed, aeon or sktime; None without both."""
    # Either may be there without what it needs for this, such as numba.
    with suppress(ImportError):
        package = import_module("aeon.transformations.collection.convolution_based")
        return package.MiniRocket(n_kernels=KERNELS, random_state=0)
    with suppress(ImportError):
        package = import_module("sktime.transformations.panel.rocket")
        return package.MiniRocketMultivariate(num_kernels=KERNELS, random_state=0)
    return None


def convolutions(fold: Fold, deadline: float) -> dict[str, Any]:
    """Ridge regression on the features of random convolutions (Dempster et al. 2021)."""
    transformer = mini_rocket()
    series = {
        split: fold.flat(split)
        .reshape(len(rows), fold.task.length, fold.task.dim)
        .swapaxes(1, 2)  # (N, D, T), as both libraries have it
        for split, rows in fold.rows.items()
    }
    features = {"train": np.asarray(transformer.fit_transform(series["train"]))}
    for split in ("valid", "test"):
        features[split] = np.asarray(transformer.transform(series[split]))
    kind = Ridge if fold.task.classes == 1 else RidgeClassifier
    models = [kind(alpha=penalty) for penalty in PENALTIES]
    return best_penalty(fold, features, models, deadline)


@usual_settings()
def probe(
    body: Body, spec: RunSpec, machine: Machine, fold: Fold, deadline: float
) -> dict[str, Any]:
    """Logistic or ridge regression on what the frozen backbone computes behind a random
    input net, so nothing but a linear model is fitted (paper, section 3.9). Late if it has
    not computed that by `deadline`."""
    place = devices.choose(machine.device)
    model, _, _ = assemble([spec], fold.task, place, body.architecture)
    model.compute_in(machine.precision, place.type)
    size = max(1, EVAL_TOKENS // fold.task.length)
    features = {}
    for split in fold.rows:
        batches = until(deadline, fold.task.eval_batches(split, size, place))
        features[split] = features_of(model, batches)[0].cpu().numpy()
    return best_penalty(fold, features, models_of(fold), deadline)


def models_of(fold: Fold) -> Sequence[Any]:
    """A linear model for each penalty."""
    if fold.task.classes == 1:
        return [Ridge(alpha=penalty) for penalty in PENALTIES]
    return [LogisticRegression(C=1 / penalty, max_iter=ITERATIONS) for penalty in PENALTIES]


def best_penalty(
    fold: Fold, features: Features, models: Sequence[Any], deadline: float
) -> dict[str, Any]:
    """The content of a result: of the models, that with the best validation score. At the
    `deadline`, a time of `time.monotonic()`, no further penalty is tried."""
    # Sparse features stay sparse, and are on one scale already.
    if isinstance(features["train"], np.ndarray):
        # In float64, since penalties reach far below the largest variance.
        features = {split: values.astype(float) for split, values in features.items()}
        scaler = StandardScaler().fit(features["train"])
        features = {split: scaler.transform(values) for split, values in features.items()}
    scores: list[float] = []
    # From the strongest, which converges soonest.
    models = models[::-1]
    for model in models:
        if scores and time.monotonic() > deadline:
            break
        with warnings.catch_warnings():
            # Validation judges a model that has not converged like any other.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features["train"], fold.targets("train"))
        answers = model.predict(features["valid"])
        scores.append(float(fold.correct("valid", answers).mean()))
    # Of equals, the weakest.
    best = max(range(len(scores)), key=lambda index: (scores[index], index))
    return {
        "correct": fold.correct("test", models[best].predict(features["test"])).tolist(),
        "valid_score": scores[best],
        "valid_loss": 0.0,
        "best_step": 0,
        "curve": [],
        "diverged": False,
    }
