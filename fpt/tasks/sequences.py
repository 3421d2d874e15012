"""Token sequences of different lengths, stored end to end, cut out and padded per batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, FiniteTask, majority, order
from .datasets import Arrays, check_array, check_below, load

PAD = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceTask(FiniteTask):
    """Arrays per split: `<split>_tokens` (all end to end, uint8), `<split>_starts` (N + 1, int64),
    `<split>_labels` (N,).

    masked: a batch is padded to its own longest sequence, the padding is masked and the last real
    token is read. Otherwise nothing is masked and the last position is read, as in the released
    code; every sequence is padded to `length`, as the released code does for ListOps, but not for
    homology.
    """

    masked: bool = True

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        # The order is looked up on the CPU, where the lengths are known without waiting for the
        # device.
        rows = order(len(load(self.dataset)["train_labels"]), seeds, step, size, "cpu")
        return self._batch("train", rows, device)

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        """Shortest sequences first, so that little is padded."""
        self.check_split(split)
        lengths = load(self.dataset)[f"{split}_starts"].diff()
        chosen = self.subset(split, count) if count else torch.arange(len(lengths))
        for rows in chosen[lengths[chosen].sort(stable=True).indices].split(size):
            yield self._batch(split, rows[None], device)

    def _batch(self, split: str, rows: Tensor, device: Device) -> Batch:
        host, there = load(self.dataset), load(self.dataset, device)
        starts = host[f"{split}_starts"]
        first, lengths = starts[rows], starts[rows + 1] - starts[rows]
        width = int(lengths.max()) if self.masked else self.length
        plan = torch.stack([rows, first, lengths]).to(device, non_blocking=True)
        rows, first, lengths = plan.unbind()

        position = torch.arange(width, device=device)
        real = position < lengths[..., None]
        tokens = there[f"{split}_tokens"]
        index = (first[..., None] + position).clamp(max=len(tokens) - 1)
        inputs = tokens[index].long().masked_fill(~real, PAD)
        targets = there[f"{split}_labels"][rows].long()[..., None]
        groups = self.groups(there, split, rows)
        if not self.masked:
            return Batch(inputs, targets, groups=groups)
        return Batch(inputs, targets, last=lengths - 1, mask=real, groups=groups)

    def groups(self, arrays: dict[str, Tensor], split: str, rows: Tensor) -> Tensor | None:
        return None

    def sequence(self, split: str, index: int) -> tuple[list[int], int]:
        """Tokens without padding and label of one example."""
        self.check_split(split)
        arrays = load(self.dataset)
        start, end = arrays[f"{split}_starts"][index : index + 2].tolist()
        return arrays[f"{split}_tokens"][start:end].tolist(), int(arrays[f"{split}_labels"][index])

    def measure_floors(self) -> dict[str, float]:
        arrays = load(self.dataset)
        best = majority(arrays["train_labels"], arrays["test_labels"], self.classes)
        return {"majority": best}

    def labels(self, split: str) -> Tensor:
        return load(self.dataset)[f"{split}_labels"].long()


def composition(arrays: Mapping[str, Tensor], split: str, symbols: int) -> Tensor:
    """(N, symbols) float32: how often each symbol occurs in each sequence of a split, under a root
    that evens out the variance."""
    lengths = arrays[f"{split}_starts"].diff()
    rows = torch.arange(len(lengths)).repeat_interleave(lengths)
    index = rows * symbols + arrays[f"{split}_tokens"].long()
    return torch.bincount(index, minlength=len(lengths) * symbols).view(-1, symbols).float().sqrt()


def check_sequences(
    arrays: Arrays,
    splits: Iterable[str],
    symbols: int,
    longest: int,
    classes: int,
    labels: str = "uint8",
    others: Sequence[str] = (),
) -> None:
    """ValueError where arrays are not those of a SequenceTask with these splits: sequences of 1 to
    `longest` tokens below `symbols`, `labels` of that type below `classes`, and for each name in
    `others` one uint8 per sequence."""
    for split in splits:
        tokens = check_array(arrays, f"{split}_tokens", "uint8", (None,))
        check_below(f"{split}_tokens", tokens, symbols)
        starts = check_array(arrays, f"{split}_starts", "int64", (None,))
        lengths = np.diff(starts)
        if len(starts) < 2 or starts[0] or starts[-1] != len(tokens) or lengths.min() < 1:
            raise ValueError(f"'{split}_starts' does not cut {len(tokens)} tokens into sequences")
        if lengths.max() > longest:
            raise ValueError(f"a sequence of {split!r} has {lengths.max()} tokens, not {longest}")
        answers = check_array(arrays, f"{split}_labels", labels, (len(lengths),))
        check_below(f"{split}_labels", answers, classes)
        for name in others:
            check_array(arrays, f"{split}_{name}", "uint8", (len(lengths),))


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
