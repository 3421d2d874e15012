"""Sequences of vectors or symbols as a user gives them, and their limits
(`Sequences.limits`) in words."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..sequences import Sequences
from .arrays import WAY_OUT, InputError, array, check_numbers

# Each symbol has a row in the input net.
MOST_SYMBOLS = 10**6
# How many times the deviation of most columns of a table all its numbers together may have.
MOST_UNITS_APART = 30


def read_inputs(data: Any, limits: Mapping[str, Any] | None = None) -> Sequences:
    """`data` as sequences: an array of (N, T, D) numbers; of (N, T) integers, which are
    symbols; of (N, T) other numbers, which are tokens of one number; or a list or series of
    (T, D) or (T,) arrays, maybe of different lengths.

    `limits` are the `Sequences.limits` of a fit. InputError if sequences are longer than
    those, or of another kind or width, and for anything else, missing values and numbers
    that are not finite.
    """
    tokens, starts = joined(data)
    # What was fitted as numbers is not taken for symbols because all are whole in new data.
    fitted_numbers = limits is not None and limits["kind"] == "vector"
    if tokens.ndim == 1 and tokens.dtype.kind in "iu" and not fitted_numbers:
        if tokens.min() < 0 or tokens.max() >= MOST_SYMBOLS:
            raise InputError(
                f"The symbols in X should be 0 or more and below {MOST_SYMBOLS}; found are "
                f"{tokens.min()} to {tokens.max()}; give numbers as floats."
            )
    else:
        tokens = tokens if tokens.dtype.kind == "f" else tokens.astype(float)
        tokens = tokens[:, None] if tokens.ndim == 1 else tokens
    sequences = Sequences(tokens, starts)
    if limits is None:
        check_axes(sequences)
        warn_of_units(sequences)
    else:
        check_same(sequences.limits, limits)
    return sequences


def joined(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of all sequences, (sum of T, D) or (sum of T,), and where each begins, (N
    + 1,)."""
    # A list, a column of a data set, or a series: one array for each example.
    if not isinstance(data, Sequence) and getattr(data, "ndim", None) != 1:
        data = check_numbers("X", array("X", data))
    rows = [array("X", row) for row in data]
    widths = {row.shape[1:] for row in rows}
    if len(widths) != 1 or any(row.ndim not in (1, 2) or not row.size for row in rows):
        raise InputError(
            "Reshape your data: X should have arrays (T, D) of one D, or (T,), none of "
            f"them empty; {WAY_OUT['X']}."
        )
    tokens = check_numbers("X", np.concatenate(rows))
    return tokens, np.cumsum([0, *map(len, rows)])


def check_axes(sequences: Sequences) -> None:
    """InputError for sequences of one token each, as series (N, 1, T) would be."""
    limits = sequences.limits
    if limits["kind"] == "vector" and limits["length"] == 1 < limits["dim"]:
        raise InputError(
            f"Each sequence of X is one token of {limits['dim']} numbers, which has no "
            "other to attend to; give series (N, channels, T) as X.swapaxes(1, 2), and the "
            "rows of a table as (N, T)."
        )


def warn_of_units(sequences: Sequences) -> None:
    """Warn of a table (N, T) most of whose columns hardly vary beside the others: all
    numbers share one mean and deviation, so a network would not see these columns."""
    limits = sequences.limits
    if limits["dim"] > 1 or limits["shortest"] < limits["length"]:
        return
    table = sequences.tokens.reshape(len(sequences), -1)
    by_column = table.std(axis=0, dtype=float)
    varying = by_column[by_column > 0]
    are_small = varying * MOST_UNITS_APART < table.std(dtype=float)
    if are_small.sum() > len(varying) / 2:
        warnings.warn(
            "Most columns of X vary far less than all its numbers do, which share one mean "
            "and deviation, so a network hardly sees them: standardise each column first, "
            "as by sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=2,
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
    """InputError for `Sequences.limits` of another kind or width than those of the fit, and
    for sequences that are longer, or shorter than all of one length."""
    is_same = limits["kind"] == fitted["kind"] and limits["length"] <= fitted["length"]
    if limits["kind"] == "vector":
        is_same &= limits["dim"] == fitted["dim"]
    if fitted["shortest"] == fitted["length"]:
        is_same &= limits["shortest"] == fitted["length"]
    if not is_same:
        raise InputError(
            f"X has {described(limits)}; the fit had {described(fitted)}, so give such "
            "sequences."
        )
