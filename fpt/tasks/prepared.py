"""Sequences that are ready for a network: standardised vectors, or symbols in the smallest type."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .base import Batch, Kind

PART = 2**20  # numbers that are converted at a time, 8 MB in float64


@dataclass(frozen=True)
class Sequences:
    """Prepared sequences: float32 vectors or whole numbers, symbols, in the smallest type.

    `values` is (N, T, D) or (N, T) if all have one length; otherwise (sum of T, D) or (sum of T,),
    end to end, and sequence i is `values[starts[i] : starts[i + 1]]`.
    """

    values: np.ndarray
    starts: np.ndarray | None = None  # (N + 1,) int64

    def __len__(self) -> int:
        return len(self.values) if self.starts is None else len(self.starts) - 1

    def __getitem__(self, rows: slice) -> "Sequences":
        """Neighbouring sequences, in the same memory."""
        if self.starts is None:
            return Sequences(self.values[rows])
        starts = self.starts[rows.start : rows.stop + 1]
        return Sequences(self.values[starts[0] : starts[-1]], starts - starts[0])

    @property
    def lengths(self) -> np.ndarray:
        """(N,) int64."""
        if self.starts is None:
            return np.full(len(self), self.values.shape[1])
        return np.diff(self.starts)

    @property
    def kind(self) -> Kind:
        return "vector" if self.values.dtype == np.float32 else "token"

    def with_unknown(self, symbols: np.ndarray, unknown: int) -> "Sequences":
        """Symbols that are not among `symbols` as the symbol `unknown`."""
        values = self.values.astype(np.int32) if unknown > 255 else self.values
        return Sequences(np.where(np.isin(values, symbols), values, unknown), self.starts)

    def tensors(self) -> tuple[Tensor, Tensor | None]:
        """`values` and `starts`, in the same memory."""
        starts = None if self.starts is None else torch.from_numpy(self.starts)
        return torch.from_numpy(self.values), starts


def batch(values: Tensor, starts: Tensor | None, rows: Tensor, targets: Tensor) -> Batch:
    """The sequences `rows` (K, B) of `Sequences.tensors`, with targets (K, B, R), on the device of
    `values`. If lengths differ, they are padded by 0 to the longest of these, and the last token of
    each is read. `starts` and `rows` are on the CPU, so that nothing waits for a device."""
    device = values.device
    if starts is None:
        inputs = values[rows.to(device, non_blocking=True)]
        return Batch(inputs if inputs.is_floating_point() else inputs.long(), targets)
    lengths = starts[rows + 1] - starts[rows]
    width = int(lengths.max())
    first, lengths = torch.stack([starts[rows], lengths]).to(device, non_blocking=True).unbind()
    position = torch.arange(width, device=device)
    real = position < lengths[..., None]
    inputs = values[(first[..., None] + position).where(real, 0)]
    if inputs.is_floating_point():
        inputs = inputs.masked_fill(~real[..., None], 0)
    else:
        inputs = inputs.long().masked_fill(~real, 0)
    return Batch(inputs, targets, last=lengths - 1, mask=real)


@dataclass(frozen=True)
class Padded:
    """Sequences as one array, padded by 0 to `length`, that is made in parts: (N, T, D) float32 or
    (N, T) int64. A task is identified by the digest of this array, however its sequences are
    stored."""

    sequences: Sequences
    length: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.sequences.kind == "vector" else np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        inner = self.sequences.values.shape[2 if self.sequences.starts is None else 1 :]
        return len(self.sequences), self.length, *inner

    def parts(self) -> Iterator[np.ndarray]:
        """Blocks of whole sequences, (n, T, ...)."""
        count, *inner = self.shape
        size = max(1, PART // int(np.prod(inner)))
        lengths = self.sequences.lengths
        tokens = self.sequences.values.reshape(lengths.sum(), *inner[1:])
        ends = lengths.cumsum()
        for first in range(0, count, size):
            block = np.zeros((min(size, count - first), *inner), self.dtype)
            for row, (padded, end) in enumerate(zip(block, ends[first:], strict=False), first):
                padded[: lengths[row]] = tokens[end - lengths[row] : end]
            yield block

    def whole(self) -> np.ndarray:
        return np.concatenate(list(self.parts()))
