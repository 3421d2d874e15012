"""A frozen pretrained transformer for your own arrays, by scikit-learn's conventions.

The model, loop and packs are those of the reproduction (`fpt.training`): an input net, an
output net, the layer norms and the positions are trained around a frozen backbone (paper,
section 2).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backbones import Backbone
from ..backbones.choice import choose
from ..backbones.initialisations import INITS
from ..errors import check_names
from ..isolation import usual_settings
from ..spec import RunSpec, canonical
from ..tasks.own import arrays, examples, inputs
from ..tasks.own.arrays import InputError
from ..tasks.sequences import Sequences
from ..training.flops import parameter_counts
from ..training.settings import SEED, SETTINGS, check_list, check_settings, check_value
from .fitted import load_fitted, train

TASKS = ("classification", "regression")


@dataclass(eq=False, repr=False)
class FrozenTransformer(ClassifierMixin, RegressorMixin, BaseEstimator):
    """A classifier or a regression on a frozen pretrained transformer.

    Inputs are (N, T, D) numbers, tokens of D numbers; (N, T) integers, symbols; other (N,
    T) numbers, tokens of one number each; or a list of sequences of different lengths,
    whose padding is masked. `inputs_` says which they were taken for. Numbers are
    standardised over the training set for each of the D. New sequences may be shorter, but
    not longer than those of the fit, and have none but its symbols.

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
    task : `classification`, or `regression` for numbers to predict
    """

    backbone: str = "nano"
    weights: str | None = None
    init: str = "pretrained"
    trainable: Sequence[str] = ("input", "output", "layernorm", "positions")
    lr: float = 0.003
    batch: int = 128
    steps: int = 1500
    eval_every: int = 25
    patience: int = 0
    dropout: float = 0.1
    random_state: int = 0
    device: str = "auto"
    progress: bool = False
    task: str = "classification"

    @property
    def is_regression(self) -> bool:
        """Whether numbers are predicted."""
        return self.task == "regression"

    def __sklearn_tags__(self) -> Any:
        # Those of both mixins.
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.is_regression else "classifier"
        return tags

    @usual_settings(gradients=True)
    def fit(self, X: Any, y: Any, validation: Any = 0.1) -> Self:
        """Train on X and y (N,); `validation` is the share of examples to hold out, or
        their rows.

        InputError (a ValueError) for wrong input, FptError for a name that is not known,
        missing weights, and a training that diverged.
        """
        # An earlier fit may have had other columns, and this one may fail.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        check_names("task", [self.task], TASKS)
        seed = check_value("random_state", self.random_state, SEED)
        sequences = self._read(X, fitting=True)
        self.inputs_ = inputs.described(self.limits_)
        if self.is_regression:
            answers, classes = arrays.targets(y), 1
        else:
            self.classes_, answers = np.unique(arrays.labels(y), return_inverse=True)
            classes = len(self.classes_)
            if classes < 2:
                raise InputError("y has one class, and a fit needs at least two.")
        examples.check_paired(sequences, answers)
        rows, held_rows = examples.hold_out(answers, validation, seed)
        # Of the training examples alone, or the held-out ones would leak into them.
        self.moments_ = sequences.chosen(rows).moments()
        if self.is_regression:
            mean, scale = self.target_ = answers[rows].mean(), answers[rows].std() or 1.0
            answers = ((answers - mean) / scale).astype(np.float32)
        splits = {"train": rows, "valid": held_rows, "test": held_rows}
        labelled = sequences, answers[:, None]
        task = examples.divided_task(labelled, splits, classes, "examples")
        if self.progress:
            # Numbers that were taken for symbols are noticed before a long training.
            print(f"X was taken for {self.inputs_}.", file=sys.stderr)
        spec, architecture = self._run(task, seed)
        self.fitted_ = train(spec, architecture, task, self.device, self.progress)
        return self

    @property
    def learning_curve_(self) -> pd.DataFrame:
        """A row for each evaluation on held-out examples."""
        return pd.DataFrame(self.fitted_.curve)

    def _read(self, X: Any, fitting: bool = False) -> Sequences:
        """X as sequences; InputError if the fit has not seen such ones."""
        if len(getattr(X, "shape", ())) == 2:
            # The names of a table's columns, and how many there are.
            validate_data(self, X, reset=fitting, skip_check_array=True)
        read = inputs.read_inputs(X, None if fitting else self.limits_)
        if fitting:
            self.limits_: dict[str, Any] = read.limits
            self.symbols_ = np.unique(read.tokens) if read.kind == "token" else None
        elif self.symbols_ is not None:
            unseen = np.setdiff1d(read.tokens, self.symbols_)
            if len(unseen):
                raise InputError(
                    f"X has the symbol {unseen[0]}, which the fit has not seen; give one "
                    "that it has in its place, or fit again with examples of it."
                )
        return read

    def _run(self, task: examples.ExamplesTask, seed: int) -> tuple[RunSpec, Backbone]:
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
        spec = RunSpec(
            data=canonical(task.identity),
            backbone=architecture.name,
            init=self.init,
            weights=weights if reads_weights else None,
            trainable=tuple(sorted(groups - lacking or groups)),
            seed=seed,
            augment=False,
            **settings,
        )
        return spec, architecture

    @usual_settings()
    def _logits(self, X: Any) -> Any:
        """(N, answers), a tensor."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.logits(self._read(X).prepared(self.moments_), self.device)

    @available_if(lambda estimator: not estimator.is_regression)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, (N, classes)."""
        return self._logits(X).softmax(-1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class or the expected number, (N,)."""
        logits = self._logits(X)
        if self.is_regression:
            mean, scale = self.target_
            return logits[:, 0].double().numpy() * scale + mean
        return self.classes_[logits.argmax(-1).numpy()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy, or R² of a regression."""
        mixin = RegressorMixin if self.is_regression else ClassifierMixin
        return float(mixin.score(self, X, arrays.answers(y), sample_weight))

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
        attributes = vars(self).copy()
        attributes.pop("fitted_").save(Path(folder), attributes)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """What `save` wrote. FptError if it is missing or damaged, or if the weights of the
        backbone are others than those that it was trained on."""
        estimator = cls()
        estimator.fitted_, attributes = load_fitted(Path(folder))
        estimator.__dict__.update(attributes)
        if "classes_" in attributes:
            estimator.classes_ = np.array(attributes["classes_"])
        return estimator
