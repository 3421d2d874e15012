"""Image tasks: mnist, cifar10, cifar10-lra, and digits, which needs no network.

Token form and normalisation follow paper section 2.2 (paper and released code); patches are
cut row by row, a token's values in the order (row, column, channel).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FptError
from .base import Batch, Device, Example, FiniteTask, Kind, order, resolve
from .datasets import load
from .image_data import (
    CIFAR_DATA,
    CIFAR_SIZES,
    DIGITS_DATA,
    DIGITS_SIZES,
    MNIST_DATA,
    MNIST_SIZES,
)
from .rng import generator

CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
    "truck",
)  # fmt: skip
# Test sets keep the order in which they are published.
SHUFFLED = ("train", "valid")
# ITU-R 601, the weights of the released code's library.
GREY = (0.2989, 0.587, 0.114)
CIFAR_SIDE = 32
# Pixels on each side that a crop may leave the image.
CROP_PADDING = 4
# Degrees, in both directions.
MAX_ROTATION = 20.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageTask(FiniteTask):
    """Images (N, H, W, C) uint8 on the device; a batch of them is cut into patches."""

    kind: Kind = "vector"
    classes: int = 10
    patch: int  # pixels a side
    available: int  # training examples of the set, of which option `train` may use fewer
    pad: int = 0
    grey: bool = False
    levels: int = 255  # the pixel value that means 1
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    names: tuple[str, ...] = tuple("0123456789")

    def train_batch(
        self,
        seeds: Sequence[int],
        step: int,
        size: int,
        device: Device,
        augment: bool = False,
    ) -> Batch:
        rows = order(self.sizes["train"], seeds, step, size)
        images, labels = self.chosen("train", rows, device)
        if augment and self.augmented:
            images = transform(images, draw_transforms(seeds, step, size, device))
        return Batch(self.tokens(images), labels[..., None])

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        images, labels = self.chosen(split, rows, device)
        return Batch(self.tokens(images), labels[..., None])

    def chosen(
        self,
        split: str,
        rows: Tensor,
        device: Device,
    ) -> tuple[Tensor, Tensor]:
        """The images, uint8, and labels, int64, of the examples `rows` of those that are
        used."""
        if split == "train":
            rows = self.part[rows]
        rows = rows.to(device, non_blocking=True)
        arrays = load(self.dataset, device)
        return arrays[f"{split}_images"][rows], arrays[f"{split}_labels"][rows].long()

    @property
    def part(self) -> Tensor:
        """(N,) int64: the training examples that are used. Of two parts of one data set,
        the larger contains the smaller."""
        return _part(self.name, self.sizes["train"], self.available)

    def pixels(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> float32 in [0, 1], with one channel if the task is
        grey."""
        values = images.float() / self.levels
        if self.grey:
            return (values * _constant(GREY, values.device)).sum(-1, keepdim=True)
        return values

    def tokens(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> (..., T, patch * patch * C) float32, normalised."""
        values = self.pixels(images)
        mean = _constant(self.mean, values.device)
        std = _constant(self.std, values.device)
        values = (values - mean) / std
        values = F.pad(values, (0, 0, *[self.pad] * 4))
        height, width = values.shape[-3:-1]
        values = values.unflatten(-3, (height // self.patch, self.patch))
        values = values.unflatten(-2, (width // self.patch, self.patch))
        # (..., patches down, row, patches across, column, C): the places of patches come
        # first.
        return values.transpose(-4, -3).flatten(-3).flatten(-3, -2)

    def labels(self, split: str) -> Tensor:
        return self.chosen(split, torch.arange(self.sizes[split]), "cpu")[1]

    def example(self, split: str, index: int) -> Example:
        image, label = self.chosen(split, torch.tensor(index), "cpu")
        return Example(self.names[int(label)], self.pixels(image))


# On the device once: a copy per batch would wait for the device.
@lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], device: Device) -> Tensor:
    return torch.tensor(values, device=device)


@lru_cache(maxsize=16)
def _part(name: str, used: int, available: int) -> Tensor:
    shuffled = torch.randperm(available, generator=generator("cpu", name, "part"))
    return shuffled[:used].sort()[0]


def draw_transforms(
    seeds: Sequence[int],
    step: int,
    size: int,
    device: Device,
) -> Tensor:
    """(K, size, 4) uniform in [0, 1): row, column, flip, angle; keyed by run, so K runs
    packed get the numbers that each gets alone."""
    draws = (generator(device, seed, "augment", step) for seed in seeds)
    return torch.stack([torch.rand(size, 4, generator=g, device=device) for g in draws])


def transform(images: Tensor, numbers: Tensor) -> Tensor:
    """Training-image augmentation of the released code: random crop after zero padding by
    4, horizontal flip, rotation within 20 degrees.

    images (..., H, W, C), numbers (..., 4) in [0, 1) -> (..., H, W, C). The three maps are
    composed into one gather: an output pixel looks up the pixel nearest to its source; 0
    outside, at the rotation (outside the crop) and at the crop (outside the image) alike.
    """
    height, width, channels = images.shape[-3:]
    row_draw, column_draw, flip_draw, angle_draw = numbers[..., None, None].unbind(-3)
    down = (row_draw * (2 * CROP_PADDING + 1)).floor().long() - CROP_PADDING
    right = (column_draw * (2 * CROP_PADDING + 1)).floor().long() - CROP_PADDING
    angle = (angle_draw * 2 - 1) * math.radians(MAX_ROTATION)

    def is_inside(x: Tensor, y: Tensor) -> Tensor:
        return (x >= 0) & (x < width) & (y >= 0) & (y < height)

    # Backwards from the output: each place is rotated about the centre, flipped, then
    # shifted.
    middle_row = (height - 1) / 2
    middle_column = (width - 1) / 2
    row = torch.arange(height, device=images.device)[:, None] - middle_row
    column = torch.arange(width, device=images.device) - middle_column
    cosine = angle.cos()
    sine = angle.sin()
    x = (cosine * column - sine * row + middle_column).round().long()
    y = (sine * column + cosine * row + middle_row).round().long()
    inside = is_inside(x, y)
    x = torch.where(flip_draw < 0.5, width - 1 - x, x) + right
    y = y + down
    inside &= is_inside(x, y)

    x = x.clamp(0, width - 1)
    y = y.clamp(0, height - 1)
    source = (y * width + x).flatten(-2)[..., None].expand(*images.shape[:-3], -1, channels)
    pixels = images.flatten(-3, -2).gather(-2, source)
    return pixels.view(images.shape) * inside[..., None]


def _image_task(
    name: str,
    options: Mapping[str, Any],
    sizes: Mapping[str, int],
    side: int,
    patch: int,
    channels: int = 1,
    **form: Any,
) -> ImageTask:
    """The task `name` on `side` times `side` pixels of a data set of these sizes, of whose
    training examples the option `train` says how many are used."""
    used = options["train"]
    available = sizes["train"]
    if used > available:
        raise FptError(
            f"option 'train' of task {name!r} must be at most {available}, not {used}."
        )
    return ImageTask(
        name=name,
        options=dict(options),
        sizes={**sizes, "train": used},
        available=available,
        patch=patch,
        dim=patch * patch * channels,
        length=(side // patch) ** 2,
        **form,
    )


def mnist(**options: Any) -> ImageTask:
    """Handwritten digits in 4x4 patches: size 32 (zero-padded, 64 tokens; paper) or 28
    (code)."""
    options = resolve("mnist", options, {"size": (32, 28), "train": MNIST_SIZES["train"]})
    side = options["size"]
    return _image_task(
        "mnist",
        options,
        MNIST_SIZES,
        side,
        patch=4,
        pad=(side - 28) // 2,
        dataset=MNIST_DATA,
        random_order=SHUFFLED,
    )


def _cifar(
    name: str, options: Mapping[str, Any], patch: int, may_be_larger: bool, **form: Any
) -> ImageTask:
    later = {"patch": patch} if may_be_larger else {}
    options = resolve(name, options, {"train": CIFAR_SIZES["train"]}, later)
    side = options.get("patch", patch)
    if CIFAR_SIDE % side:
        raise FptError(
            f"option 'patch' of task {name!r} must divide {CIFAR_SIDE} pixels, not {side}."
        )
    return _image_task(
        name,
        options,
        CIFAR_SIZES,
        side=CIFAR_SIDE,
        patch=side,
        dataset=CIFAR_DATA,
        augmented=True,
        random_order=SHUFFLED,
        names=CIFAR_CLASSES,
        **form,
    )


def cifar10(**options: Any) -> ImageTask:
    """Colour photographs, 64 tokens of 4x4x3, normalised as in the released code."""
    return _cifar(
        "cifar10",
        options,
        patch=4,
        may_be_larger=False,
        channels=3,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2023, 0.1994, 0.2010),
    )


def cifar10_lra(**options: Any) -> ImageTask:
    """The same photographs in grey, pixel by pixel: 1024 tokens of 1, in [-1, 1]. Option
    patch: pixels a side of a token, of which 2 makes 256 tokens of 4."""
    form = {"grey": True, "mean": (0.5,), "std": (0.5,)}
    return _cifar("cifar10-lra", options, patch=1, may_be_larger=True, **form)


def digits(**options: Any) -> ImageTask:
    """scikit-learn's 8x8 handwritten digits, each somewhere on a 10x10 field: 4 tokens of
    5x5.

    It stands in for MNIST on a machine without a network, and is not MNIST.
    """
    options = resolve("digits", options, {"train": DIGITS_SIZES["train"]})
    return _image_task(
        "digits", options, DIGITS_SIZES, side=10, patch=5, levels=16, dataset=DIGITS_DATA
    )
