"""A user's inputs and answers as arrays, by scikit-learn's checks. What cannot be read is
refused in one sentence, and a missing value is never read as a number."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ...errors import FptError

LARGEST_EXACT = 2**53  # from which a float64 skips whole numbers
# How a refusal ends.
WAY_OUT = {
    "X": "give numbers (N, T, D) or (N, T) without gaps, a list of arrays (T, D) or (T,) "
    "without padding if lengths differ, images cut by fpt.Patches, or texts as "
    "list(text.encode())",
    "y": "y should be (N,), a label or number for each example, no NaN, infinity or gap",
    "groups": "groups should be (N,), one for each example",
    "images": "images need one size, so resize them first",
    "labels": "labels are text, whole numbers, or True and False; "
    "FrozenTransformer(task='regression') predicts numbers",
    "validation": "validation is a share between 0 and 1, or the rows to hold out",
}


class InputError(FptError, ValueError):
    """Wrong input, in one sentence."""


class InputTypeError(InputError, TypeError):
    """Input of a type that cannot be used, in one sentence."""


@contextmanager
def refused(subject: str) -> Iterator[None]:
    """What NumPy, PyTorch and scikit-learn refuse in the block as an InputError, with a way
    out."""
    try:
        yield
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        reason = str(error).partition("\n")[0].rstrip(".:")
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{reason}; {WAY_OUT[subject]}.") from error


def array(name: str, data: Any) -> np.ndarray:
    """`data`, which a message calls `name`, as an array. InputError for rows of different
    lengths, what is masked, and what is sparse."""
    from scipy import sparse  # late: a machine that only trains may lack it

    with refused(name):
        if sparse.issparse(data):
            raise TypeError(f"Sparse {name} is not supported")
        # NumPy drops masks.
        if np.ma.is_masked(data):
            raise ValueError(f"{name} has masked values, which are missing")
        values = np.asarray(data)
    # Columns of pandas' own types come as objects, and integers may be symbols.
    kind = pd.api.types.infer_dtype(values.ravel(), skipna=False)
    is_whole = values.dtype == object and kind == "integer"
    return values.astype(np.int64) if is_whole else values


def check_present(name: str, missing: np.ndarray) -> None:
    """InputError if an example of `name` has a missing value, by the mask `missing`
    (N,)."""
    if missing.any():
        raise InputError(
            f"Input {name} contains NaN or another missing value, first in example "
            f"{missing.argmax()}; fill such values in, or leave these examples out."
        )


def check_numbers(name: str, values: np.ndarray) -> np.ndarray:
    """`values` as whole or real numbers or Booleans; InputError if they are none, or not
    finite."""
    from sklearn.utils.validation import check_array

    with refused(name):
        numbers: np.ndarray = check_array(
            values, ensure_2d=False, allow_nd=True, input_name=name
        )
        if numbers.dtype.kind not in "biuf":
            raise TypeError(f"{name} holds values of type {numbers.dtype}, not numbers")
    return numbers


def answers(y: Any) -> np.ndarray:
    """y as an array (N,)."""
    from sklearn.utils.validation import column_or_1d

    values = array("y", y)
    # Of NaN and numbers in a list of text, NumPy would make text.
    if values.dtype.kind == "U" and not hasattr(y, "dtype"):
        values = np.array(y, object)
    with refused("y"):
        values = column_or_1d(values, warn=True)
    check_present("y", pd.isna(values))
    return values


def labels(y: Any) -> np.ndarray:
    """y as labels of classes (N,): text, whole numbers or Booleans."""
    values = answers(y)
    kind = pd.api.types.infer_dtype(values)
    if kind == "floating" and (check_numbers("y", values) % 1 == 0).all():
        kind = "integer"
    if kind not in ("string", "integer", "boolean"):
        raise InputError(f"Unknown label type: y holds {kind} values; {WAY_OUT['labels']}.")
    return values


def targets(y: Any) -> np.ndarray:
    """y as float64 numbers (N,)."""
    return check_numbers("y", answers(y)).astype(float)
