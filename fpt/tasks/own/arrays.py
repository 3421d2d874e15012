"""Lists, tables with nullable columns, masked arrays and tensors as NumPy arrays of
numbers, symbols or labels. A missing value is refused, never read as a number."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from ...errors import FptError

LARGEST = float(np.finfo(np.float32).max)
TEXT = "X holds text; give each text as the list of its bytes, `list(text.encode())`."
# By the kind of a NumPy type, what to give instead.
REFUSED = {
    "c": (
        "Complex data not supported: {} should hold two real numbers for each complex one."
    ),
    "M": "{} holds dates; give them as numbers, such as days since the first.",
    "m": "{} holds durations; give them as numbers, such as seconds.",
}


class InputError(FptError, ValueError):
    """Wrong input, in one sentence."""


class InputTypeError(InputError, TypeError):
    """Input of a type that cannot be used, in one sentence."""


class RaggedError(InputError):
    """Rows that differ in length where they may not, in one sentence."""


def array(name: str, data: Any) -> np.ndarray:
    """`data`, which a message calls `name`, as an array; copied only if it must be.

    Objects become the numbers or texts that they are; a 1-D array of sequences stays as it
    is. InputError for values that are missing (masked, NA, None; NaN among objects or in a
    table), for rows that differ in length, for text among numbers, and for objects that are
    neither.
    """
    if isinstance(data, torch.Tensor):
        data = data.detach().cpu()
        if data.dtype == torch.bfloat16:
            # NumPy has no such type.
            data = data.float()
    if sparse.issparse(data):
        raise InputError(f"Sparse {name} is not supported; give {name}.toarray().")
    if isinstance(data, np.ma.MaskedArray):
        check_present(name, np.ma.getmaskarray(data))
        data = data.data
    if isinstance(
        data,
        pd.DataFrame | pd.Series | pd.Index | pd.api.extensions.ExtensionArray,
    ):
        check_present(name, np.asarray(pd.isna(data)))
        data = data.to_numpy()
    if isinstance(data, list | tuple):
        data = [element(name, part) for part in data]
    try:
        values = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise RaggedError(
            f"{name} has rows of different lengths; only the sequences in a list X may "
            "differ."
        ) from error
    if values.dtype == object and not values.ndim:
        raise InputError(
            f"Reshape your data: {name} should be an array or a list, found "
            f"{type(data).__name__}."
        )
    if values.dtype.kind == "T" or (values.dtype.kind in "US" and isinstance(data, list)):
        # A list may hold NaN or numbers too.
        values = np.asarray(data, object)
    return plain(name, values) if values.dtype == object else values


def element(name: str, part: Any) -> Any:
    """An element of a list: arrays, of which NumPy would drop the masks, by `array`; arrays
    without an axis as the scalars that they hold."""
    if part is np.ma.masked:
        return None
    axes = getattr(part, "ndim", None)
    if axes == 0:
        return part.item()
    return array(name, part) if axes else part


def check_present(name: str, missing: np.ndarray) -> None:
    """InputError if an example of `name` has a missing value, by the mask `missing` (N,
    ...)."""
    if missing.any():
        first = (
            int(missing.reshape(len(missing), -1).any(1).argmax()) if missing.ndim else 0
        )
        raise InputError(
            f"Input {name} contains NaN or another missing value, first in example "
            f"{first}; fill such values in, or leave these examples out."
        )


def plain(name: str, values: np.ndarray) -> np.ndarray:
    """An array of objects as the array of numbers or texts that it holds."""
    if values.ndim == 1 and any(
        np.iterable(value) and not is_text(value) for value in values
    ):
        # These are sequences, each of which is read on its own.
        return values
    check_present(name, pd.isna(values))
    natural = np.array(values.tolist())
    if natural.dtype.kind in "US" and not all(map(is_text, values.flat)):
        raise InputError(f"{name} mixes text with other values; give values of one type.")
    if natural.dtype != object:
        return natural
    try:
        return natural.astype(float)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"{name} holds a value that is neither a number nor text ({error})."
        ) from error


def is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def check_numbers(name: str, values: np.ndarray) -> None:
    """InputError for an array that does not hold whole or real numbers, or Booleans."""
    kind = values.dtype.kind
    if kind in "US" and name == "X":
        raise InputError(TEXT)
    if kind in REFUSED:
        raise InputError(REFUSED[kind].format(name))
    if kind not in "biuf":
        raise InputError(
            f"{name} should hold numbers, and its values are of type {values.dtype}."
        )


def check_finite(name: str, values: np.ndarray, first: int = 0) -> None:
    """InputError for NaN, infinity, and numbers beyond float32, in which networks compute.
    Row 0 of `values` (n, ...) is of example `first`."""
    # False for NaN too, of which no comparison is true.
    sound = np.abs(values) <= LARGEST
    if not sound.all():
        row = first + int((~sound).reshape(len(sound), -1).any(1).argmax())
        raise InputError(
            f"Input {name} contains NaN, infinity or a number too large for float32, first "
            f"in example {row}; fill such values in, or leave these examples out."
        )


def answers(y: Any) -> np.ndarray:
    """y as an array, (N,) or (N, T)."""
    from sklearn.utils.validation import column_or_1d

    if y is None:
        raise InputError(
            f"This estimator requires y to be passed, but the target y is {y}."
        )
    values = array("y", y)
    if values.dtype == object or values.ndim not in (1, 2):
        raise InputError(
            "y should be (N,), or (N, T) for one answer per token; found shape "
            f"{values.shape}"
            + (
                " of sequences, which may not differ in length."
                if values.ndim == 1
                else "."
            )
        )
    if values.dtype.kind in "fcMm":
        check_present("y", pd.isna(values))
    return column_or_1d(values, warn=True) if values.shape[1:] == (1,) else values


def labels(y: Any) -> np.ndarray:
    """y as labels of classes, (N,) or (N, T): text, whole numbers or Booleans."""
    values = answers(y)
    if values.dtype.kind not in "biufUS":
        raise InputError(
            f"Unknown label type: y holds values of type {values.dtype}; labels are text, "
            "whole numbers, or True and False."
        )
    if values.dtype.kind == "f":
        check_finite("y", values)
        if (values % 1 != 0).any():
            raise InputError(
                "Unknown label type: y is continuous, and labels name classes; cut y into "
                "classes, or predict it by FrozenTransformerRegressor."
            )
    return values


def targets(y: Any) -> np.ndarray:
    """y as float64 numbers, (N,) or (N, T)."""
    values = answers(y)
    check_numbers("y", values)
    check_finite("y", values)
    return values.astype(float)
