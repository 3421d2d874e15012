"""What a task is: splits, token form, the positions read, classes and floors (design of tasks).

A task is used through `Task`; adding one means one file with a factory and one line in the
registry of `fpt.tasks`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from ..files import FptError
from .datasets import Dataset, arrays_digest, dataset_digest, manifest_entry, prepared_path
from .rng import generator

Device = torch.device | str


@dataclass(frozen=True)
class Batch:
    """Tensors of K packed runs: leading axes (K, B); evaluation batches have K = 1."""

    inputs: Tensor  # (K, B, T, dim) float32 for kind "vector", (K, B, T) int64 for kind "token"
    targets: Tensor  # (K, B, R) int64, R = task.reads * task.answers
    last: Tensor | None = None  # (K, B) position read where lengths differ; None: last `reads`
    mask: Tensor | None = None  # (K, B, T) bool, True = real token; None: all real
    groups: Tensor | None = None  # (K, B) int64 group of each example (ListOps: its depth)


@dataclass(frozen=True)
class Example:
    """One example as a person sees it: an image in [0, 1] (H, W, channels), or text."""

    answer: str
    image: Tensor | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Task(ABC):
    """One sequence task. Constructing it reads no data; the first batch does."""

    name: str
    options: dict[str, Any]  # every option, defaults filled in
    kind: Literal["vector", "token"]
    dim: int  # token width (vector) or vocabulary size (token)
    length: int  # tokens of the longest sequence
    reads: int = 1  # positions read, counted from the end
    answers: int = 1  # answers per position read
    classes: int  # classes per answer
    sizes: dict[str, int]  # examples per split; 0: endless
    augmented: bool = False  # whether the released code augments this task's training images

    @property
    def identity(self) -> dict[str, Any]:
        """What is learned, as JSON: name, options, and where the data come from. Reads no data."""
        return {"name": self.name, "options": self.options, "data": self.source()}

    @abstractmethod
    def source(self) -> dict[str, Any]:
        """Source, revision and preparation version of the data, as JSON."""

    @property
    def fitting(self) -> bool:
        """Whether training sees every input of the test set, so that its accuracy is one of
        fitting."""
        return False

    @property
    def needs(self) -> str | None:
        """Where data come from that are neither generated nor in an installed package."""
        source = self.source()
        return "the hub" if "revision" in source else "a corpus" if "corpus" in source else None

    @abstractmethod
    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        """Training batch number `step` (from 0) of the runs `seeds`: K = len(seeds), B = size;
        with `augment` its images are transformed, if the task is one that is `augmented`."""

    @abstractmethod
    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        """The examples `subset(split, count)` once, in a fixed order, K = 1; the last batch may be
        short."""

    def in_random_order(self, split: str) -> bool:
        """Whether the examples of `split` are stored in random order, so that the first of them are
        a random subset."""
        return False

    def subset(self, split: str, count: int) -> Tensor:
        """(count,) int64, ascending: which examples of `split` stand for it if only `count` are
        evaluated; all of them if `count` is 0 or the split is not larger.

        One random example of each of `count` equal stretches of the split, the same for every run:
        if labels are sorted, each has its share.
        """
        self.check_split(split)
        whole = self.sizes[split]
        if not 0 < count < whole:
            return torch.arange(whole)
        if self.in_random_order(split):
            return torch.arange(count)
        borders = torch.arange(count + 1) * whole // count
        draw = generator("cpu", "subset", self.name, split, whole, count)
        within = torch.rand(count, generator=draw, dtype=torch.float64) * borders.diff()
        return borders[:-1] + within.long()

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the data (finite sets) or of the validation and test sets (generated)."""

    @abstractmethod
    def floors(self) -> dict[str, float]:
        """Test accuracy in [0, 1] of trivial predictors."""

    @abstractmethod
    def example(self, split: str, index: int) -> Example:
        """Example `index` of `split`, to be drawn."""

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Scores per answer beside accuracy, from logits (K, B, R, classes).

        Each is (K, B, R) float, NaN where it does not apply: average over the rest.
        """
        return {}

    def check_split(self, split: str) -> None:
        if split not in self.sizes:
            raise FptError(
                f"task {self.name!r} has no split {split!r}; its splits are "
                f"{', '.join(self.sizes)}."
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class FiniteTask(Task):
    """A task over a prepared data set; its training order is one permutation per epoch."""

    dataset: Dataset

    def source(self) -> dict[str, Any]:
        return self.dataset.source

    def digest(self) -> str:
        return dataset_digest(self.dataset)

    def floors(self) -> dict[str, float]:
        """From the manifest where the data set is listed (no data needed), else computed; FptError
        where that would take data from elsewhere, since whoever asks wants a table, no download."""
        recorded = manifest_entry(self.dataset.key).get("floors", {}).get(self.name)
        if recorded:
            return dict(recorded)
        self.check_here()
        return self.measure_floors()

    def check_here(self) -> None:
        if not self.here:
            raise FptError(
                f"The floors of task {self.name!r} follow from its data, which are not here: "
                f"`fpt data {self.name}` takes them from {self.needs}."
            )

    @property
    def here(self) -> bool:
        """Whether the data are prepared, or can be without anything from elsewhere."""
        return self.needs is None or prepared_path(self.dataset).exists()

    @abstractmethod
    def measure_floors(self) -> dict[str, float]:
        """The floors that need no iterative fit, measured on the data."""

    @abstractmethod
    def labels(self, split: str) -> Tensor:
        """(N,) int64 in the order of the data set."""

    def features(self, split: str) -> Tensor | None:
        """(N, features) float32 on which a linear classifier is a floor; None where it is none."""
        return None


LARGEST = 2**31 - 1  # of any option: what counts examples or symbols


def resolve(name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """`defaults` overridden by `given`; an unknown name or another type is an error."""
    for key, value in given.items():
        if key not in defaults:
            raise FptError(
                f"task {name!r} has no option {key!r}; allowed: {', '.join(defaults) or 'none'}."
            )
        default = defaults[key]
        kind = int if default is None else type(default)  # None: follows from other options
        if type(value) is not kind:
            raise FptError(
                f"option {key!r} of task {name!r} must be {kind.__name__}, not {value!r}."
            )
        if isinstance(value, int) and not 1 <= value <= LARGEST:
            bound = "at least 1" if value < 1 else "below 2^31"
            raise FptError(f"option {key!r} of task {name!r} must be {bound}, not {value}.")
    return {**defaults, **given}


def choice(name: str, option: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises unless `value` is one of `allowed`."""
    if value not in allowed:
        raise FptError(
            f"option {option!r} of task {name!r} must be one of "
            f"{', '.join(map(repr, allowed))}, not {value!r}."
        )


@lru_cache(maxsize=128)
def permutation(count: int, seed: int, epoch: int, device: Device) -> Tensor:
    """(count,) int64: the order of `epoch` in the run `seed`, drawn on the CPU on every machine."""
    return torch.randperm(count, generator=generator("cpu", seed, "order", epoch)).to(device)


def order(count: int, seeds: Sequence[int], step: int, size: int, device: Device) -> Tensor:
    """(K, size) int64: the examples of training batch `step`; epochs follow without a gap."""

    def one(seed: int) -> Tensor:
        parts, start, end = [], step * size, (step + 1) * size
        while start < end:
            epoch, first = divmod(start, count)
            last = min(count, first + end - start)
            parts.append(permutation(count, seed, epoch, device)[first:last])
            start += last - first
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    return torch.stack([one(seed) for seed in seeds])


def majority(train: Tensor, test: Tensor, classes: int) -> float:
    """Test accuracy of always answering the most frequent training label."""
    best = torch.bincount(train.long(), minlength=classes).argmax()
    return (test == best).double().mean().item()


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    return arrays_digest({name: tensor.numpy() for name, tensor in tensors.items()})
