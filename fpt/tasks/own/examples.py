"""Examples in memory as a task: what `fpt.FrozenTransformer` fits, and a reader's own
arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base import Batch, Device, Example, FiniteTask
from ..datasets import Dataset, arrays_digest
from ..sequences import Padded, Sequences, batch
from .arrays import InputError, refused

# Inputs, as a user gave them or prepared, and labels (N, 1).
Data = tuple[Sequences, np.ndarray]
# `Sequences.tensors` and labels (N, 1).
Placed = tuple[Tensor, Tensor | None, Tensor]


def check_paired(inputs: Sequences, labels: np.ndarray) -> None:
    """InputError if inputs and labels (N, 1) do not belong together."""
    if len(inputs) != len(labels):
        raise InputError(f"X has {len(inputs)} examples and y has {len(labels)}.")


def hold_out(labels: np.ndarray, validation: Any, seed: int) -> tuple[np.ndarray, ...]:
    """Rows to train on, and rows to hold out: those of `validation`, or a share, with every
    class in both parts if there are enough. InputError for a share that leaves no part."""
    from sklearn.model_selection import train_test_split

    every_row = np.arange(len(labels))
    with refused("validation"):
        if np.ndim(validation):
            held_rows = every_row[validation]
            return np.setdiff1d(every_row, held_rows), held_rows
        if not 0 < validation < 1 or len(labels) < 2:
            raise ValueError(f"{validation!r} of {len(labels)} samples cannot be held out")
        count = max(1, round(validation * len(labels)))
        classes, sizes = np.unique(labels, return_counts=True)
        # scikit-learn refuses to stratify if a class cannot be in both parts.
        enough = sizes.min() > 1 and min(count, len(labels) - count) >= len(classes)
        rows, held_rows = train_test_split(
            every_row,
            test_size=count,
            stratify=labels if enough else None,
            random_state=seed % 2**32,  # as scikit-learn takes it
        )
    return rows, held_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ExamplesTask(FiniteTask):
    """Per split, sequences and their labels: (N, 1) classes, or (N, 1) float32 numbers if
    `classes` is 1, as a regression has. If lengths differ, the last token of each sequence
    is read.
    """

    splits: Mapping[str, Data] = field(default_factory=dict)
    _placed: dict[tuple[str, str], Placed] = field(default_factory=dict, init=False)

    def tensors(self, split: str, device: Device = "cpu") -> Placed:
        """`Sequences.tensors` of `split` and its labels (N, 1), moved to the device once;
        the starts stay on the CPU. Nothing is written to a file."""
        place = split, str(device)
        if place not in self._placed:
            sequences, labels = self.splits[split]
            values, starts = sequences.tensors()
            targets = torch.from_numpy(labels).to(device)
            self._placed[place] = values.to(device), starts, targets
        return self._placed[place]

    def digest(self) -> str:
        return str(self.dataset.source["digest"])

    def labels(self, split: str) -> Tensor:
        return self.tensors(split)[2].flatten()

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        values, starts, labels = self.tensors(split, device)
        targets = labels[rows.to(labels.device, non_blocking=True)]
        return batch(values, starts, rows, targets)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The squared error of a regression; else the cross-entropy."""
        if self.classes == 1:
            return (logits[..., 0].float() - targets).square()
        return super().losses(logits, targets)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """1 minus the squared error of a regression: on average R², if the targets have
        variance 1; else 1 for the right class."""
        if self.classes == 1:
            return 1 - self.losses(logits, targets)
        return super().correct(logits, targets)

    def example(self, split: str, index: int) -> Example:
        sequences, labels = self.splits[split]
        return Example(str(labels[index, 0]), text=str([*sequences][index].tolist()))


def divided_task(
    labelled: Data, rows: Mapping[str, np.ndarray], classes: int, name: str
) -> ExamplesTask:
    """The task of the examples `labelled` whose splits are `rows`."""
    inputs, labels = labelled
    # Moments of all examples would let the test examples leak into the training.
    moments = inputs.chosen(rows["train"]).moments()
    splits = {
        split: (inputs.chosen(chosen).prepared(moments), labels[chosen])
        for split, chosen in rows.items()
    }
    return examples_task(splits, classes, inputs.limits["dim"], name)


def examples_task(
    splits: Mapping[str, Data], classes: int, dim: int, name: str = "examples"
) -> ExamplesTask:
    """The task of `splits`: of train, valid and test the sequences and their labels (N, 1).
    `dim` is the width of a token or the number of symbols. The digest of these arrays
    identifies it, whatever they are stored as."""
    longest = max(int(sequences.lengths.max()) for sequences, _ in splits.values())
    content: dict[str, np.ndarray | Padded] = {}
    for split, (sequences, labels) in splits.items():
        content[f"{split}_inputs"] = Padded(sequences, longest)
        content[f"{split}_labels"] = labels
    lengths = {f"{split}_lengths": splits[split][0].lengths for split in splits}
    if any(length != longest for of_split in lengths.values() for length in of_split):
        content |= lengths
    digest = arrays_digest(content)

    return ExamplesTask(
        name=name,
        options={},
        dataset=Dataset(f"{name}-{digest[:16]}", {"source": "own", "digest": digest}, dict),
        kind=splits["train"][0].kind,
        dim=dim,
        length=longest,
        classes=classes,
        sizes={split: len(labels) for split, (_, labels) in splits.items()},
        random_order=("valid", "test"),
        splits=splits,
    )
