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
from ..sequences import Moments, Padded, Sequences, batch
from .arrays import InputError

# Inputs, as a user gave them or prepared, and labels (N, R).
Data = tuple[Sequences, np.ndarray]


@dataclass(frozen=True)
class Division:
    """Training and held-out examples, and what they determine: the width of a token, or the
    number of symbols, in both; of the training examples alone the moments of the vectors or
    the different symbols."""

    train: Data
    valid: Data
    dim: int
    moments: Moments | None
    symbols: np.ndarray | None


def divided(labelled: Data, validation: Data | float, seed: int) -> Division:
    """The examples `labelled`, with those of `validation` or a share of them held out."""
    inputs, labels = labelled
    check_paired(inputs, labels)
    if len(inputs) < 2:
        raise InputError("X has 1 sample, and a fit needs at least 2.")
    if isinstance(validation, tuple) and len(validation) == 2:
        held_inputs, held_labels = validation
        check_paired(held_inputs, held_labels)
        if held_labels.shape[1] != labels.shape[1]:
            raise InputError(
                f"y has {labels.shape[1]} answers each, but {held_labels.shape[1]} in "
                "validation."
            )
        rows = np.arange(len(inputs))
        held_rows = np.arange(len(held_inputs))
    else:
        held_inputs, held_labels = labelled
        rows, held_rows = hold_out(labels, validation, seed)
    training = inputs.chosen(rows)
    # Of training examples alone: held-out ones must not leak into what is computed from
    # them.
    moments = training.moments()
    symbols = None
    if inputs.kind == "token":
        # torch takes uint8 for a mask.
        symbols = np.unique(training.tokens).astype(np.int64)
    return Division(
        train=(training.prepared(moments), labels[rows]),
        valid=(held_inputs.chosen(held_rows).prepared(moments), held_labels[held_rows]),
        dim=max(inputs.limits["dim"], held_inputs.limits["dim"]),
        moments=moments,
        symbols=symbols,
    )


def check_paired(inputs: Sequences, labels: np.ndarray) -> None:
    """InputError if inputs and labels (N, R) do not belong together."""
    if len(inputs) != len(labels):
        raise InputError(f"X has {len(inputs)} examples and y has {len(labels)}.")
    answers = labels.shape[1]
    if answers > 1 and (inputs.lengths != answers).any():
        raise InputError(
            f"y has {answers} answers for sequences of up to {inputs.lengths.max()} "
            "tokens; it should have one for each sequence, or one for each token of "
            "sequences of equal length."
        )


def hold_out(labels: np.ndarray, share: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and a share to hold out, with every class in both if there are
    enough."""
    from sklearn.model_selection import train_test_split

    count = len(labels)
    is_share = isinstance(share, float | np.floating) and 0 < share < 1
    held_count = max(1, round(share * count)) if is_share else count
    if held_count >= count:
        raise InputError(
            f"A validation of {share!r:.30} of {count} examples cannot be held out; it is "
            "a share between 0 and 1, or a pair (X, y)."
        )
    classes, sizes = np.unique(labels[:, 0], return_counts=True)
    # scikit-learn refuses to stratify if a class cannot be in both parts.
    enough = sizes.min() > 1 and min(held_count, count - held_count) >= len(classes)
    rows, held_rows = train_test_split(
        np.arange(count),
        test_size=held_count,
        stratify=labels[:, 0] if enough and labels.shape[1] == 1 else None,
        random_state=seed % 2**32,  # as scikit-learn takes it
    )
    return rows, held_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ExamplesTask(FiniteTask):
    """Per split, sequences and their labels: (N, R) classes, or (N, R) float32 numbers if
    `classes` is 1, as a regression has. If lengths differ, the last token of each sequence
    is read.
    """

    splits: Mapping[str, Data] = field(default_factory=dict)
    _placed: dict[tuple[str, str], tuple[Tensor, Tensor | None, Tensor]] = field(
        default_factory=dict, init=False
    )

    def tensors(
        self, split: str, device: Device = "cpu"
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """`Sequences.tensors` of `split` and its labels (N, R), moved to the device once;
        the starts stay on the CPU. Nothing is written to a file."""
        place = split, str(device)
        if place not in self._placed:
            sequences, labels = self.splits[split]
            values, starts = sequences.tensors()
            self._placed[place] = (
                values.to(device),
                starts,
                torch.from_numpy(labels).to(device),
            )
        return self._placed[place]

    def digest(self) -> str:
        return str(self.dataset.source["digest"])

    def labels(self, split: str) -> Tensor:
        return self.tensors(split)[2].flatten()

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        values, starts, labels = self.tensors(split, device)
        return batch(
            values,
            starts,
            rows,
            labels[rows.to(labels.device, non_blocking=True)],
        )

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
        tokens = list(sequences)[index]
        return Example(str(labels[index].tolist()), text=str(tokens.tolist()))


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
    splits: Mapping[str, Data],
    classes: int,
    dim: int,
    name: str = "examples",
) -> ExamplesTask:
    """The task of `splits`: of train, valid and test the sequences and their labels (N, R).
    `dim` is the width of a token or the number of symbols. The digest of these arrays
    identifies it, whatever they are stored as."""
    lengths = {split: sequences.lengths for split, (sequences, _) in splits.items()}
    longest = max(int(of_split.max()) for of_split in lengths.values())
    content: dict[str, np.ndarray | Padded] = {}
    for split, (sequences, labels) in splits.items():
        content[f"{split}_inputs"] = Padded(sequences, longest)
        content[f"{split}_labels"] = labels
    if any((of_split != longest).any() for of_split in lengths.values()):
        content |= {f"{split}_lengths": of_split for split, of_split in lengths.items()}
    digest = arrays_digest(content)

    return ExamplesTask(
        name=name,
        options={},
        dataset=Dataset(
            f"{name}-{digest[:16]}",
            {"source": "own", "digest": digest},
            dict,
        ),
        kind=splits["train"][0].kind,
        dim=dim,
        length=longest,
        reads=splits["train"][1].shape[1],
        classes=classes,
        sizes={split: len(labels) for split, (_, labels) in splits.items()},
        random_order=("valid", "test"),
        splits=splits,
    )
