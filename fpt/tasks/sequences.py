"""Token sequences of different lengths, stored end to end, cut out and padded per batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, FiniteTask
from .datasets import Arrays, load

PAD = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceTask(FiniteTask):
    """Arrays per split: `<split>_tokens` (all end to end, uint8), `<split>_starts` (N + 1, int64),
    `<split>_labels` (N,), and `<split>_depths` (N,) if the examples are in groups.

    masked: a batch is padded to its own longest sequence, the padding is masked and the last real
    token is read. Otherwise nothing is masked and the last position is read, as in the released
    code; every sequence is padded to `length`, as the released code does for ListOps, but not for
    homology.
    """

    masked: bool = True

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        """Shortest sequences first, so that little is padded."""
        chosen = self.subset(split, count)
        lengths = load(self.dataset)[f"{split}_starts"].diff()
        for rows in chosen[lengths[chosen].sort(stable=True).indices].split(size):
            yield self.examples(split, rows[None], device)

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        # Lengths are looked up on the CPU: nobody waits for the device.
        host, arrays = load(self.dataset), load(self.dataset, device)
        starts = host[f"{split}_starts"]
        first, lengths = starts[rows], starts[rows + 1] - starts[rows]
        width = int(lengths.max()) if self.masked else self.length
        plan = torch.stack([rows, first, lengths]).to(device, non_blocking=True)
        rows, first, lengths = plan.unbind()

        position = torch.arange(width, device=device)
        real = position < lengths[..., None]
        tokens = arrays[f"{split}_tokens"]
        index = (first[..., None] + position).clamp(max=len(tokens) - 1)
        inputs = tokens[index].long().masked_fill(~real, PAD)
        targets = arrays[f"{split}_labels"][rows].long()[..., None]
        depths = arrays.get(f"{split}_depths")
        groups = None if depths is None else depths[rows].long()
        if not self.masked:
            return Batch(inputs, targets, groups=groups)
        return Batch(inputs, targets, last=lengths - 1, mask=real, groups=groups)

    def sequence(self, split: str, index: int) -> tuple[list[int], int]:
        """Tokens without padding and label of one example."""
        arrays = load(self.dataset)
        start, end = arrays[f"{split}_starts"][index : index + 2].tolist()
        return arrays[f"{split}_tokens"][start:end].tolist(), int(arrays[f"{split}_labels"][index])

    def linear_problem(self, split: str) -> tuple[Tensor, Tensor] | None:
        """How often each symbol occurs, under a root that evens out the variance."""
        arrays = load(self.dataset)
        lengths = arrays[f"{split}_starts"].diff()
        rows = torch.arange(len(lengths)).repeat_interleave(lengths)
        index = rows * self.dim + arrays[f"{split}_tokens"].long()
        counts = torch.bincount(index, minlength=len(lengths) * self.dim).view(-1, self.dim)
        return counts.float().sqrt(), self.labels(split)


def end_to_end(split: str, sequences: Sequence[np.ndarray], labels: np.ndarray) -> Arrays:
    """The arrays of one split from its sequences (tokens from 0 to 255) and labels. FptError for
    other tokens."""
    lengths = np.array([0, *map(len, sequences)], dtype=np.int64)
    tokens = np.concatenate(sequences)
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() <= 255):
        raise FptError(
            f"The tokens of split {split!r} are from {tokens.min()} to {tokens.max()}; sequences "
            "have tokens from 0 to 255, so use a smaller vocabulary, such as the bytes of a text."
        )
    return {
        f"{split}_tokens": tokens.astype(np.uint8),
        f"{split}_starts": lengths.cumsum(),
        f"{split}_labels": labels,
    }
