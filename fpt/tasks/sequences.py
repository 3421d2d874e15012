"""Token sequences of different lengths, stored end to end, cut out and padded per batch; among
them texts as sequences of their UTF-8 bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, FiniteTask, Kind
from .datasets import Arrays, load

PAD = 0
SYMBOLS = 256  # of a text: its bytes; none is 0, which pads and separates the texts of a pair


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SequenceTask(FiniteTask):
    """Arrays per split: `<split>_tokens` (all end to end, uint8), `<split>_starts` (N + 1, int64),
    `<split>_labels` (N,), and `<split>_depths` (N,) if the examples are in groups.

    masked: a batch is padded to its own longest sequence, the padding is masked and the last real
    token is read. Otherwise every sequence is padded to `length`, nothing is masked and the last
    position is read; the released code does so for ListOps, but pads homology per batch.
    """

    kind: Kind = "token"
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
        # Lengths are looked up on the CPU, so that nothing waits for the device.
        starts, arrays = load(self.dataset)[f"{split}_starts"], load(self.dataset, device)
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TextTask(SequenceTask):
    """Texts, or pairs of texts, as sequences of their bytes."""

    dim: int = SYMBOLS
    names: tuple[str, ...]  # of the classes

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        texts = [text.decode("utf-8", "replace") for text in bytes(tokens).split(b"\0")]
        return Example(answer=self.names[label], text=" | ".join(texts))


def encode(length: int, text: str, other: str | None = None) -> np.ndarray:
    """The bytes of `text`, or of `text`, byte 0 and `other`: uint8, 1 to `length` of them. Of two
    texts that are too long together, each is cut to half, or to what the other leaves."""
    first = _bytes(text)
    if other is None:
        return np.frombuffer(first[:length], np.uint8)
    second, left = _bytes(other), length - 1
    first = first[: max(left // 2, left - len(second))]
    return np.frombuffer(first + b"\0" + second[: left - len(first)], np.uint8)


def _bytes(text: str) -> bytes:
    return text.replace("\0", " ").encode() or b" "
