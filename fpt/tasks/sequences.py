"""Sequences of different lengths: stored end to end, cut out and padded per batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FptError
from .base import Batch, Device, FiniteTask, Kind
from .datasets import Arrays, load

# The mean and standard deviation of each number of a token, (D,).
Moments = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sequences:
    """Sequences of vectors, which are floats, or of symbols, which are whole numbers, end
    to end: sequence i is `tokens[starts[i] : starts[i + 1]]`."""

    tokens: np.ndarray  # (sum of T, D) or (sum of T,)
    starts: np.ndarray  # (N + 1,) int64

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.tokens, self.starts[1:-1]))

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int64."""
        return np.diff(self.starts)

    @property
    def kind(self) -> Kind:
        return "vector" if self.tokens.dtype.kind == "f" else "token"

    @cached_property
    def limits(self) -> dict[str, Any]:
        """Their kind, the width of a token or one more than the largest symbol, and the
        least and longest length."""
        is_vector = self.kind == "vector"
        return {
            "kind": self.kind,
            "dim": self.tokens.shape[-1] if is_vector else 1 + int(self.tokens.max()),
            "shortest": int(self.lengths.min()),
            "length": int(self.lengths.max()),
        }

    def chosen(self, rows: np.ndarray) -> "Sequences":
        """The sequences `rows`."""
        parts = [self.tokens[self.starts[row] : self.starts[row + 1]] for row in rows]
        starts = np.concatenate([[0], self.lengths[rows].cumsum()])
        return Sequences(np.concatenate(parts), starts)

    def moments(self) -> Moments | None:
        """The moments of the vectors, in float64; the deviation of a constant is taken for
        1. None for symbols."""
        from sklearn.preprocessing import StandardScaler

        if self.kind == "token":
            return None
        scaler = StandardScaler().fit(self.tokens.astype(float))
        return scaler.mean_, scaler.scale_

    def prepared(self, moments: Moments | None = None) -> "Sequences":
        """The sequences as they are trained on: vectors minus the mean, divided by the
        deviation, in float32; symbols in the smallest type."""
        tokens = self.tokens
        if moments is not None:
            # One array as large as the examples, not one for each operation.
            tokens = tokens - moments[0]
            tokens /= moments[1]
        dtype: type = np.uint8 if self.limits["dim"] <= 256 else np.int32
        # Infinity is noticed in the answers of the network.
        with np.errstate(over="ignore"):
            tokens = tokens.astype(np.float32 if self.kind == "vector" else dtype)
        return Sequences(tokens, self.starts)

    def tensors(self) -> tuple[Tensor, Tensor | None]:
        """`tokens` and `starts`, in the same memory; (N, T, D) or (N, T) and None if all
        have one length, since nothing is padded then."""
        tokens = torch.from_numpy(self.tokens)
        if (self.lengths == self.lengths[0]).all():
            return tokens.unflatten(0, (len(self), -1)), None
        return tokens, torch.from_numpy(self.starts)


def batch(
    values: Tensor,
    starts: Tensor | None,
    rows: Tensor,
    targets: Tensor,
) -> Batch:
    """The sequences `rows` (K, B) of `Sequences.tensors`, with targets (K, B, R), on the
    device of `values`. If lengths differ, they are padded by 0 to the longest of these, and
    the last token of each is read. `starts` and `rows` are on the CPU, so that nothing
    waits for a device."""
    device = values.device
    if starts is None:
        inputs = values[rows.to(device, non_blocking=True)]
        return Batch(inputs if inputs.is_floating_point() else inputs.long(), targets)
    lengths = starts[rows + 1] - starts[rows]
    position = torch.arange(int(lengths.max()), device=device)
    # One copy for both, because each copy to a GPU costs as much as a small kernel.
    both = torch.stack([starts[rows], lengths])
    first, lengths = both.to(device, non_blocking=True).unbind()
    real = position < lengths[..., None]
    # Padding reads the first value of all, which is cleared then.
    inputs = values[(first[..., None] + position).where(real, 0)]
    if inputs.is_floating_point():
        inputs = inputs.masked_fill(~real[..., None], 0)
    else:
        inputs = inputs.long().masked_fill(~real, 0)
    return Batch(inputs, targets, last=lengths - 1, mask=real)


@dataclass(frozen=True)
class Padded:
    """Sequences as one array, padded by 0 to `length`: (N, T, D) float32 or (N, T) int64.

    A task is identified by the digest of this array, however its sequences are stored. The
    array is never made, because one long sequence may make it many times larger than its
    sequences.
    """

    sequences: Sequences
    length: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.sequences.kind == "vector" else np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.sequences), self.length, *self.sequences.tokens.shape[1:]

    def parts(self) -> Iterator[np.ndarray]:
        """One sequence after another, (T, D) or (T,)."""
        for sequence in self.sequences:
            padded = np.zeros(self.shape[1:], self.dtype)
            padded[: len(sequence)] = sequence
            yield padded


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SequenceTask(FiniteTask):
    """Arrays per split: `<split>_tokens` (all end to end, uint8), `<split>_starts` (N + 1,
    int64) and `<split>_labels` (N,).

    masked: a batch is padded to its own longest sequence, the padding is masked and the
    last real token is read. Otherwise every sequence is padded to `length`, nothing is
    masked and the last position is read; the released code does so for ListOps, but pads
    homology per batch.
    """

    kind: Kind = "token"
    masked: bool = True

    def eval_batches(
        self,
        split: str,
        size: int,
        device: Device,
        count: int = 0,
    ) -> Iterator[Batch]:
        """Shortest sequences first, so that little is padded."""
        chosen = self.subset(split, count)
        lengths = load(self.dataset)[f"{split}_starts"].diff()
        by_length = chosen[lengths[chosen].sort(stable=True).indices]
        for rows in by_length.split(size):
            yield self.examples(split, rows[None], device)

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        # On the CPU, so that `batch` does not wait for a device to know its width.
        starts = load(self.dataset)[f"{split}_starts"]
        arrays = load(self.dataset, device)
        labels = arrays[f"{split}_labels"][rows.to(device, non_blocking=True)]
        targets = labels.long()[..., None]
        examples = batch(arrays[f"{split}_tokens"], starts, rows, targets)
        if self.masked:
            return examples
        padding = self.length - examples.inputs.shape[-1]
        return Batch(F.pad(examples.inputs, (0, padding)), targets)

    def sequence(self, split: str, index: int) -> tuple[list[int], int]:
        """Tokens without padding and label of one example."""
        arrays = load(self.dataset)
        start, end = arrays[f"{split}_starts"][index : index + 2].tolist()
        tokens = arrays[f"{split}_tokens"][start:end]
        return tokens.tolist(), int(arrays[f"{split}_labels"][index])


def end_to_end(split: str, sequences: Sequence[np.ndarray], labels: np.ndarray) -> Arrays:
    """The arrays of one split from its sequences (tokens from 0 to 255) and labels.
    FptError for other tokens."""
    lengths = np.array([0, *map(len, sequences)], dtype=np.int64)
    tokens = np.concatenate(sequences)
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() <= 255):
        raise FptError(
            f"The tokens of split {split!r} are from {tokens.min()} to {tokens.max()}; "
            "sequences have tokens from 0 to 255, so use a smaller vocabulary, such as "
            "the bytes of a text."
        )
    return {
        f"{split}_tokens": tokens.astype(np.uint8),
        f"{split}_starts": lengths.cumsum(),
        f"{split}_labels": labels,
    }
