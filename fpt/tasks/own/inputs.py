"""Sequences of vectors or symbols as a user gives them.

They are neither copied nor converted as a whole, but checked, measured and standardised in
parts of some megabytes: the memory that a fit needs beside them is that of the prepared
sequences.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base import Kind
from ..sequences import PART, Sequences
from .arrays import (
    LARGEST,
    InputError,
    RaggedError,
    array,
    check_finite,
    check_numbers,
)
from .limits import check_same

# Each symbol has a row in the input net.
MOST_SYMBOLS = 10**6
# Mean and deviation of each of the D numbers.
Moments = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Inputs:
    """N sequences as they were given: one array (N, T, D) of numbers or (N, T) of symbols,
    or a list of arrays (T, D) or (T,)."""

    values: np.ndarray | list[np.ndarray]
    kind: Kind

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,) int64."""
        return np.array([len(sequence) for sequence in self.values])

    @cached_property
    def limits(self) -> dict[str, Any]:
        """Their kind, the width of a token or one more than the largest symbol, and the
        least and longest length."""
        if self.kind == "vector":
            dim = self.values[0].shape[1]
        else:
            dim = 1 + max(int(tokens.max()) for _, tokens in self.parts())
        shortest = int(self.lengths.min())
        longest = int(self.lengths.max())
        return {
            "kind": self.kind,
            "dim": dim,
            "shortest": shortest,
            "length": longest,
        }

    def parts(self, rows: np.ndarray | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """The tokens of the sequences `rows` (all if None) end to end, part by part: the
        place in `rows` of the first sequence, and (n, D) float64 vectors or (n,)
        symbols."""
        if rows is None:
            rows = np.arange(len(self))
        width = self.values[0].shape[1] if self.kind == "vector" else 1
        size = max(1, PART // (width * int(self.lengths.max())))
        for first in range(0, len(rows), size):
            tokens = np.concatenate(
                [self.values[row] for row in rows[first : first + size]]
            )
            yield (
                first,
                tokens.astype(float) if self.kind == "vector" else tokens,
            )

    def symbols(self, rows: np.ndarray) -> np.ndarray:
        """The different symbols in the sequences `rows`, ascending, int64."""
        parts = [np.unique(tokens) for _, tokens in self.parts(rows)]
        # torch takes uint8 for a mask.
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def moments(self, rows: np.ndarray) -> Moments:
        """The mean and standard deviation (D,) of the numbers of a token in the sequences
        `rows`, in float64; a deviation within the rounding of the numbers is taken for 0,
        and 0 for 1."""
        # Away from an origin among the numbers, no digits are lost to a large common
        # offset.
        origin = self.values[rows[0]][0].astype(float)
        count = self.lengths[rows].sum()
        mean = (
            origin + sum((tokens - origin).sum(0) for _, tokens in self.parts(rows)) / count
        )
        squares = sum(((tokens - mean) ** 2).sum(0) for _, tokens in self.parts(rows))
        scale = np.sqrt(squares / count)
        dtype = np.result_type(self.values[0])
        rounding = np.finfo(dtype).eps / 2 if dtype.kind == "f" else 0.0
        return mean, np.where(scale > rounding * np.abs(mean), scale, 1.0)

    def prepared(
        self,
        rows: np.ndarray | None = None,
        moments: Moments | None = None,
    ) -> Sequences:
        """The sequences `rows` (all if None): vectors minus the mean, divided by the
        deviation; symbols as they are."""
        lengths = self.lengths if rows is None else self.lengths[rows]
        dim = self.limits["dim"]
        if self.kind == "vector":
            values = np.empty((lengths.sum(), dim), np.float32)
        else:
            values = np.empty(
                lengths.sum(),
                np.uint8 if dim <= 256 else np.int32,
            )
        start = 0
        with np.errstate(over="ignore"):
            # Infinity is noticed in the answers of the network.
            for _, tokens in self.parts(rows):
                if moments is not None:
                    tokens = (tokens - moments[0]) / moments[1]
                values[start : start + len(tokens)] = tokens
                start += len(tokens)
        if (lengths == lengths[0]).all():
            return Sequences(values.reshape(len(lengths), lengths[0], *values.shape[1:]))
        return Sequences(values, np.concatenate([[0], lengths.cumsum()]))


def read_inputs(data: Any, limits: Mapping[str, Any] | None = None) -> Inputs:
    """`data` as sequences: an array of (N, T, D) numbers; of (N, T) integers, which are
    symbols; of (N, T) other numbers, which are tokens of one number; or a list or series of
    (T, D) or (T,) arrays, maybe of different lengths.

    `limits` are the `Inputs.limits` of a fit. New sequences may be longer than those and
    have other symbols. InputError if they are of another kind or width, and for anything
    else, for missing values, and for numbers that are not finite.
    """
    values = _arrays(data)
    are_flat = values[0].ndim == 1
    are_whole = np.result_type(*{row.dtype for row in values}).kind in "iu"
    # What was fitted as numbers is not taken for symbols because all are whole in new data.
    fitted_as_numbers = limits is not None and (
        limits["kind"],
        limits["dim"],
    ) == ("vector", 1)
    if are_flat and are_whole and not fitted_as_numbers:
        sequences = Inputs(values, "token")
        _check_symbols(sequences)
    else:
        if isinstance(values, list):
            vectors = [row[..., None] if are_flat else row for row in values]
            sequences = Inputs(vectors, "vector")
        else:
            sequences = Inputs(
                values[..., None] if are_flat else values,
                "vector",
            )
        _check_range(sequences)
    if limits is not None:
        check_same(sequences.limits, limits)
    return sequences


def _arrays(data: Any) -> np.ndarray | list[np.ndarray]:
    """One array (N, T) or (N, T, D), or a list of arrays (T,) or (T, D), none of them
    empty."""
    if not isinstance(data, list | tuple):
        data = _one_or_many(data)
    if isinstance(data, np.ndarray):
        check_numbers("X", data)
        _check_shape(data.shape)
        return data
    values = [array("X", sequence) for sequence in data]
    for value in values:
        check_numbers("X", value)
    shapes = {value.shape for value in values}
    if len(shapes) < 2:
        _check_shape((len(values), *(shapes.pop() if shapes else (0,))))
    elif len({shape[1:] for shape in shapes}) > 1 or any(
        len(shape) not in (1, 2) or 0 in shape for shape in shapes
    ):
        raise InputError(
            "Sequences of different lengths should be arrays (T, D) of one D, or (T,), "
            "none empty."
        )
    return values


def _one_or_many(data: Any) -> np.ndarray | list[Any]:
    """`data`, which is no list, as an array, or as a list of sequences if it holds
    those."""
    try:
        values = array("X", data)
    except RaggedError:
        # NumPy cannot hold an awkward array, for example.
        return list(data)
    return list(values) if values.dtype == object and values.ndim == 1 else values


def _check_shape(shape: tuple[int, ...]) -> None:
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


def _check_symbols(sequences: Inputs) -> None:
    for _, tokens in sequences.parts():
        least = tokens.min()
        largest = tokens.max()
        if least < 0 or largest >= MOST_SYMBOLS:
            raise InputError(
                f"The symbols in X should be 0 or more and below {MOST_SYMBOLS}; found are "
                f"{least} to {largest}. If they are numbers, give them as floats."
            )


def _check_range(sequences: Inputs) -> None:
    for first, tokens in sequences.parts():
        if (np.abs(tokens) <= LARGEST).all():
            continue
        # The sentence names the first example that is wrong.
        for row in range(first, len(sequences)):
            check_finite("X", sequences.values[row][None], row)


def check_columns(estimator: Any, X: Any, read: Inputs, fitting: bool) -> None:
    """Set the names and the number of the columns of a table on `estimator` if `fitting`;
    else InputError for others. A sequence of symbols that is no table may be of any
    length."""
    from sklearn.utils.validation import validate_data

    table_as_list = (
        read.limits["dim"] == 1 and read.limits["shortest"] == read.limits["length"]
    )
    if fitting and isinstance(X, list | tuple) and table_as_list:
        # Rows of a table too, so a table with other columns is refused later. Other lists
        # are not.
        estimator.n_features_in_ = read.limits["length"]
    if getattr(X, "ndim", 0) != 2:
        return
    if not (fitting or read.kind == "vector" or hasattr(X, "columns")):
        return
    try:
        validate_data(estimator, X, reset=fitting, skip_check_array=True)
    except ValueError as error:
        reason = str(error)
        if "\n" not in reason:
            # scikit-learn lists names of columns on lines of their own.
            hint = "(give series that differ in length as a list, or as (N, T, 1))"
            reason = f"{reason.rstrip('.')} {hint}."
        raise InputError(reason) from error
