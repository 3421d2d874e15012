"""Image tasks: mnist, cifar10, cifar10-lra, and digits, which needs no network.

Token form and normalisation follow paper section 2.2 (paper and released code); patches are cut
row by row, a token's values in the order (row, column, channel).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..files import FptError
from . import image_data as data
from .base import Batch, Device, Example, FiniteTask, Kind, order, resolve
from .datasets import Dataset, load
from .rng import generator

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
SHUFFLED = ("train", "valid")  # test sets keep the order in which they are published
GREY = (0.2989, 0.587, 0.114)  # ITU-R 601, the weights of the released code's library


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageTask(FiniteTask):
    """Images (N, H, W, C) uint8 on the device; a batch of them is cut into patches."""

    kind: Kind = "vector"
    classes: int = 10
    patch: int  # pixels a side
    available: int  # training examples of the data set, of which the option `train` may use fewer
    pad: int = 0
    grey: bool = False
    levels: int = 255  # the pixel value that means 1
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    names: tuple[str, ...] = tuple(map(str, range(10)))

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        images, labels = self.chosen("train", order(self.sizes["train"], seeds, step, size), device)
        if augment and self.augmented:
            images = transform(images, draw_transforms(seeds, step, size, device))
        return Batch(self.tokens(images), labels[..., None])

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        images, labels = self.chosen(split, rows, device)
        return Batch(self.tokens(images), labels[..., None])

    def chosen(self, split: str, rows: Tensor, device: Device) -> tuple[Tensor, Tensor]:
        """The images, uint8, and labels, int64, of the examples `rows` of those that are used."""
        rows = self.part[rows] if split == "train" else rows
        rows = rows.to(device, non_blocking=True)
        arrays = load(self.dataset, device)
        return arrays[f"{split}_images"][rows], arrays[f"{split}_labels"][rows].long()

    @property
    def part(self) -> Tensor:
        """(N,) int64: the training examples that are used. Of two parts of one data set, the larger
        contains the smaller."""
        return _part(self.name, self.sizes["train"], self.available)

    def pixels(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> float32 in [0, 1], with one channel if the task is grey."""
        values = images.float() / self.levels
        if not self.grey:
            return values
        return (values * _constant(GREY, values.device)).sum(-1, keepdim=True)

    def tokens(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> (..., T, patch * patch * C) float32, normalised."""
        values = self.pixels(images)
        values = (values - _constant(self.mean, values.device)) / _constant(self.std, values.device)
        values = torch.nn.functional.pad(values, (0, 0) + (self.pad,) * 4)
        height, width = (side // self.patch for side in values.shape[-3:-1])
        values = values.unflatten(-3, (height, self.patch)).unflatten(-2, (width, self.patch))
        return values.transpose(-4, -3).flatten(-3).flatten(-3, -2)

    def labels(self, split: str) -> Tensor:
        return self.chosen(split, torch.arange(self.sizes[split]), "cpu")[1]

    def example(self, split: str, index: int) -> Example:
        image, label = self.chosen(split, torch.tensor(index), "cpu")
        return Example(answer=self.names[int(label)], image=self.pixels(image))


@lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], device: Device) -> Tensor:
    """`values` on `device`, copied there once: a copy per batch would wait for the device."""
    return torch.tensor(values, device=device)


@lru_cache(maxsize=16)
def _part(name: str, used: int, available: int) -> Tensor:
    shuffled = torch.randperm(available, generator=generator("cpu", name, "part"))
    return shuffled[:used].sort()[0]


PADDING = 4
DEGREES = 20.0


def draw_transforms(seeds: Sequence[int], step: int, size: int, device: Device) -> Tensor:
    """(K, size, 4) uniform in [0, 1): row, column, flip, angle; keyed by run, so K runs packed get
    the numbers that each gets alone."""
    keyed = (generator(device, seed, "augment", step) for seed in seeds)
    return torch.stack([torch.rand(size, 4, generator=g, device=device) for g in keyed])


def transform(images: Tensor, numbers: Tensor) -> Tensor:
    """Training-image augmentation of the released code: random crop after zero padding by 4,
    horizontal flip, rotation within 20 degrees.

    images (..., H, W, C), numbers (..., 4) in [0, 1) -> (..., H, W, C). The three maps are composed
    into one gather: an output pixel looks up the pixel nearest to its source; 0 outside, at the
    rotation (outside the crop) and at the crop (outside the image) alike.
    """
    height, width = images.shape[-3:-1]
    shift = (numbers[..., :2] * (2 * PADDING + 1)).floor().long() - PADDING
    flip = numbers[..., 2] < 0.5
    angle = (numbers[..., 3] * 2 - 1) * math.radians(DEGREES)

    row = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    column = torch.arange(width, device=images.device) - (width - 1) / 2
    cos, sin = angle.cos()[..., None, None], angle.sin()[..., None, None]
    x = (cos * column - sin * row + (width - 1) / 2).round().long()
    y = (sin * column + cos * row + (height - 1) / 2).round().long()
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)

    x = torch.where(flip[..., None, None], width - 1 - x, x) + shift[..., 1, None, None]
    y = y + shift[..., 0, None, None]
    inside &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
    source = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)).flatten(-2)[..., None]
    pixels = images.flatten(-3, -2).gather(-2, source.expand(*source.shape[:-1], images.shape[-1]))
    return pixels.view(images.shape) * inside[..., None]


def _image_task(
    name: str, options: dict[str, Any], dataset: Dataset, sizes: Mapping[str, int], **form: Any
) -> ImageTask:
    """The task `name` on a data set of these sizes, of whose training examples the option `train`
    says how many are used."""
    train, available = options["train"], sizes["train"]
    if train > available:
        raise FptError(f"option 'train' of task {name!r} must be at most {available}, not {train}.")
    form |= {"sizes": {**sizes, "train": train}, "available": available}
    return ImageTask(name=name, options=options, dataset=dataset, **form)


def mnist(**given: Any) -> ImageTask:
    """Handwritten digits in 4x4 patches: size 32 (zero-padded, 64 tokens; paper) or 28 (code)."""
    options = resolve("mnist", given, {"size": (32, 28), "train": data.MNIST_SIZES["train"]})
    length, pad = (64, 2) if options["size"] == 32 else (49, 0)
    form = {"dim": 16, "length": length, "patch": 4, "pad": pad, "random_order": SHUFFLED}
    return _image_task("mnist", options, data.MNIST_DATA, data.MNIST_SIZES, **form)


def _cifar(name: str, given: Mapping[str, Any], **form: Any) -> ImageTask:
    options = resolve(name, given, {"train": data.CIFAR_SIZES["train"]})
    form |= {"augmented": True, "random_order": SHUFFLED, "names": CIFAR_CLASSES}
    return _image_task(name, options, data.CIFAR_DATA, data.CIFAR_SIZES, **form)


def cifar10(**given: Any) -> ImageTask:
    """Colour photographs, 64 tokens of 4x4x3, normalised as in the released code."""
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    return _cifar("cifar10", given, dim=48, length=64, patch=4, mean=mean, std=std)


def cifar10_lra(**given: Any) -> ImageTask:
    """The same photographs in grey, pixel by pixel: 1024 tokens of 1, in [-1, 1]."""
    half = (0.5,)
    return _cifar("cifar10-lra", given, dim=1, length=1024, patch=1, mean=half, std=half, grey=True)


def digits(**given: Any) -> ImageTask:
    """scikit-learn's 8x8 handwritten digits, each somewhere on a 10x10 field: 4 tokens of 5x5.

    It stands in for MNIST on a machine without a network, and is not MNIST.
    """
    options = resolve("digits", given, {"train": data.DIGITS_SIZES["train"]})
    form = {"dim": 25, "length": 4, "patch": 5, "levels": 16}
    return _image_task("digits", options, data.DIGITS_DATA, data.DIGITS_SIZES, **form)
