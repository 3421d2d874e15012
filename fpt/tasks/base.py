"""What a task is: splits, token form, the positions read, classes and trivial baselines.

The rest of the library uses a task through `Task`. A new task is one file with a factory,
and one line in the registry of `fpt.tasks`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FptError, check_names
from .datasets import Dataset, dataset_digest, load, prepared_path, read_manifest
from .rng import generator

Device = torch.device | str
Kind = Literal["vector", "token"]
LARGEST_OPTION = 2**31 - 1


@dataclass(frozen=True)
class Batch:
    """Tensors of K packed runs: leading axes (K, B); evaluation batches have K = 1."""

    inputs: Tensor  # vectors: (K, B, T, dim) float32; tokens: (K, B, T) int64
    targets: Tensor  # (K, B, R) int64, R = task.reads * task.answers
    last: Tensor | None = None  # (K, B) position read if lengths differ; None: last `reads`
    mask: Tensor | None = None  # (K, B, T) bool, True = real token; None: all real

    def to(self, device: Device) -> "Batch":
        """The same examples on a device."""
        tensors = {
            name: tensor for name, tensor in vars(self).items() if tensor is not None
        }
        return Batch(**{name: tensor.to(device) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class Example:
    """One example to look at: an image in [0, 1] (H, W, channels), or text."""

    answer: str
    image: Tensor | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Task(ABC):
    """One sequence task. Constructing it reads no data; the first batch does."""

    name: str
    options: dict[str, Any]  # every option, defaults filled in
    kind: Kind
    dim: int  # token width (vector) or vocabulary size (token)
    length: int  # tokens of the longest sequence
    padded: int = 0  # tokens of a training example with its padding, about; 0: `length`
    reads: int = 1  # positions read, counted from the end
    answers: int = 1  # answers per position read
    classes: int  # classes per answer
    sizes: dict[str, int]  # examples per split; 0: endless
    random_order: tuple[str, ...] = ()  # splits whose examples are stored in random order
    augmented: bool = False  # whether the released code augments its training images
    fitting: bool = False  # whether training sees every test input: tests measure fitting
    dataset: Dataset | None = None  # None if the examples are generated while training

    @property
    def identity(self) -> dict[str, Any]:
        """What is learned, as JSON: name, options, and where the data come from. Reads no
        data."""
        return {"name": self.name, "options": self.options, "data": self.source()}

    @abstractmethod
    def source(self) -> dict[str, Any]:
        """Source, revision and preparation version of the data, as JSON."""

    @property
    def needs(self) -> str | None:
        """Where the data come from: "the hub", "a corpus", or None if they are generated or
        part of an installed package."""
        source = self.source()
        if "revision" in source:
            return "the hub"
        return "a corpus" if "corpus" in source else None

    @abstractmethod
    def train_batch(
        self,
        seeds: Sequence[int],
        step: int,
        size: int,
        device: Device,
        augment: bool = False,
    ) -> Batch:
        """Training batch number `step` (from 0) of the runs `seeds`: K = len(seeds), B =
        size. `augment` transforms its images if the task is `augmented`."""

    @abstractmethod
    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        """The examples `rows` (K, B), int64 on the CPU, of `split` as a batch on
        `device`."""

    def eval_batches(
        self,
        split: str,
        size: int,
        device: Device,
        count: int = 0,
    ) -> Iterator[Batch]:
        """The examples `subset(split, count)` once, in a fixed order, K = 1; the last batch
        may be short."""
        for rows in self.subset(split, count).split(size):
            yield self.examples(split, rows[None], device)

    def subset(self, split: str, count: int) -> Tensor:
        """(count,) int64, ascending: the examples of `split` that are evaluated; all of
        them if `count` is 0 or the split is not larger. FptError if there is no such
        split."""
        if split not in self.sizes:
            raise FptError(
                f"task {self.name!r} has no split {split!r}; its splits are "
                f"{', '.join(self.sizes)}."
            )
        size = self.sizes[split]
        if not 0 < count < size:
            return torch.arange(size)
        if split in self.random_order:
            return torch.arange(count)
        # One random example from each of `count` equal parts of the split, the same for
        # every run: if the examples are sorted by label, every class still has its share.
        borders = torch.arange(count + 1) * size // count
        draw = generator("cpu", "subset", self.name, split, size, count)
        place = torch.rand(count, generator=draw, dtype=torch.float64)
        return borders[:-1] + (place * borders.diff()).long()

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the data (finite sets) or of the validation and test sets
        (generated)."""

    @abstractmethod
    def floors(self) -> dict[str, float]:
        """Test accuracy in [0, 1] of each trivial baseline."""

    @abstractmethod
    def example(self, split: str, index: int) -> Example:
        """Example `index` of `split`, to be shown."""

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The cross-entropy of every answer in nats, (K, B, R), from logits (K, B, R,
        classes) and targets (K, B, R)."""
        flat = logits.flatten(0, 2).float()
        losses = F.cross_entropy(flat, targets.flatten(), reduction="none")
        return losses.view(targets.shape)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Whether every answer is right, (K, B, R) float."""
        return (logits.argmax(-1) == targets).float()

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Scores other than accuracy, from logits (K, B, R, classes): (K, B, R) float each,
        NaN for answers that do not count."""
        return {}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FiniteTask(Task):
    """A task over a prepared data set; its training order is one permutation per epoch."""

    dataset: Dataset

    def train_batch(
        self,
        seeds: Sequence[int],
        step: int,
        size: int,
        device: Device,
        augment: bool = False,
    ) -> Batch:
        """Training batch number `step` (from 0) of the runs `seeds`, each in its own
        order."""
        rows = order(self.sizes["train"], seeds, step, size)
        return self.examples("train", rows, device)

    def source(self) -> dict[str, Any]:
        """Source, revision and preparation version of the data set, as JSON."""
        return self.dataset.source

    def digest(self) -> str:
        """SHA-256 of the arrays of the data set."""
        return dataset_digest(self.dataset)

    def floors(self) -> dict[str, float]:
        """The trivial baselines in the manifest, if it has them for as many training
        examples; else they are measured. FptError if that needs data that would have to be
        fetched."""
        recorded = self.recorded_floors()
        if recorded is not None:
            return recorded
        if not self.here:
            raise FptError(
                f"The trivial baselines of task {self.name!r} follow from its data, which "
                f"are not here: `fpt data {self.name}` takes them from {self.needs}."
            )
        return self.measure_floors()

    def recorded_floors(self) -> dict[str, float] | None:
        """The trivial baselines in the manifest, None if it has none for as many training
        examples: it has those of all of them, not of a part."""
        entry = read_manifest().get(self.dataset.key)
        if entry is None or entry["examples"]["train"] != self.sizes["train"]:
            return None
        return entry["floors"].get(self.name)

    @property
    def here(self) -> bool:
        """Whether the data are prepared, or can be without fetching anything."""
        return self.needs is None or prepared_path(self.dataset).exists()

    def labels(self, split: str) -> Tensor:
        """(N,) int64 in the order of the data set."""
        return load(self.dataset)[f"{split}_labels"].long()

    def measure_floors(self) -> dict[str, float]:
        """Test accuracy of the trivial baselines that need no iterative fit: `majority`
        always answers the most frequent training label."""
        majority = torch.bincount(self.labels("train"), minlength=self.classes).argmax()
        is_right = self.labels("test") == majority
        return {"majority": is_right.double().mean().item()}


def resolve(
    name: str,
    options: Mapping[str, Any],
    allowed: Mapping[str, Any],
    unless_said: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The `options` of task `name`, with the defaults of those that are left out.

    `allowed` has each option's default, which is a whole number, or a tuple of all its
    values, the default first; None is a number that follows from other options. Options
    `unless_said` came later: at their default they are left out, so that the identity of
    the task, and the keys of its runs, are what they were before. FptError for an unknown
    name or a wrong value.
    """
    later = unless_said or {}
    allowed = {**allowed, **later}
    check_names(f"option of task {name!r}", options, allowed)
    defaults = {}
    for key, default in allowed.items():
        choices = default if isinstance(default, tuple) else None
        defaults[key] = choices[0] if choices else default
        if key not in options:
            continue
        value = options[key]
        if choices:
            valid = value in choices and type(value) is type(choices[0])
            expected = f"one of {', '.join(map(repr, choices))}"
        else:
            valid = type(value) is int and 1 <= value <= LARGEST_OPTION
            expected = f"a whole number from 1 to {LARGEST_OPTION}"
        if not valid:
            raise FptError(
                f"option {key!r} of task {name!r} must be {expected}, not {value!r}."
            )
    resolved = {**defaults, **options}
    return {key: resolved[key] for key in resolved if resolved[key] != later.get(key, ...)}


# All seeds of a pack ask again at each step of an epoch.
@lru_cache(maxsize=128)
def permutation(count: int, seed: int, epoch: int) -> Tensor:
    """(count,) int64: the order of `epoch` in the run `seed`, drawn on the CPU."""
    return torch.randperm(count, generator=generator("cpu", seed, "order", epoch))


def order(
    count: int,
    seeds: Sequence[int],
    step: int,
    size: int,
) -> Tensor:
    """(K, size) int64: the examples of training batch `step`; one epoch follows another
    without a gap."""
    start = step * size
    first_epoch = start // count
    last_epoch = (start + size - 1) // count
    rows = []
    for seed in seeds:
        epochs = [
            permutation(count, seed, epoch) for epoch in range(first_epoch, last_epoch + 1)
        ]
        rows.append(torch.cat(epochs)[start - first_epoch * count :][:size])
    return torch.stack(rows)
