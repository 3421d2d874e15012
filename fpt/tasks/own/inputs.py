"""Sequences of vectors or symbols as a user gives them, and their limits
(`Sequences.limits`) in words."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..sequences import Sequences
from .arrays import InputError, array, check_finite, check_numbers, readable

# Each symbol has a row in the input net.
MOST_SYMBOLS = 10**6
# How many times the deviation of most columns of a table all its numbers together may have.
MOST_UNITS_APART = 30


def read_inputs(data: Any, limits: Mapping[str, Any] | None = None) -> Sequences:
    """`data` as sequences: an array of (N, T, D) numbers; of (N, T) integers, which are
    symbols; of (N, T) other numbers, which are tokens of one number; or a list or series of
    (T, D) or (T,) arrays, maybe of different lengths.

    `limits` are the `Sequences.limits` of a fit. New sequences may be longer than those and
    have other symbols. InputError if they are of another kind or width, and for anything
    else, for missing values, and for numbers that are not finite.
    """
    sequences = _joined(data)
    values = sequences.tokens
    are_flat = values.ndim == 1
    # What was fitted as numbers is not taken for symbols because all are whole in new data.
    has_numbers = limits and limits["kind"] == "vector" and limits["dim"] == 1
    if are_flat and values.dtype.kind in "iu" and not has_numbers:
        if values.min() < 0 or values.max() >= MOST_SYMBOLS:
            raise InputError(
                f"The symbols in X should be 0 or more and below {MOST_SYMBOLS}; found are "
                f"{values.min()} to {values.max()}; give numbers as floats."
            )
    else:
        values = values if values.dtype.kind == "f" else values.astype(float)
        sequences = Sequences(values[..., None] if are_flat else values, sequences.starts)
        check_finite("X", sequences)
    if limits is None:
        warn_of_units(sequences)
    else:
        check_same(sequences.limits, limits)
    return sequences


def warn_of_units(sequences: Sequences) -> None:
    """Warn of a table (N, T) most of whose columns hardly vary beside the others: all
    numbers share one mean and deviation, so a network would not see these columns."""
    limits = sequences.limits
    if limits["kind"] == "token" or limits["dim"] > 1:
        return
    if limits["shortest"] < limits["length"]:
        return
    table = sequences.tokens.reshape(len(sequences), -1)
    with np.errstate(over="ignore", invalid="ignore"):  # of squares
        by_column = table.std(axis=0, dtype=float)
        together = table.std(dtype=float)
    varying = by_column[by_column > 0]
    if len(varying) and np.median(varying) * MOST_UNITS_APART < together:
        warnings.warn(
            "Most columns of X vary far less than all its numbers do, which share one mean "
            "and deviation, so a network hardly sees them: standardise each column first, "
            "as by sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=2,
        )


def _joined(data: Any) -> Sequences:
    """Arrays (T,) or (T, D) of numbers, none of them empty, as sequences."""
    data = readable(data)
    # Such as a column of a data set, which is read from its file.
    if isinstance(data, Sequence) and not isinstance(data, str):
        data = list(data)
    if not isinstance(data, list | tuple):
        data = array("X", data)
        if data.dtype != object:
            return _equal(data)
    rows = [_example(row, sequence) for row, sequence in enumerate(data)]
    # Joined with signed ones, unsigned integers would become floats.
    if {row.dtype.kind for row in rows} == {"i", "u"}:
        rows = [row.astype(np.int64) for row in rows]
    shapes = {row.shape for row in rows}
    if len(shapes) < 2:
        return _equal(np.array(rows))
    for row in rows:
        check_numbers("X", row)
    if len({shape[1:] for shape in shapes}) > 1 or any(
        len(shape) not in (1, 2) or 0 in shape for shape in shapes
    ):
        raise InputError(
            "Sequences of different lengths should be arrays (T, D) of one D, or (T,), "
            "none empty."
        )
    return Sequences(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))


def _example(row: int, sequence: Any) -> np.ndarray:
    """One sequence as an array."""
    values = array("X", sequence, row)
    # The cells of Arrow's tables are arrays of arrays.
    return array("X", list(values), row) if values.dtype == object else values


def _equal(values: np.ndarray) -> Sequences:
    """An array (N, T) or (N, T, D) as sequences of one length."""
    check_numbers("X", values)
    shape = values.shape
    if len(shape) == 2 and shape[0] > 0 and shape[1] == 0:
        raise InputError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    if len(shape) == 4:
        raise InputError(
            f"X has shape {shape}, as images have; cut them into sequences by fpt.Patches, "
            "or reshape them into (N, T, D)."
        )
    if len(shape) not in (2, 3) or 0 in shape:
        raise InputError(
            "Reshape your data: X should be (N, T, D) numbers, (N, T) integers or "
            "numbers, or a list of sequences, and not empty; found an array of shape "
            f"{shape}."
        )
    return Sequences(values.reshape(-1, *shape[2:]), np.arange(shape[0] + 1) * shape[1])


def check_columns(estimator: Any, X: Any, read: Sequences, fitting: bool) -> None:
    """Set the names and the number of a table's columns on `estimator` if `fitting`: of an
    array or a frame (N, T), or of a list of N rows of T numbers. Later, scikit-learn's
    ValueError for a table (N, T) with other columns, and InputError for other sequences of
    numbers if they are not as long as the rows of the table that was fitted."""
    from sklearn.utils.validation import validate_data

    # Arrow's tables have no `ndim`. A cell of a frame may hold a whole sequence.
    shape: tuple[int, ...] = getattr(X, "shape", ())
    is_table = len(shape) == 2 and bool((read.lengths == shape[1]).all())
    if is_table and (fitting or read.kind == "vector" or hasattr(X, "columns")):
        validate_data(estimator, X, reset=fitting, skip_check_array=True)
    if read.kind == "token":
        return
    length = read.limits["length"]
    if fitting:
        has_rows = isinstance(X, list | tuple) and array("X", X[0]).ndim == 1
        if has_rows and read.limits["shortest"] == length:
            estimator.n_features_in_ = length
        return
    columns = getattr(estimator, "n_features_in_", None)
    if columns is not None and (read.lengths != columns).any():
        raise InputError(
            f"X has {described(read.limits)}; the fit had a table of {columns} columns "
            "(fit a list of arrays (T, 1) if the length of series may differ)."
        )


def described(limits: Mapping[str, Any]) -> str:
    """`Sequences.limits` in words, such as "sequences of 4 to 26 vectors of 12 numbers"."""
    count = f"{limits['length']}"
    if limits["shortest"] < limits["length"]:
        count = f"{limits['shortest']} to {count}"
    if limits["kind"] == "token":
        return f"sequences of {count} symbols, whole numbers from 0 to {limits['dim'] - 1}"
    numbers = "1 number" if limits["dim"] == 1 else f"{limits['dim']} numbers"
    return f"sequences of {count} vectors of {numbers}"


def check_same(limits: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    """InputError for `Sequences.limits` of another kind or width than those of the fit.
    Sequences may be longer, and have other symbols."""
    is_same = limits["kind"] == fitted["kind"]
    if limits["kind"] == "vector":
        is_same &= limits["dim"] == fitted["dim"]
    if not is_same:
        raise InputError(f"X has {described(limits)}; the fit had {described(fitted)}.")
