"""A user's arrays as the folds of an audit: training, validation and test examples of each.

Validation examples choose rates, penalties and steps; the test examples are read once a
run, for what was chosen. All that is computed from the data, such as moments, is computed
from the training examples of a fold alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any
from zipfile import BadZipFile  # noqa: TID251 - nothing is unpacked

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedShuffleSplit,
    check_cv,
)

from ..errors import FptError
from ..tasks.own import arrays, columns
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import ExamplesTask, check_paired, examples_task
from ..tasks.own.inputs import read_inputs
from ..tasks.sequences import Sequences

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.15
FEWEST_EXAMPLES = 20
Splits = Iterable[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Fold:
    """One division of the examples: the task that nets are trained on, and the rows (N,) of
    its training, validation and test examples."""

    task: ExamplesTask
    inputs: Sequences
    rows: dict[str, np.ndarray]

    def targets(self, split: str) -> np.ndarray:
        """(N,) indices of classes, or standardised numbers of a regression."""
        labels: np.ndarray = self.task.splits[split][1][:, 0]
        return labels

    def flat(self, split: str) -> Any:
        """The tokens of each example as one row of numbers: vectors end to end, or symbols
        one-hot as a sparse matrix; zeros where a sequence is shorter than the longest."""
        sequences = self.task.splits[split][0]
        count, length, width = len(sequences), self.task.length, self.task.dim
        example = np.repeat(np.arange(count), sequences.lengths)
        place = np.concatenate([np.arange(tokens) for tokens in sequences.lengths])
        if self.task.kind == "token":
            columns = place * width + sequences.values.reshape(-1).astype(int)
            ones = np.ones(len(columns), np.float32)
            return sparse.csr_array(
                (ones, (example, columns)), shape=(count, length * width)
            )
        rows = np.zeros((count, length, width), np.float32)
        rows[example, place] = sequences.values.reshape(-1, width)
        return rows.reshape(count, -1)

    def correct(self, split: str, answers: Any) -> np.ndarray:
        """(N,): how right the answers are, as nets are scored: 1 for the right class, or 1
        minus the squared error."""
        targets = self.targets(split)
        if self.task.classes == 1:
            scores: np.ndarray = 1 - (answers - targets) ** 2
            return scores
        return (answers == targets).astype(float)

    def guesses(self, split: str) -> np.ndarray:
        """(N,): the scores of the best constant answer by the training examples."""
        if self.task.classes == 1:
            return self.correct(split, 0)  # the mean of standardised targets
        return self.correct(split, np.bincount(self.targets("train")).argmax())


@dataclass(frozen=True)
class Examples:
    """What a user gave: sequences, targets (N,), names of the classes (None for a
    regression), and the group (N,) that each example belongs to, if there are any."""

    inputs: Sequences
    targets: np.ndarray
    classes: np.ndarray | None
    groups: np.ndarray | None


def read_file(path: Path, target: str) -> tuple[Any, Any, Any]:
    """X, y and groups (None if there are none) of an .npz file, or of a table whose column
    `target` is predicted. FptError if they cannot be read."""
    if path.suffix != ".npz":
        return *columns(path.stem, path, target), None
    try:
        # Pickles, which could execute code, are refused.
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251
            return file["X"], file["y"], file.get("groups")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise FptError(f"The arrays X and y of {path} cannot be read ({error}).") from error


def read_examples(X: Any, y: Any, groups: Any, task: str) -> Examples:
    """X and y as `fpt.FrozenTransformer` reads them, one answer for each sequence. `task`
    is `classification`, `regression`, or `auto`: a regression if y holds numbers that are
    not whole. InputError for what does not fit."""
    inputs = read_inputs(X)
    # Scores of the tokens of one sequence depend on each other, so intervals would be too
    # narrow.
    answers = arrays.answers(y)
    if answers.ndim != 1:
        raise InputError(
            "An audit compares one answer for each sequence, so y should be (N,)."
        )
    if task == "auto":
        is_real = answers.dtype.kind == "f" and bool((answers % 1 != 0).any())
        task = "regression" if is_real else "classification"
    classes = None
    if task == "regression":
        targets = arrays.targets(y)
    else:
        classes, targets = np.unique(arrays.labels(y), return_inverse=True)
        if len(classes) < 2:
            raise InputError("y has one class; an audit needs at least two.")
    check_paired(inputs, targets[:, None])
    if len(inputs) < FEWEST_EXAMPLES:
        raise InputError(
            f"An audit needs at least {FEWEST_EXAMPLES} examples, not {len(inputs)}."
        )
    members = None
    if groups is not None:
        members = pd.factorize(arrays.array("groups", groups))[0]
        if members.shape != (len(inputs),):
            raise InputError(f"groups should be ({len(inputs)},), one for each example.")
    return Examples(inputs, targets, classes, members)


def folds_of(examples: Examples, cv: Any, validation: float, seed: int) -> list[Fold]:
    """The folds of an audit. `cv` is None for one test set of 20%, or as in scikit-learn: a
    number of folds, a splitter, or pairs of rows (training, test). Groups are never
    divided."""
    folds = []
    for training, test in test_splits(examples, cv, seed):
        kept, validating = next(held_out(examples, training, validation, seed))
        rows = {"train": training[kept], "valid": training[validating], "test": test}
        folds.append(fold_of(examples, rows))
    return folds


def test_splits(examples: Examples, cv: Any, seed: int) -> Splits:
    """Rows to train on and rows to test on, for each fold."""
    every_row = np.arange(len(examples.inputs))
    if cv is None:
        return held_out(examples, every_row, TEST_SHARE, seed)
    is_classification = examples.classes is not None
    try:
        splitter: Any = check_cv(cv, examples.targets, classifier=is_classification)
        if isinstance(cv, Integral) and examples.groups is not None:
            splitter = StratifiedGroupKFold(cv) if is_classification else GroupKFold(cv)
        splits = splitter.split(every_row, examples.targets, examples.groups)
        # A reader's rows may be lists, masks or columns of a table.
        return [
            (every_row[np.asarray(training)], every_row[np.asarray(test)])
            for training, test in splits
        ]
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"These folds cannot be made: {error}".rstrip(".") + "."
        ) from error


def held_out(
    examples: Examples, rows: np.ndarray, share: float, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One division of `rows`, as places in them: groups stay together, and classes have
    about their share in both parts if there are enough of each."""
    targets = examples.targets[rows]
    splitter: Any = ShuffleSplit(1, test_size=share, random_state=seed)
    members = None
    # A group on both sides would let a net recognise it in place of learning the task.
    if examples.groups is not None:
        members = examples.groups[rows]
        splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
    elif examples.classes is not None:
        sizes = np.bincount(targets)
        if sizes[sizes > 0].min() > 1 and share * len(rows) >= len(sizes):
            splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    try:
        yield from splitter.split(rows, targets, members)
    except ValueError as error:
        raise InputError(
            f"A share of {share} cannot be held out: {error}".rstrip(".") + "."
        ) from error


def fold_of(examples: Examples, rows: dict[str, np.ndarray]) -> Fold:
    """The task of one division. Targets of a regression are standardised by the training
    ones."""
    inputs = examples.inputs
    # Moments of all examples would let the test examples leak into the training.
    moments = inputs.moments(rows["train"]) if inputs.kind == "vector" else None
    targets = examples.targets
    if examples.classes is None:
        training = targets[rows["train"]]
        targets = ((targets - training.mean()) / (training.std() or 1.0)).astype(np.float32)
    splits = {
        split: (inputs.prepared(chosen, moments), targets[chosen][:, None])
        for split, chosen in rows.items()
    }
    count = 1 if examples.classes is None else len(examples.classes)
    task = examples_task(splits, count, inputs.limits["dim"], "audit")
    return Fold(task, inputs, rows)
