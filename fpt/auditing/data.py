"""A user's arrays, or a file of them, as the examples of an audit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import FptError
from ..tasks.own import arrays, columns
from ..tasks.own.arrays import InputError
from ..tasks.own.examples import check_paired
from ..tasks.own.inputs import read_inputs
from ..tasks.sequences import Sequences

FEWEST_EXAMPLES = 20
# More different whole numbers that come again less often may be numbers to predict.
MOST_NUMBERED_CLASSES = 20
FEWEST_OF_A_CLASS = 20  # on average


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
    if path.suffix.lower() == ".npy":
        raise FptError(f"{path} holds one array; save X and y by np.savez.")
    if path.suffix.lower() != ".npz":
        return *columns(path.stem, path, target), None
    try:
        # Pickles, which could execute code, are refused.
        with np.load(path, allow_pickle=False) as file:  # noqa: TID251
            content = {name: file[name] for name in file.files}
    except Exception as error:  # whatever NumPy raises of a damaged file
        raise FptError(f"The arrays of {path} cannot be read ({error}).") from error
    # Groups under another name would be ignored, and divided.
    if not {"X", "y"} <= set(content) <= {"X", "y", "groups"}:
        names = ", ".join(content) or "none"
        raise FptError(
            f"{path} should hold the arrays X, y and, if there are any, groups; it holds "
            f"{names}."
        )
    return content["X"], content["y"], content.get("groups")


def numbers(X: Any) -> np.ndarray:
    """X, whole numbers or not, as floats, which are never symbols. InputError for text."""
    values = arrays.array("X", X)
    arrays.check_numbers("X", values)
    return values.astype(float)


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
    is_chosen = task != "auto"
    if not is_chosen:
        task = "classification"
        if answers.dtype.kind == "f":
            # From 2^53 on, every float is whole, and none is a label.
            is_label = (answers == answers.round()) & (abs(answers) < arrays.LARGEST_EXACT)
            task = task if is_label.all() else "regression"
    classes = None
    if task == "regression":
        targets = arrays.targets(y)
    else:
        classes, targets = np.unique(arrays.labels(y), return_inverse=True)
        check_classes(classes, len(targets), is_chosen=is_chosen)
    check_paired(inputs, targets[:, None])
    if len(inputs) < FEWEST_EXAMPLES:
        raise InputError(
            f"An audit needs at least {FEWEST_EXAMPLES} examples, not {len(inputs)}."
        )
    members = None if groups is None else read_groups(groups, len(inputs))
    return Examples(inputs, targets, classes, members)


def check_classes(classes: np.ndarray, count: int, is_chosen: bool) -> None:
    """InputError for labels of `count` examples that are too few or too many classes, or
    that may be numbers to predict, unless a classification was asked for."""
    if len(classes) < 2:
        raise InputError("y has one class; an audit needs at least two.")
    if len(classes) > count / 2:
        raise InputError(
            f"y has {len(classes)} classes for {count} examples; give labels that come "
            "again, or task='regression' for numbers to predict."
        )
    rarely = count < FEWEST_OF_A_CLASS * len(classes)
    is_number = classes.dtype.kind in "iuf"
    if is_number and not is_chosen and rarely and len(classes) > MOST_NUMBERED_CLASSES:
        raise InputError(
            f"y has {len(classes)} different whole numbers for {count} examples; say "
            "whether they are numbers to predict (task='regression') or classes "
            "(task='classification')."
        )


def read_groups(groups: Any, count: int) -> np.ndarray:
    """The group (N,) of each of `count` examples, numbered from 0."""
    values = arrays.array("groups", groups)
    if values.shape == (count, 1):
        values = values[:, 0]
    if values.shape != (count,):
        raise InputError(f"groups should be ({count},), one for each example.")
    arrays.check_present("groups", pd.isna(values))
    members: np.ndarray = pd.factorize(values)[0]
    return members
