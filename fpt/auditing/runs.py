"""The runs of an audit: arms, rates and seeds on one task, trained by the sweep and kept in
a store.

Each arm tries its grid of rates with a seed that is not reported, on a task whose test set
is the validation set. Then its best rate is trained with every seed, and tested.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.numpy import load
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ..backbones import Backbone
from ..backbones.initialisations import INITS
from ..names import ARMS
from ..records import Record, Store
from ..spec import RunSpec, canonical
from ..tasks import Task, in_memory
from ..tasks.own.examples import ExamplesTask
from ..training import sweep
from ..training.evaluation import scores
from ..training.model import Model
from .data import Examples

LANGUAGE, FULL, BARE = "language", "fully trained", "no transformer"
LINEAR, TRIVIAL = "linear", "trivial rule"
DEFAULT = "model's default"
# Bodies without the content of the weights, from the simplest.
BODIES = ("N(0, 0.02)", DEFAULT, "same scale", "same mean and sd")
TRAINED = (LANGUAGE, *reversed(BODIES), FULL, BARE)
RATES = (0.001, 0.003, 0.01, 0.03)
RATES_OF_FULL = (0.0001, 0.0003, 0.001, 0.003)  # what trains a whole network wants less
WARMUP = 0.1  # of the steps of a fully trained network
SEARCH_SEED = 1_000_000  # none of the reported runs has it
EVALUATIONS = 10  # of each run, on `EVALUATED` validation examples at most
EVALUATED = 256
PENALTIES = np.logspace(3, -3, 7)
Records = Mapping[str, Sequence[Record]]  # by arm


@dataclass(frozen=True)
class Experiment:
    """Arms on a body with its pretrained weights, and what their runs share."""

    examples: Examples
    body: Backbone
    weights: str
    settings: Mapping[str, Any]  # of `fpt.audit`
    seeds: range  # of the reported runs
    store: Store
    options: Mapping[str, Any]  # of `fpt.training.sweep.run`

    def body_of(self, arm: str) -> Backbone:
        """What stands between the nets of an arm."""
        if arm != BARE:
            return self.body
        # As wide as the model, so that the output net reads as many numbers.
        family, width = ARMS[arm].backbone, self.body.width
        return Backbone(f"{family}-{width}", family, 0, width)

    def spec(self, task: Task, arm: str, rate: float, seed: int) -> RunSpec:
        """One run; a body that is drawn is drawn anew for each seed."""
        row = ARMS[arm]
        body = self.body_of(arm)
        steps = self.settings["steps"]
        return RunSpec(
            data=canonical(task.identity),
            backbone=body.name,
            init=row.init,
            weights=self.weights if INITS[row.init].reads_weights else None,
            trainable=row.groups(body),
            lr=rate,
            batch=min(self.settings["batch"], task.sizes["train"]),
            steps=steps,
            eval_every=max(1, steps // EVALUATIONS),
            eval_items=min(EVALUATED, task.sizes["valid"]),
            seed=seed,
            # The same for all arms, and one difference less from a linear model.
            dropout=0.0,
            warmup=round(WARMUP * steps) if arm == FULL else 0,
        )

    def train(
        self,
        task: Task,
        rates: Mapping[str, Sequence[float]],
        seeds: Sequence[int],
        end: float,
    ) -> Records:
        """By arm the records at its rates with some seeds, after training what is missing
        until `end`, a time of `time.monotonic()`."""
        specs = {
            self.spec(task, arm, rate, seed): arm
            for arm, of_arm in rates.items()
            for rate in of_arm
            for seed in seeds
        }
        arms = {spec.key: arm for spec, arm in specs.items()}
        with in_memory(task):
            sweep.run(
                specs,
                self.store,
                budget=end - time.monotonic(),
                sections=arms,
                titles=arms,
                keep=arms,
                metrics=tested_each,
                backbones={body.name: body for body in map(self.body_of, TRAINED)},
                **self.options,
            )
        records = self.store.read_all(arms, arms)
        return {
            arm: [records[key] for key in arms if arms[key] == arm and key in records]
            for arm in rates
        }

    def run(
        self, rivals: Mapping[str, Any], minutes: float
    ) -> tuple[Records, dict[str, pd.DataFrame], list[str]]:
        """Everything, for `minutes` at most, half of them for the search: by arm the
        records, and the score of each test example as (seeds, examples), an estimator's the
        same for each seed; and sentences on what the time did not allow."""
        begin = time.monotonic()
        # Estimators cost seconds and may settle the matter, so they come first.
        of_estimators = {
            name: pd.DataFrame([of_test] * len(self.seeds), self.seeds)
            for name, of_test in estimated(self.examples, rivals)
        }
        # Built-in families have no default of their own.
        has_default = self.body.family == "generic"
        grid = {
            arm: RATES_OF_FULL if arm == FULL else RATES
            for arm in TRAINED
            if arm != DEFAULT or has_default
        }
        first = SEARCH_SEED + self.seeds[0]
        tried = self.train(self.examples.search, grid, [first], begin + 30 * minutes)
        rates = {
            arm: [max(of_arm, key=on_validation).spec.lr]
            for arm, of_arm in tried.items()
            if len(of_arm) == len(RATES)
        }
        end = begin + 60 * minutes
        records = self.train(self.examples.task, rates, self.seeds, end)
        of_arms = {
            arm: pd.DataFrame(
                [load(self.store.parameters(r) or b"")["scores"] for r in of_arm],
                [r.spec.seed for r in of_arm],
                dtype=float,
            )
            for arm, of_arm in records.items()
            if of_arm
        }
        cuts = [
            f"“{arm}”: {len(records.get(arm, ()))} of {len(self.seeds)} seeds were trained."
            for arm in grid
            if len(records.get(arm, ())) < len(self.seeds)
        ]
        return records, of_arms | of_estimators, cuts


def on_validation(record: Record) -> tuple[bool, float]:
    """What the best of some runs has most of; one that diverged comes last."""
    return record.status == "done", record.metrics["valid_accuracy"]


def tested_each(model: Model, spec: RunSpec) -> list[dict[str, Any]]:
    """The metrics of a record, with the score of each test example. A run whose answers
    are no numbers is wrong."""
    parts = [batch["accuracy"][..., 0].float().cpu() for batch in scores(model, "test")]
    by_run = torch.cat(parts, 1).nan_to_num()
    return [
        {"test_accuracy": of_run.double().mean().item(), "scores": of_run.tolist()}
        for of_run in by_run
    ]


# ------------------------------------------------------------------------------ estimators


def estimated(
    examples: Examples, rivals: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """What is not trained by gradients, with the score of each test example: the trivial
    rule, a linear model whose penalty validation chooses, and a user's estimators, all of
    the tokens end to end."""
    task = examples.task
    train, valid, test = (flat(task, split) for split in ("train", "valid", "test"))
    trivial = DummyClassifier()
    linear = [LogisticRegression(C=1 / penalty, max_iter=300) for penalty in PENALTIES]
    if task.classes == 1:
        trivial = DummyRegressor()
        linear = [Ridge(penalty) for penalty in PENALTIES]
    is_token = task.kind == "token"
    code = OneHotEncoder(handle_unknown="ignore") if is_token else StandardScaler()
    candidates = {
        TRIVIAL: [trivial],
        LINEAR: [make_pipeline(code, model) for model in linear],
        **{name: [rival] for name, rival in rivals.items()},
    }
    for name, models in candidates.items():
        fits = [clone(model).fit(*train) for model in models]
        # Of equals, the first, which has the strongest penalty.
        best = max(fits, key=lambda model: model.score(*valid))
        tokens, expected = test
        answers = best.predict(tokens).reshape(len(expected))
        errors = answers != expected if task.classes > 1 else (answers - expected) ** 2
        yield name, 1.0 - errors


def flat(task: ExamplesTask, split: str) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of each example, (N, T * D) standardised numbers or (N, T) symbols, -1
    where a sequence is shorter than the longest; and the answers (N,)."""
    sequences, labels = task.splits[split]
    is_real = np.arange(task.length) < sequences.lengths[:, None]
    rows = np.full((*is_real.shape, *sequences.tokens.shape[1:]), -1.0)
    rows[is_real] = sequences.tokens
    return rows.reshape(len(rows), -1), labels[:, 0]
