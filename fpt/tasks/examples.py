"""Examples in memory as a task: what `fpt.FrozenTransformer` fits, and a reader's own arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, FiniteTask, Kind
from .datasets import Arrays, Dataset, arrays_digest

MOST_SYMBOLS = 10**6  # each has a row in the input net


class InputError(FptError, ValueError):
    """Wrong input, in one sentence."""


@dataclass(frozen=True)
class Sequences:
    """`values` (N, T, D) float32 vectors or (N, T) int64 symbols, and `lengths` (N,) if sequences
    end before T."""

    values: np.ndarray
    lengths: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: np.ndarray | slice) -> "Sequences":
        return Sequences(self.values[rows], None if self.lengths is None else self.lengths[rows])

    @property
    def kind(self) -> Kind:
        return "vector" if self.values.ndim == 3 else "token"

    @property
    def limits(self) -> dict[str, Any]:
        """Their kind, the width of a token or the number of symbols, and the longest length."""
        last = self.values.shape[2:]
        dim = last[0] if last else int(self.values.max()) + 1
        return {"kind": self.kind, "dim": dim, "length": self.values.shape[1]}

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and standard deviation (D,) of the numbers of a token, padding left out; a
        deviation of 0 is 1."""
        count, length = self.values.shape[:2]
        ends = np.full(count, length) if self.lengths is None else self.lengths
        tokens = self.values[np.arange(length) < ends[:, None]].astype(float)
        scale = tokens.std(0)
        return tokens.mean(0), np.where(scale > 0, scale, 1.0)

    def standardised(self, moments: tuple[np.ndarray, np.ndarray] | None) -> "Sequences":
        """The numbers minus the mean, divided by the deviation; symbols stay."""
        if moments is None:
            return self
        mean, scale = moments
        return Sequences(((self.values - mean) / scale).astype(np.float32), self.lengths)


Data = tuple[Sequences, np.ndarray]  # inputs and labels (N, R)


def sequences(given: Any) -> Sequences:
    """`given` as sequences: an array of (N, T, D) numbers; of (N, T) integers, which are symbols;
    of (N, T) other numbers, which are tokens of one number; or a list or series of (T, D) or (T,)
    arrays, maybe of different lengths. InputError for anything else, and for numbers that are not
    finite."""
    if not isinstance(given, list | tuple):
        whole = array("X", given)
        if whole.ndim != 1 or whole.dtype != object:
            return Sequences(_checked(whole))
        given = list(whole)
    parts = [array("X", it) for it in given]
    if len({it.shape[:1] for it in parts}) < 2:
        return Sequences(_checked(array("X", parts)))
    if any(
        it.ndim not in (1, 2) or len(it) == 0 or it.shape[1:] != parts[0].shape[1:] for it in parts
    ):
        raise InputError("Sequences of different lengths are arrays (T, D) or (T,), none empty.")
    lengths = np.array([len(it) for it in parts])
    values = np.zeros((len(parts), lengths.max(), *parts[0].shape[1:]), np.result_type(*parts))
    for row, part in zip(values, parts, strict=True):
        row[: len(part)] = part
    return Sequences(_checked(values), lengths)


def array(name: str, given: Any) -> np.ndarray:
    """`given` as an array; InputError if its rows differ in length."""
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InputError(
            f"{name} has rows of different lengths; only the sequences in a list X may have them."
        ) from error


def _checked(values: np.ndarray) -> np.ndarray:
    if values.ndim not in (2, 3) or values.dtype.kind not in "biuf" or 0 in values.shape:
        raise InputError(
            "Reshape your data, or convert them: X should be (N, T, D) numbers, (N, T) integers or "
            "numbers, or a list of sequences; found an array of shape "
            f"{values.shape} and type {values.dtype}."
        )
    if values.ndim == 2 and values.dtype.kind in "iu":
        least, most = values.min(), values.max()
        if least < 0 or most >= MOST_SYMBOLS:
            asked = f"0 or more and below {MOST_SYMBOLS}"
            raise InputError(f"The symbols in X should be {asked}; found are {least} to {most}.")
        return values.astype(np.int64)
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise InputError("Input X contains NaN, infinity or a number too large for float32.")
    return (values if values.ndim == 3 else values[..., None]).astype(np.float32)


def _described(limits: Mapping[str, Any]) -> str:
    vectors = f"vectors of {limits['dim']} numbers"
    tokens = vectors if limits["kind"] == "vector" else f"symbols from 0 to {limits['dim'] - 1}"
    return f"sequences of up to {limits['length']} {tokens}"


def check_within(limits: Mapping[str, Any], given: Sequences) -> None:
    """InputError if sequences are not like those of the fit, whose `Sequences.limits` these are."""
    found = given.limits
    other = found["kind"] != limits["kind"]
    wide = found["dim"] != limits["dim"] if given.kind == "vector" else found["dim"] > limits["dim"]
    if other or wide or found["length"] > limits["length"]:
        raise InputError(f"X has {_described(found)}; the fit had {_described(limits)}.")


def paired(inputs: Sequences, labels: np.ndarray) -> Data:
    """Inputs with labels (N, R); InputError if they do not belong together."""
    if len(inputs) != len(labels):
        raise InputError(f"X has {len(inputs)} examples and y has {len(labels)}.")
    answers, length = labels.shape[1], inputs.values.shape[1]
    if answers > 1 and (answers != length or inputs.lengths is not None):
        raise InputError(
            f"y has {answers} answers for sequences of {length} tokens; it should have one for "
            "each sequence, or one for each token of sequences of equal length."
        )
    return inputs, labels


def answers(y: Any) -> np.ndarray:
    """y as an array, (N,) or (N, T)."""
    from sklearn.utils.validation import column_or_1d

    found = array("y", y)
    if not found.ndim:
        raise InputError(f"This estimator requires y to be passed, but the target y is {y}.")
    return column_or_1d(found, warn=True) if found.shape[1:] == (1,) else found


def hold_out(labels: np.ndarray, share: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and a share to hold out, with every class in both if there are enough."""
    from sklearn.model_selection import train_test_split

    count = len(labels)
    sound = isinstance(share, float | np.floating) and 0 < share < 1
    held = max(1, round(share * count)) if sound else count
    if held >= count:
        raise InputError(
            f"A validation of {share!r:.30} of {count} examples cannot be held out; it is a share "
            "between 0 and 1, or a pair (X, y)."
        )
    kinds, sizes = np.unique(labels[:, 0], return_counts=True)
    enough = sizes.min() > 1 and min(held, count - held) >= len(kinds)
    rows, held_out = train_test_split(
        np.arange(count),
        test_size=held,
        stratify=labels[:, 0] if enough and labels.shape[1] == 1 else None,
        random_state=seed,
    )
    return rows, held_out


@dataclass(frozen=True, kw_only=True, eq=False)
class ExamplesTask(FiniteTask):
    """Arrays per split: `<split>_inputs`, (N, T, dim) float32 vectors or (N, T) int64 symbols;
    `<split>_labels`, (N, R) classes, or (N, R) float32 numbers if `classes` is 1, as a regression
    has; and `<split>_lengths` (N,) if sequences end before T, of which the last token is read.

    `weights` (classes,) multiply the loss of each class.
    """

    weights: Tensor | None = None
    held: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def tensors(self, device: Device = "cpu") -> dict[str, Tensor]:
        """The arrays on `device`; nothing is written to a file."""
        if (name := str(device)) not in self.held:
            arrays = self.dataset.build()
            self.held[name] = {it: torch.from_numpy(arrays[it]).to(device) for it in arrays}
        return self.held[name]

    def digest(self) -> str:
        found: str = self.dataset.source["digest"]
        return found

    def labels(self, split: str) -> Tensor:
        return self.tensors()[f"{split}_labels"].flatten()

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        arrays = self.tensors(device)
        rows = rows.to(device, non_blocking=True)
        lengths = arrays.get(f"{split}_lengths")
        inputs, targets = arrays[f"{split}_inputs"][rows], arrays[f"{split}_labels"][rows]
        return batch(inputs, targets, None if lengths is None else lengths[rows])

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The squared error of a regression; else the cross-entropy times the class's weight."""
        if self.classes == 1:
            return (logits[..., 0].float() - targets).square()
        each = super().losses(logits, targets)
        return each if self.weights is None else each * self.weights.to(each.device)[targets]

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """1 minus the squared error of a regression: on average R², if the targets have variance 1;
        else 1 for the right class."""
        if self.classes == 1:
            return 1 - self.losses(logits, targets)
        return super().correct(logits, targets)

    def example(self, split: str, index: int) -> Example:
        arrays = self.tensors()
        return Example(
            answer=str(arrays[f"{split}_labels"][index].tolist()),
            text=str(arrays[f"{split}_inputs"][index].tolist()),
        )


def batch(inputs: Tensor, targets: Tensor, lengths: Tensor | None) -> Batch:
    """Inputs (K, B, T, ...), targets (K, B, R) and, if sequences end early, lengths (K, B)."""
    if lengths is None:
        return Batch(inputs, targets)
    real = torch.arange(inputs.shape[2], device=inputs.device) < lengths[..., None]
    return Batch(inputs, targets, last=lengths - 1, mask=real)


def examples_task(
    splits: Mapping[str, tuple[Sequences, np.ndarray]],
    classes: int,
    dim: int,
    name: str = "examples",
    weights: Sequence[float] | None = None,
) -> ExamplesTask:
    """The task of `splits`: of train, valid and test the sequences and their labels (N, R). `dim`
    is the width of a token or the number of symbols. The digest of these arrays and of the weights
    identifies it."""
    arrays: Arrays = {}
    for split, (given, labels) in splits.items():
        arrays |= {f"{split}_inputs": given.values, f"{split}_labels": labels}
        if given.lengths is not None:
            arrays[f"{split}_lengths"] = given.lengths
    if weights is not None:
        arrays["weights"] = np.asarray(weights, np.float32)
    digest = arrays_digest(arrays)
    return ExamplesTask(
        name=name,
        options={},
        dataset=Dataset(f"{name}-{digest[:16]}", {"source": "own", "digest": digest}, arrays.copy),
        kind=splits["train"][0].kind,
        dim=dim,
        length=max(given.values.shape[1] for given, _ in splits.values()),
        reads=arrays["train_labels"].shape[1],
        classes=classes,
        sizes={split: len(labels) for split, (_, labels) in splits.items()},
        random_order=("valid", "test"),
        weights=None if weights is None else torch.tensor(weights, dtype=torch.float32),
    )
