"""A user's arrays, or a file of them, as the examples of an audit, in three parts.

Validation examples choose rates, steps and penalties. Test examples are read once a run,
for what was chosen; a search never holds them. Groups are never divided.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target

from ..errors import FptError, check_names
from ..tasks.own import columns
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import ExamplesTask, divided_task
from ..tasks.own.inputs import described, read_inputs

NAME = "audit"  # of the task, by which the schema of records knows a regression
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.2  # of what is left
FEWEST_OF_A_CLASS = 4  # on average; whole numbers that come again less often are no labels


@dataclass(frozen=True)
class Examples:
    """What a user gave, divided: what X and y were taken for; the task that nets are
    trained on; the one of a search, whose test set is the validation set; and the group
    (M,) of each test example, which may be its own."""

    taken: str
    task: ExamplesTask
    search: ExamplesTask
    groups: np.ndarray

    @property
    def copies(self) -> int:
        """How many test examples have the very tokens of a training example."""
        train, test = (self.task.splits[split][0] for split in ("train", "test"))
        memory = {*map(bytes, train)}
        return sum(tokens in memory for tokens in map(bytes, test))


def read_file(path: Path, target: str) -> tuple[Any, Any, Any]:
    """X, y and groups (None if there are none) of an .npz file, or of a table whose column
    `target` is predicted. FptError if they cannot be read."""
    if path.suffix.lower() != ".npz":
        return *columns(path.stem, path, target), None
    try:
        # Pickles, which could execute code, are refused.
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251
            content = dict(file)
    except Exception as error:  # whatever NumPy raises of a damaged file
        raise FptError(f"The arrays of {path} cannot be read ({error}).") from error
    # Groups under another name would be ignored, and divided.
    if not {"X", "y"} <= {*content} <= {"X", "y", "groups"}:
        raise FptError(f"{path} holds {', '.join(content)}, not X, y and maybe groups.")
    return content["X"], content["y"], content.get("groups")


def read_examples(
    X: Any, y: Any, groups: Any = None, task: str = "auto", test: Any = None, seed: int = 0
) -> Examples:
    """X as `fpt.FrozenTransformer` reads it, with one answer for each sequence, divided.
    `task` is `auto`: a regression if y holds numbers that are not whole. `test` are the
    rows of the test set; None: a random fifth. InputError for what does not fit."""
    check_names("task", [task], ("auto", "classification", "regression"))
    try:
        inputs = read_inputs(X)
        answers, classes = read_answers(column_or_1d(y), task)
        groups = np.arange(len(answers)) if groups is None else column_or_1d(groups)
        check_consistent_length(inputs, answers, groups)
        members = pd.factorize(groups)[0]
        rows = divided(answers, members, test, seed)
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"{str(error).rstrip('.')}.") from error
    if classes == 1:
        training = answers[rows["train"]]
        answers = ((answers - training.mean()) / training.std()).astype(np.float32)
    kind = f"{classes} classes" if classes > 1 else "numbers to predict"
    labelled = (inputs, answers[:, None])
    return Examples(
        f"X was taken for {described(inputs.limits)}, and y for {kind}.",
        divided_task(labelled, rows, classes, NAME),
        divided_task(labelled, {**rows, "test": rows["valid"]}, classes, NAME),
        np.unique(members[rows["test"]], return_inverse=True)[1],
    )


def read_answers(y: np.ndarray, task: str) -> tuple[np.ndarray, int]:
    """y as numbers of classes and their count, or as floats and 1. ValueError for labels
    of which there is one class, or that hardly ever come again."""
    if pd.isna(y).any():
        raise ValueError("y has missing values; leave these examples out")
    if task == "regression" or (task == "auto" and type_of_target(y) == "continuous"):
        numbers = y.astype(float)
        assert_all_finite(numbers, input_name="y")
        return numbers, 1
    labels, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if len(labels) < 2 or sizes.mean() < FEWEST_OF_A_CLASS:
        raise ValueError(
            f"y has {len(labels)} different values for {len(y)} examples; give two classes "
            f"or more, of {FEWEST_OF_A_CLASS} examples on average, or say that they are "
            "numbers to predict (task='regression')"
        )
    return codes, len(labels)


def divided(
    y: np.ndarray, groups: np.ndarray, test: Any, seed: int
) -> dict[str, np.ndarray]:
    """The rows of each part. ValueError if a part has too little."""
    every = np.arange(len(y))
    if test is None:
        kept, test = held_out(every, TEST_SHARE, groups, seed)
    else:
        test = np.unique(every[np.asarray(test)])
        kept = np.setdiff1d(every, test)
    training, valid = held_out(kept, VALIDATION_SHARE, groups, seed)
    if np.isin(groups[kept], groups[test]).any() or 0 in map(
        np.ptp, (groups[test], y[test], y[training])
    ):
        raise ValueError(
            "a test set is of whole groups, two or more, and has two answers or more, as "
            "the training set has; give more examples or groups, or their rows as test"
        )
    return {"train": training, "valid": valid, "test": test}


def held_out(
    rows: np.ndarray, share: float, groups: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and a share to evaluate on, in random order: an evaluation may read
    the first of them."""
    splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
    training, evaluation = next(splitter.split(rows, groups=groups[rows]))
    return rows[training], np.random.default_rng(seed).permutation(rows[evaluation])
