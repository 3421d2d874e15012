"""Lists, tables with nullable columns, masked arrays and tensors as NumPy arrays of
numbers, symbols or labels. A missing value is refused, never read as a number."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from ...errors import FptError

LARGEST = float(np.finfo(np.float32).max)
FLOATS = (torch.float16, torch.float32, torch.float64)  # of NumPy too
LARGEST_EXACT = 2**53  # from which a float64 skips whole numbers
TEXT = "X holds text; give each text as the list of its bytes, `list(text.encode())`."


class InputError(FptError, ValueError):
    """Wrong input, in one sentence."""


class InputTypeError(InputError, TypeError):
    """Input of a type that cannot be used, in one sentence."""


def array(name: str, data: Any, row: int | None = None) -> np.ndarray:
    """`data`, which a message calls `name`, as an array; copied only if it must be. With
    `row`, they are one example, of this number.

    Objects become the numbers or texts that they are; a 1-D array of sequences stays as it
    is. InputError for values that are missing (masked, NA, None; NaN among objects), for
    rows that differ in length, for text among numbers, and for objects that are neither.
    """
    if sparse.issparse(data):
        raise InputError(f"Sparse {name} is not supported; give {name}.toarray().")
    if isinstance(data, list | tuple):
        data = [readable(part) for part in data]
    else:
        data = readable(data)
    try:
        values = np.asarray(data)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name} has rows of different lengths; only the sequences in a list X may "
            "differ."
        ) from error
    if values.dtype.kind == "T" or (values.dtype.kind in "US" and isinstance(data, list)):
        # A list may hold NaN or numbers too.
        values = np.asarray(data, object)
    return _natural(name, values, row) if values.dtype == object else values


def readable(data: Any) -> Any:
    """What NumPy can read: a tensor detached, in a type that NumPy has, a nested one as a
    list; NaN where an array is masked; all else as it is. InputError for other tensors."""
    if isinstance(data, torch.Tensor):
        if data.is_nested:
            return [readable(part) for part in data.unbind()]
        if data.layout != torch.strided or data.is_quantized or data.is_meta:
            raise InputError(
                "Sparse, quantised and meta tensors are not supported; give a dense tensor."
            )
        data = data.detach().cpu().resolve_conj().resolve_neg()
        # NumPy has none of these types.
        is_small = data.is_floating_point() and data.dtype not in FLOATS
        return data.float() if is_small else data
    if data is np.ma.masked:
        return np.nan
    # NumPy drops masks.
    return np.ma.filled(data.astype(object), np.nan) if np.ma.isMA(data) else data


def check_present(name: str, missing: np.ndarray, row: int | None = None) -> None:
    """InputError if an example of `name` has a missing value, by the mask `missing` (N,
    ...), or that of the example `row`."""
    if missing.any():
        first = np.argwhere(missing)[0][0] if row is None else row
        raise InputError(
            f"Input {name} contains NaN or another missing value, first in example "
            f"{first}; fill such values in, or leave these examples out."
        )


def _natural(name: str, values: np.ndarray, row: int | None) -> np.ndarray:
    """An array of objects as the array of numbers or texts that it holds."""
    if not values.ndim:
        raise InputError(
            f"Reshape your data: {name} should be an array or a list, found "
            f"{type(values.item()).__name__}."
        )
    if values.ndim == 1 and any(map(pd.api.types.is_list_like, values)):
        # These are sequences, each of which is read on its own.
        return values
    if any(
        isinstance(value, list | tuple | np.ndarray | pd.Series) for value in values.flat
    ):
        if values.shape[1:] == (1,):
            return values[:, 0]
        raise InputError(
            f"{name} has sequences in {values.shape[1]} columns; give one array (T, D) for "
            "each example, such as np.stack(row, axis=1)."
        )
    check_present(name, pd.isna(values), row)
    natural = np.array(values.tolist())
    is_text = pd.api.types.infer_dtype(values.ravel()) in ("string", "bytes")
    if natural.dtype.kind in "US" and not is_text:
        raise InputError(f"{name} mixes text with other values; give values of one type.")
    if natural.dtype != object:
        return natural
    try:
        return natural.astype(float)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"{name} holds a value that is neither a number nor text ({error})."
        ) from error


def check_numbers(name: str, values: np.ndarray) -> None:
    """InputError for an array that does not hold whole or real numbers, or Booleans."""
    kind = values.dtype.kind
    if kind in "US" and name == "X":
        raise InputError(TEXT)
    if kind == "c":
        raise InputError(
            f"Complex data not supported: {name} should hold two real numbers for each."
        )
    if kind not in "biuf":
        raise InputError(
            f"{name} should hold numbers, and its values are of type {values.dtype}."
        )


def check_finite(name: str, examples: Iterable[Any]) -> None:
    """InputError if an example has NaN, infinity, or a number beyond float32, in which
    networks compute."""
    for row, example in enumerate(examples):
        # False for NaN too, of which no comparison is true.
        if not np.all(np.abs(np.asarray(example, float)) <= LARGEST):
            raise InputError(
                f"Input {name} contains NaN, infinity or a number too large for float32, "
                f"first in example {row}; fill such values in, or leave these examples out."
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
            f"{values.shape}."
        )
    if values.dtype.kind == "f":
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
        if (np.abs(values) >= LARGEST_EXACT).any():
            raise InputError(
                "y has whole numbers that floats cannot tell apart; give text."
            )
        if (values % 1 != 0).any():
            raise InputError(
                "Unknown label type: y is continuous, and labels name classes; cut y into "
                "classes, or predict it by FrozenTransformerRegressor."
            )
    return values


def check_comparable(y: np.ndarray, fitted: np.ndarray) -> None:
    """InputError for labels of which one is text and the other is not: none of them would
    be equal."""
    kinds = [
        values.dtype.kind if values.dtype.kind in "US" else "" for values in (y, fitted)
    ]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"y holds labels of type {y.dtype}, and those of the fit are of type "
            f"{fitted.dtype}; give them as in the fit."
        )


def targets(y: Any) -> np.ndarray:
    """y as float64 numbers, (N,) or (N, T)."""
    values = answers(y)
    check_numbers("y", values)
    check_finite("y", values)
    return values.astype(float)
