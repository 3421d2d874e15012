"""The examples of an audit as its folds: training, validation and test examples of each.

Validation examples choose rates, penalties and steps; the test examples are read once a
run, for what was chosen. All that is computed from the data, such as moments, is computed
from the training examples of a fold alone.
"""

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedShuffleSplit,
    check_cv,
)

from ..tasks.own.arrays import InputError
from ..tasks.own.examples import ExamplesTask, divided_task
from ..tasks.sequences import Sequences
from .data import Examples
from .verdict import TestExamples

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.15
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
            columns = place * width + sequences.tokens.astype(int)
            ones = np.ones(len(columns), np.float32)
            return sparse.csr_array(
                (ones, (example, columns)), shape=(count, length * width)
            )
        rows = np.zeros((count, length, width), np.float32)
        rows[example, place] = sequences.tokens
        return rows.reshape(count, -1)

    def correct(self, split: str, answers: Any) -> np.ndarray:
        """(N,): how right the answers are, as nets are scored: 1 for the right class, or 1
        minus the squared error in units of the training variance."""
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


def constant_score(folds: Sequence[Fold], split: str) -> float:
    """The mean score of the best constant answer on a split of all folds."""
    return float(np.concatenate([fold.guesses(split) for fold in folds]).mean())


def test_examples(examples: Examples, folds: Sequence[Fold]) -> TestExamples:
    """The test examples of all folds, one after the other. Those of a group are not
    independent, and an example that is tested twice is no second one. InputError if none
    are independent."""
    rows = np.concatenate([fold.rows["test"] for fold in folds])
    # A constant would leave no variance for R² to explain.
    if np.ptp(examples.targets[rows]) == 0:
        raise InputError(
            f"All test examples have one answer{rarest(examples)}; shuffle the examples, "
            "or choose other folds or another random_state."
        )
    names = rows if examples.groups is None else examples.groups[rows]
    units: np.ndarray = np.unique(names, return_inverse=True)[1]
    if np.ptp(units) == 0:
        raise InputError(
            "All test examples are of one group, and nothing tells how others would do; "
            "give cv, such as cv=5, or more groups."
        )
    return TestExamples(units, examples.classes is not None)


def rarest(examples: Examples) -> str:
    """`, and class b has 2 of 120 examples`: a class of few cannot be in each part."""
    if examples.classes is None:
        return ""
    sizes = np.bincount(examples.targets)
    name = examples.classes[sizes.argmin()]
    return f", and class {name} has {sizes.min()} of {len(examples.targets)} examples"


def folds_of(examples: Examples, cv: Any, validation: float, seed: int) -> list[Fold]:
    """The folds of an audit. `cv` is None for one test set of 20%, or as in scikit-learn: a
    number of folds, a splitter, or pairs of rows (training, test). Groups are never
    divided."""
    folds: list[Fold] = []
    for training, test in test_splits(examples, cv, seed):
        check_apart(examples, training, test)
        kept, validating = next(held_out(examples, training, validation, seed))
        # Groups are held out in the order of the file, and an evaluation reads the first
        # examples, which may be of one class.
        if examples.groups is not None:
            validating = np.random.default_rng(seed).permutation(validating)
        rows = {"train": training[kept], "valid": training[validating], "test": test}
        if np.ptp(examples.targets[rows["train"]]) == 0:
            raise InputError(
                f"The training examples of fold {len(folds) + 1} have one answer; shuffle "
                "the examples, or choose other folds or another random_state."
            )
        folds.append(fold_of(examples, rows))
    if not folds:
        raise InputError("cv gives no folds.")
    return folds


def check_apart(examples: Examples, training: np.ndarray, test: np.ndarray) -> None:
    """InputError if a fold has no training or test examples, or if a row or a group is in
    both."""
    if not len(training) or not len(test):
        raise InputError("A fold of cv has no training examples or no test examples.")
    if np.intersect1d(training, test).size:
        raise InputError("A fold of cv tests rows that it trains on.")
    # Their copies would be among the validation examples.
    if len(np.unique(training)) < len(training):
        raise InputError("A fold of cv trains on a row twice.")
    groups = examples.groups
    # A reader who gives groups wants new ones in the test.
    if groups is not None and np.intersect1d(groups[training], groups[test]).size:
        raise InputError(
            "A fold of cv has a group among its training and its test examples; take "
            "GroupKFold, StratifiedGroupKFold or LeaveOneGroupOut."
        )


def test_splits(examples: Examples, cv: Any, seed: int) -> Splits:
    """Rows to train on and rows to test on, for each fold."""
    every_row = np.arange(len(examples.inputs))
    if cv is None:
        return held_out(examples, every_row, TEST_SHARE, seed)
    is_classification = examples.classes is not None
    try:
        splitter: Any = check_cv(cv, examples.targets, classifier=is_classification)
        # Else the same call again would have other folds, and train all runs anew.
        if getattr(splitter, "random_state", 0) is None:
            splitter = copy.copy(splitter)
            splitter.random_state = seed
        if isinstance(cv, Integral) and examples.groups is not None:
            splitter = StratifiedGroupKFold(cv) if is_classification else GroupKFold(cv)
        with warnings.catch_warnings():
            # It may say that it ignores groups; `check_apart` looks whether that matters.
            warnings.simplefilter("ignore", UserWarning)
            splits = list(splitter.split(every_row, examples.targets, examples.groups))
        return [
            (row_numbers(every_row, training), row_numbers(every_row, test))
            for training, test in splits
        ]
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"These folds cannot be made: {error}".rstrip(".") + "."
        ) from error


def row_numbers(every_row: np.ndarray, rows: Any) -> np.ndarray:
    """A reader's rows, which may be a list, a mask or a column of a table, as numbers."""
    return every_row[np.asarray(rows) if len(rows) else []]  # an empty list has no type


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
    targets = examples.targets
    if examples.classes is None:
        training = targets[rows["train"]]
        targets = ((targets - training.mean()) / training.std()).astype(np.float32)
    count = 1 if examples.classes is None else len(examples.classes)
    task = divided_task((examples.inputs, targets[:, None]), rows, count, "audit")
    return Fold(task, examples.inputs, rows)
