"""Sequences of vectors or symbols as a user gives them.

They are neither copied nor converted as a whole, but checked, measured and standardised in parts of
some megabytes: the memory that a fit needs beside them is that of the prepared sequences.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import LARGEST, InputError, RaggedError, array, check_finite, check_numbers
from .base import Kind
from .prepared import PART, Sequences

MOST_SYMBOLS = 10**6  # each has a row in the input net
Moments = tuple[np.ndarray, np.ndarray]  # mean and deviation of each of the D numbers


@dataclass(frozen=True)
class Inputs:
    """N sequences as they were given: one array (N, T, D) of numbers or (N, T) of symbols, or a
    list of arrays (T, D) or (T,)."""

    values: np.ndarray | list[np.ndarray]
    kind: Kind

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(N,) int64."""
        if isinstance(self.values, np.ndarray):
            return np.full(len(self.values), self.values.shape[1])
        return np.array([len(sequence) for sequence in self.values])

    @cached_property
    def limits(self) -> dict[str, Any]:
        """Their kind, the width of a token or one more than the largest symbol, and the least and
        longest length."""
        ends = {"shortest": int(self.lengths.min()), "length": int(self.lengths.max())}
        if self.kind == "vector":
            dim = self.values[0].shape[1]
        else:
            dim = 1 + max(int(tokens.max()) for _, tokens in self.parts())
        return {"kind": self.kind, "dim": dim, **ends}

    def parts(self, rows: np.ndarray | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """The tokens of the sequences `rows` (all if None) end to end, some at a time: the place in
        `rows` of the first sequence, and (n, D) float64 vectors or (n,) symbols."""
        rows = np.arange(len(self)) if rows is None else rows
        width = self.values[0].shape[1] if self.kind == "vector" else 1
        size = max(1, PART // (width * int(self.lengths.max())))
        for first in range(0, len(rows), size):
            chosen = rows[first : first + size]
            if isinstance(self.values, np.ndarray):
                block = self.values[chosen].reshape(-1, *self.values.shape[2:])
            else:
                block = np.concatenate([self.values[row] for row in chosen])
            yield first, block.astype(float) if self.kind == "vector" else block

    def symbols(self, rows: np.ndarray) -> np.ndarray:
        """The different symbols in the sequences `rows`, ascending, int64."""
        seen = np.concatenate([np.unique(tokens) for _, tokens in self.parts(rows)])
        return np.unique(seen).astype(np.int64)  # torch takes uint8 for a mask

    def moments(self, rows: np.ndarray) -> Moments:
        """The mean and standard deviation (D,) of the numbers of a token in the sequences `rows`,
        in float64; a deviation within the rounding of the numbers is taken for 0, and 0 for 1."""
        origin = self.values[rows[0]][0].astype(float)
        count = self.lengths[rows].sum()
        # Away from an origin among the numbers, no digits are lost to a large common offset.
        mean = origin + sum((tokens - origin).sum(0) for _, tokens in self.parts(rows)) / count
        squares = sum(((tokens - mean) ** 2).sum(0) for _, tokens in self.parts(rows))
        scale = np.sqrt(squares / count)
        kind = np.result_type(self.values[0])
        rounding = np.finfo(kind).eps / 2 if kind.kind == "f" else 0.0
        return mean, np.where(scale > rounding * np.abs(mean), scale, 1.0)

    def prepared(self, rows: np.ndarray | None = None, moments: Moments | None = None) -> Sequences:
        """The sequences `rows` (all if None): vectors minus the mean, divided by the deviation;
        symbols as they are."""
        lengths = self.lengths if rows is None else self.lengths[rows]
        shape: tuple[int, ...] = (int(lengths.sum()),)
        if self.kind == "vector":
            values = np.empty((*shape, self.limits["dim"]), np.float32)
        else:
            values = np.empty(shape, np.uint8 if self.limits["dim"] <= 256 else np.int32)
        end = 0
        with np.errstate(over="ignore"):  # infinity is noticed in the answers of the network
            for _, tokens in self.parts(rows):
                first, end = end, end + len(tokens)
                if moments is None:
                    values[first:end] = tokens
                else:
                    values[first:end] = (tokens - moments[0]) / moments[1]
        if (lengths == lengths[0]).all():
            return Sequences(values.reshape(len(lengths), lengths[0], *values.shape[1:]))
        return Sequences(values, np.concatenate([[0], lengths.cumsum()]))


def inputs(data: Any, limits: Mapping[str, Any] | None = None) -> Inputs:
    """`data` as sequences: an array of (N, T, D) numbers; of (N, T) integers, which are symbols;
    of (N, T) other numbers, which are tokens of one number; or a list or series of (T, D) or (T,)
    arrays, maybe of different lengths.

    `limits` are the `Inputs.limits` of a fit. New sequences may be longer than those and have other
    symbols. InputError if they are of another kind or width, and for anything else, for missing
    values, and for numbers that are not finite.
    """
    values = _arrays(data)
    rows = [values] if isinstance(values, np.ndarray) else values
    whole = np.result_type(*{row.dtype for row in rows}).kind in "iu"
    flat = values[0].ndim == 1
    # What was fitted as numbers is not taken for symbols because all are whole here.
    numbers = limits is not None and (limits["kind"], limits["dim"]) == ("vector", 1)
    if flat and whole and not numbers:
        read = Inputs(values, "token")
        _check_symbols(read)
    else:
        columns = [row[..., None] for row in rows] if flat else rows
        read = Inputs(columns[0] if isinstance(values, np.ndarray) else columns, "vector")
        _check_range(read)
    if limits is not None:
        _check_same(limits, read.limits)
    return read


def _arrays(data: Any) -> np.ndarray | list[np.ndarray]:
    """One array (N, T) or (N, T, D), or a list of arrays (T,) or (T, D), none of them empty."""
    if not isinstance(data, list | tuple):
        data = _one_or_many(data)
    if isinstance(data, np.ndarray):
        check_numbers("X", data)
        _check_shape(data.shape)
        return data
    values = [array("X", sequence) for sequence in data]
    for value in values:
        check_numbers("X", value)
    if len({value.shape for value in values}) < 2:
        _check_shape((len(values), *(values[0].shape if values else (0,))))
        return values
    if any(
        value.ndim not in (1, 2) or value.size == 0 or value.shape[1:] != values[0].shape[1:]
        for value in values
    ):
        raise InputError(
            "Sequences of different lengths should be arrays (T, D) of one D, or (T,), none empty."
        )
    return values


def _one_or_many(data: Any) -> np.ndarray | list[Any]:
    """What is no list as an array, or as a list of sequences if it holds those."""
    try:
        values = array("X", data)
    except RaggedError:  # an awkward array, for example
        return list(data)
    return list(values) if values.dtype == object and values.ndim == 1 else values


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) == 2 and shape[0] > 0 and shape[1] == 0:
        raise InputError(f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if len(shape) == 4:
        raise InputError(
            f"X has shape {shape}, as images have; cut them into sequences by fpt.Patches, or "
            "reshape them into (N, T, D)."
        )
    if len(shape) not in (2, 3) or 0 in shape:
        raise InputError(
            "Reshape your data: X should be (N, T, D) numbers, (N, T) integers or numbers, or a "
            f"list of sequences, and not empty; found an array of shape {shape}."
        )


def _check_symbols(read: Inputs) -> None:
    for _, tokens in read.parts():
        least, most = tokens.min(), tokens.max()
        if least < 0 or most >= MOST_SYMBOLS:
            raise InputError(
                f"The symbols in X should be 0 or more and below {MOST_SYMBOLS}; found are {least} "
                f"to {most}. If they are numbers, give them as floats."
            )


def _check_range(read: Inputs) -> None:
    for first, tokens in read.parts():
        if not (np.abs(tokens) <= LARGEST).all():
            for row in range(first, len(read)):
                check_finite("X", read.values[row][None], row)


def described(limits: Mapping[str, Any]) -> str:
    """What `Inputs.limits` say, such as "sequences of 4 to 26 vectors of 12 numbers"."""
    least, most = limits["shortest"], limits["length"]
    count = f"{most}" if least == most else f"{least} to {most}"
    numbers = "1 number" if limits["dim"] == 1 else f"{limits['dim']} numbers"
    symbols = f"symbols, whole numbers from 0 to {limits['dim'] - 1}"
    return f"sequences of {count} " + (
        f"vectors of {numbers}" if limits["kind"] == "vector" else symbols
    )


def _check_same(limits: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """InputError if sequences, of `Inputs.limits` `others`, are of another kind or width than those
    of the fit. They may be longer, and have other symbols."""
    wide = limits["kind"] == "vector" and limits["dim"] != others["dim"]
    if wide or limits["kind"] != others["kind"]:
        raise InputError(f"X has {described(others)}; the fit had {described(limits)}.")


def check_columns(estimator: Any, X: Any, read: Inputs, fitting: bool) -> None:
    """Set the names and the number of the columns of a table on `estimator` if `fitting`; else
    InputError for others. A sequence of symbols that is no table may be of any length."""
    from sklearn.utils.validation import validate_data

    table_as_list = read.limits["dim"] == 1 and read.limits["shortest"] == read.limits["length"]
    if fitting and isinstance(X, list | tuple) and table_as_list:
        # Rows of a table too, so a table with other columns is refused later. Other lists are not.
        estimator.n_features_in_ = read.limits["length"]
    if getattr(X, "ndim", 0) != 2:
        return
    if not (fitting or read.kind == "vector" or hasattr(X, "columns")):
        return
    try:
        validate_data(estimator, X, reset=fitting, skip_check_array=True)
    except ValueError as error:
        hint = " (give series that differ in length as a list, or as (N, T, 1))."
        reason = str(error)
        several = "\n" in reason  # scikit-learn lists names of columns on lines of their own
        raise InputError(reason if several else reason.rstrip(".") + hint) from error


def both(limits: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The `Inputs.limits` of two sets of sequences of one kind."""
    merged = {name: max(limits[name], others[name]) for name in ("dim", "length")}
    shortest = min(limits["shortest"], others["shortest"])
    return {"kind": limits["kind"], **merged, "shortest": shortest}


def check_length(length: int, backbone: str, most: int) -> None:
    """InputError for sequences of `length` tokens if a backbone takes `most` (0: any number)."""
    if most and length > most:
        raise InputError(
            f"X has sequences of {length} tokens, and backbone {backbone!r} takes at most {most}; "
            "shorten them, or take a backbone with more positions."
        )
