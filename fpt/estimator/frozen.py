"""A frozen pretrained transformer for your own arrays, by scikit-learn's conventions.

The model, loop and packs are those of the reproduction (`fpt.training`): an input net, an
output net, the layer norms and the positions are trained around a frozen backbone (paper,
section 2).
"""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.utils.validation import check_is_fitted

from ..backbones import Backbone
from ..backbones.choice import choose
from ..backbones.initialisations import INITS
from ..errors import FptError, check_names
from ..isolation import usual_settings
from ..spec import RunSpec, canonical
from ..tasks.own import arrays, examples, inputs
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import Data
from ..tasks.sequences import Sequences
from ..training.flops import parameter_counts
from ..training.settings import SEED, SETTINGS, check_list, check_settings, check_value
from .fitted import Fitted, from_json, load_fitted, train

# What a fit learns from its data, beside the run: `save` writes it, `load` reads it.
LEARNED = (
    "classes_", "inputs_", "limits_", "moments_", "symbols_", "target_",
    "n_features_in_", "feature_names_in_",
)  # fmt: skip
Validation = float | tuple[Any, Any]


class FrozenEstimator(BaseEstimator):
    """What the classifier and the regressor share.

    Inputs are (N, T, D) numbers, tokens of D numbers; (N, T) integers, symbols; other (N,
    T) numbers, tokens of one number each; or a list of sequences of different lengths,
    whose padding is masked. `inputs_` says which they were taken for. Numbers are
    standardised over the training set for each of the D. New sequences may be longer, as
    long as the backbone takes them; a symbol that no training example has is read as the
    mean of all that were trained.

    Parameters
    ----------
    backbone : a name such as `nano`, `gpt2` or `smollm2-135m-instruct-q4_1`, a repository
        of the Hugging Face hub, `OWNER/REPO` or `OWNER/REPO@REVISION`, a folder that
        `save_pretrained` wrote, or a GGUF file; `NAME@L` is the first L layers of any; if a
        name means two of them, `./NAME` or `builtin:NAME`
    weights : others than its own, a repository as above or a local name
    init : `pretrained`, `random`, `statistics-tensor` or another of `fpt.backbones`
    trainable : the groups of parameters that are trained; all others stay frozen. A
        backbone with rotary positions, such as Llama, has no table and so no group
        `positions`, and one whose norms have no gains, such as OLMo, no `layernorm`
    lr, batch, steps, dropout : Adam's learning rate, sequences per step, steps, dropout
    eval_every, patience : steps between evaluations on held-out examples, which choose the
        parameters; evaluations without a better one before training ends (0: never)
    random_state : the seed of everything that is drawn
    device, progress : `auto`, `cpu` or `cuda`; whether to show a progress bar
    """

    def __init__(
        self,
        backbone: str = "nano",
        weights: str | None = None,
        init: str = "pretrained",
        trainable: Sequence[str] = ("input", "output", "layernorm", "positions"),
        lr: float = 0.003,
        batch: int = 128,
        steps: int = 1500,
        eval_every: int = 25,
        patience: int = 0,
        dropout: float = 0.1,
        random_state: int = 0,
        device: str = "auto",
        progress: bool = False,
    ) -> None:
        self.backbone = backbone
        self.weights = weights
        self.init = init
        self.trainable = trainable
        self.lr = lr
        self.batch = batch
        self.steps = steps
        self.eval_every = eval_every
        self.patience = patience
        self.dropout = dropout
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def fit(self, X: Any, y: Any, validation: Validation = 0.1) -> Self:
        """Train on X and y; `validation` is the share of examples to hold out, or a pair
        (X, y).

        y is (N,), or (N, T) with one answer per token. InputError (a ValueError) for wrong
        input, FptError for a name that is not known, missing weights, and a training that
        diverged.
        """
        # A copy learns from the data, so a fit that fails leaves this estimator as it was.
        scratch = clone(self)
        run = scratch._trained(X, y, validation)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit, whose data may have had other columns
        for name in LEARNED:
            if hasattr(scratch, name):
                setattr(self, name, getattr(scratch, name))
        self.fitted_ = run
        self.learning_curve_ = pd.DataFrame(run.curve)
        return self

    @usual_settings(gradients=True)
    def _trained(self, X: Any, y: Any, validation: Validation) -> Fitted:
        """The trained run; the attributes in `LEARNED` are set."""
        training, held_out = self._split(X, y, validation)
        task = examples.examples_task(
            {"train": training, "valid": held_out, "test": held_out},
            classes=len(self.classes_) if is_classifier(self) else 1,
            dim=self.limits_["dim"],
        )
        if self.progress:
            # Numbers that were taken for symbols are noticed before a long training.
            print(f"X was taken for {self.inputs_}.", file=sys.stderr)
        spec, architecture = self._run(task)
        return train(spec, architecture, task, self.device, self.progress)

    def _split(self, X: Any, y: Any, validation: Validation) -> tuple[Data, Data]:
        """Training and held-out examples; what the training set determines is set."""
        labelled = self._read(X, fitting=True), self._labels(y, fitting=True)
        if isinstance(validation, tuple | list) and len(validation) == 2:
            validation = self._read(validation[0]), self._labels(validation[1])
        seed = check_value("random_state", self.random_state, SEED)
        division = examples.divided(labelled, validation, seed)
        limits = labelled[0].limits
        self.limits_ = {**limits, "dim": division.dim}
        self.inputs_ = inputs.described(limits)
        self.moments_ = division.moments
        self.symbols_ = division.symbols
        return division.train, division.valid

    def _read(self, X: Any, fitting: bool = False) -> Sequences:
        """X as sequences; InputError if those of the fit were of another kind or width."""
        read = inputs.read_inputs(X, None if fitting else self.limits_)
        inputs.check_columns(self, X, read, fitting)
        if fitting:
            self.limits_ = read.limits
        return read

    def _run(self, task: examples.ExamplesTask) -> tuple[RunSpec, Backbone]:
        """The run of this estimator on `task`, and its backbone."""
        check_names("initialisation", [self.init], INITS)
        # A subclass may fix some settings, which then are not parameters of its own.
        values = {name: getattr(self, name) for name in SETTINGS if hasattr(self, name)}
        settings = check_settings("FrozenTransformer", values)
        # A data set may be smaller than a batch, and a fit shorter than `eval_every`.
        settings["batch"] = min(settings["batch"], task.sizes["train"])
        settings["eval_every"] = min(settings["eval_every"], settings["steps"])
        reads_weights = INITS[self.init].reads_weights
        architecture, weights = choose(self.backbone, self.weights, reads_weights)
        groups = {*check_list("FrozenTransformer.trainable", self.trainable)}
        # Defaults that the backbone lacks; if nothing else is left, an error names them.
        lacking = {"positions", "layernorm"} - {*architecture.groups}
        groups = groups - lacking or groups
        spec = RunSpec(
            data=canonical(task.identity),
            backbone=architecture.name,
            init=self.init,
            weights=weights if reads_weights else None,
            trainable=tuple(sorted(groups)),
            seed=check_value("random_state", self.random_state, SEED),
            augment=False,
            **settings,
        )
        return spec, architecture

    @usual_settings()
    def _logits(self, X: Any) -> Any:
        """(N, answers), or (N, T, answers) if there is an answer per token, a tensor."""
        check_is_fitted(self, "fitted_")
        sequences = self._read(X).prepared(self.moments_)
        logits = self.fitted_.logits(sequences, self.device, self.symbols_)
        return logits[:, 0] if self.fitted_.shapes["reads"] == 1 else logits

    def trainable_parameters(self) -> pd.DataFrame:
        """The groups of the fitted model: how many parameters each has, and whether it is
        trained."""
        check_is_fitted(self, "fitted_")
        groups = self.fitted_.spec.trainable
        counts = parameter_counts(self.fitted_.architecture, self.fitted_.task, groups)
        table = pd.DataFrame({"parameters": counts})
        return table.assign(trained=table.index.isin(groups))

    def save(self, folder: str | Path) -> None:
        """Write the trained parameters and a description, some hundred kB; the frozen
        parameters are named by identity and digest."""
        check_is_fitted(self, "fitted_")
        values = vars(self)
        learned = {name: values[name] for name in LEARNED if values.get(name) is not None}
        description = {"estimator": self.get_params(), "learned": learned}
        self.fitted_.save(Path(folder), description)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """What `save` wrote. FptError if it is missing or damaged, or if the weights of the
        backbone are others than those that it was trained on."""
        fitted, description = load_fitted(Path(folder))
        estimator = cls(**description["estimator"])
        estimator.trainable = tuple(estimator.trainable)  # JSON has lists alone
        if is_classifier(estimator) is (fitted.shapes["classes"] == 1):
            raise FptError(
                f"{folder} is not a {cls.__name__}; load it with the class that saved it."
            )
        estimator.moments_ = estimator.symbols_ = estimator.target_ = None
        for name, value in description["learned"].items():
            setattr(estimator, name, from_json(value))
        estimator.fitted_ = fitted
        estimator.learning_curve_ = pd.DataFrame(fitted.curve)
        return estimator

    @abstractmethod
    def _labels(self, y: Any, fitting: bool = False) -> np.ndarray:
        """y as (N, R) targets; InputError if it does not fit."""


class FrozenTransformer(ClassifierMixin, FrozenEstimator):
    __doc__ = f"A classifier on a frozen pretrained transformer. {FrozenEstimator.__doc__}"

    def _labels(self, y: Any, fitting: bool = False) -> np.ndarray:
        y = arrays.labels(y)
        if fitting:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise InputError(f"y has one class, {y.flat[0]}; it needs at least two.")
        if unseen := sorted({*y.ravel().tolist()} - {*self.classes_.tolist()}, key=str):
            raise InputError(f"The label {unseen[0]!r} is not among those of the fit.")
        # Of two types of integers NumPy would compare floats, which merge large ones.
        y = y.astype(self.classes_.dtype)
        return np.searchsorted(self.classes_, y).reshape(len(y), -1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, classes), or (N, T, classes) if there is an answer per token."""
        return self._logits(X).softmax(-1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class: (N,), or (N, T)."""
        likeliest = self.predict_proba(X).argmax(-1)
        return self.classes_[likeliest]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy."""
        predictions = self.predict(X)
        y = arrays.labels(y)
        arrays.check_comparable(y, predictions)
        if predictions.shape != y.shape:
            raise InputError(
                f"y has the shape {y.shape}, and the predictions {predictions.shape}."
            )
        return float(np.average(predictions == y, axis=0, weights=sample_weight).mean())


class FrozenTransformerRegressor(RegressorMixin, FrozenEstimator):
    __doc__ = f"A regression on a frozen pretrained transformer. {FrozenEstimator.__doc__}"

    def _labels(self, y: Any, fitting: bool = False) -> np.ndarray:
        y = arrays.targets(y)
        return y.reshape(len(y), -1)

    def _split(self, X: Any, y: Any, validation: Validation) -> tuple[Data, Data]:
        training, held_out = super()._split(X, y, validation)
        numbers = training[1]
        # Of the training examples alone, as the moments of X.
        self.target_ = float(numbers.mean()), float(numbers.std()) or 1.0
        return self._standardised(training), self._standardised(held_out)

    def _standardised(self, data: Data) -> Data:
        sequences, numbers = data
        mean, scale = self.target_
        return sequences, ((numbers - mean) / scale).astype(np.float32)

    def predict(self, X: Any) -> np.ndarray:
        """The expected number: (N,), or (N, T)."""
        numbers: np.ndarray = self._logits(X)[..., 0].double().numpy()
        return numbers * self.target_[1] + self.target_[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions."""
        return float(super().score(X, arrays.targets(y), sample_weight))
