"""Image tasks: mnist, cifar10, cifar10-lra, and the smoke stand-ins digits and shapes.

Token form and normalisation follow paper section 2.2 (paper and released code); patches are cut
row by row, a token's values in the order (row, column, channel). The images themselves are those of
`image_data`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..files import FptError
from ..training.device import constant
from . import augment as augmentation
from . import image_data
from .base import Batch, Device, Example, FiniteTask, choice, majority, order, resolve
from .datasets import load
from .rng import generator
from .shapes import SHAPES

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
CIFAR_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
GREY = (0.2989, 0.587, 0.114)  # ITU-R 601, the weights of the released code's library


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageTask(FiniteTask):
    """Images (N, H, W, C) uint8 on the device, expanded to patches per batch.

    Arrays of the data set: `<split>_images`, `<split>_labels` for train, valid and test.
    """

    patch: int
    available: int  # training examples of the data set; option `train` may use fewer
    pad: int = 0
    grey: bool = False
    levels: int = 255  # the pixel value that means 1
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    names: tuple[str, ...] = tuple(map(str, range(10)))
    shuffled: bool = False  # whether training and validation examples are stored in random order

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        arrays = load(self.dataset, device)
        rows = order(self.sizes["train"], seeds, step, size, device)
        if (part := self.part_on(device)) is not None:
            rows = part[rows]
        images = arrays["train_images"][rows]
        if augment and self.augmented:
            numbers = augmentation.draw(seeds, step, size, device)
            images = augmentation.transform(images, numbers)
        return Batch(self.tokens(images), arrays["train_labels"][rows].long()[..., None])

    def in_random_order(self, split: str) -> bool:
        return self.shuffled and split != "test"

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        chosen = self.subset(split, count).to(device)
        arrays = load(self.dataset, device)
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        if split == "train" and (part := self.part_on(device)) is not None:
            chosen = part[chosen]
        for rows in chosen.split(size):
            yield Batch(self.tokens(images[rows])[None], labels[rows].long()[None, :, None])

    @property
    def part(self) -> Tensor | None:
        """The training examples that are used, (N,) int64; None where all are. Of two parts of one
        data set, the larger contains the smaller."""
        return self.part_on("cpu")

    def part_on(self, device: Device) -> Tensor | None:
        used = self.sizes["train"]
        return None if used == self.available else _part(self.name, used, self.available, device)

    def floors(self) -> dict[str, float]:
        """Measured with all training examples; with a part of them, only what needs no fit."""
        if self.part is None:
            return super().floors()
        self.check_here()
        return self.measure_floors()

    def pixels(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> float32 in [0, 1], grey where the task is."""
        values = images.float() / self.levels
        if not self.grey:
            return values
        return (values * constant(GREY, values.device)).sum(-1, keepdim=True)

    def tokens(self, images: Tensor) -> Tensor:
        """(..., H, W, C) uint8 -> (..., T, patch * patch * C) float32, normalised."""
        values = self.pixels(images)
        values = (values - constant(self.mean, values.device)) / constant(self.std, values.device)
        values = torch.nn.functional.pad(values, (0, 0) + (self.pad,) * 4)
        height, width = (side // self.patch for side in values.shape[-3:-1])
        values = values.unflatten(-3, (height, self.patch)).unflatten(-2, (width, self.patch))
        return values.transpose(-4, -3).flatten(-3).flatten(-3, -2)

    def measure_floors(self) -> dict[str, float]:
        best = majority(self.labels("train"), self.labels("test"), self.classes)
        return {"majority": best}

    def labels(self, split: str) -> Tensor:
        labels = load(self.dataset)[f"{split}_labels"].long()
        return labels if split != "train" or self.part is None else labels[self.part]

    def features(self, split: str) -> Tensor | None:
        images = load(self.dataset)[f"{split}_images"]
        if split == "train" and self.part is not None:
            images = images[self.part]
        return self.pixels(images).flatten(1)

    def example(self, split: str, index: int) -> Example:
        self.check_split(split)
        arrays = load(self.dataset)
        answer = self.names[int(arrays[f"{split}_labels"][index])]
        return Example(answer=answer, image=self.pixels(arrays[f"{split}_images"][index]))


@lru_cache(maxsize=16)
def _part(name: str, used: int, available: int, device: Device) -> Tensor:
    shuffled = torch.randperm(available, generator=generator("cpu", name, "part"))
    return shuffled[:used].sort()[0].to(device)


def _sizes(name: str, options: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` of a data set, with as many training examples as option `train` says."""
    if options["train"] > sizes["train"]:
        raise FptError(
            f"option 'train' of task {name!r} must be at most {sizes['train']}, not "
            f"{options['train']}."
        )
    return {**sizes, "train": options["train"]}


def mnist(**given: Any) -> ImageTask:
    """Handwritten digits in 4x4 patches: size 32 (zero-padded, 64 tokens; paper) or 28 (code)."""
    options = resolve("mnist", given, {"size": 32, "train": image_data.MNIST_SIZES["train"]})
    choice("mnist", "size", options["size"], (32, 28))
    return ImageTask(
        name="mnist",
        options=options,
        kind="vector",
        dim=16,
        length=(options["size"] // 4) ** 2,
        classes=10,
        sizes=_sizes("mnist", options, image_data.MNIST_SIZES),
        available=image_data.MNIST_SIZES["train"],
        dataset=image_data.MNIST_DATA,
        shuffled=True,
        patch=4,
        pad=(options["size"] - 28) // 2,
    )


def cifar10(**given: Any) -> ImageTask:
    """Colour photographs, 64 tokens of 4x4x3, normalised as the released code does."""
    options = resolve("cifar10", given, {"train": image_data.CIFAR_SIZES["train"]})
    return ImageTask(
        name="cifar10",
        options=options,
        kind="vector",
        dim=48,
        length=64,
        classes=10,
        sizes=_sizes("cifar10", options, image_data.CIFAR_SIZES),
        available=image_data.CIFAR_SIZES["train"],
        augmented=True,
        dataset=image_data.CIFAR_DATA,
        shuffled=True,
        patch=4,
        mean=CIFAR_MEAN,
        std=CIFAR_STD,
        names=CIFAR_CLASSES,
    )


def cifar10_lra(**given: Any) -> ImageTask:
    """The same photographs in grey, pixel by pixel: 1024 tokens of 1, in [-1, 1]."""
    options = resolve("cifar10-lra", given, {"train": image_data.CIFAR_SIZES["train"]})
    return replace(
        cifar10(),
        name="cifar10-lra",
        options=options,
        sizes=_sizes("cifar10-lra", options, image_data.CIFAR_SIZES),
        dim=1,
        length=1024,
        patch=1,
        grey=True,
        mean=(0.5,),
        std=(0.5,),
    )


def digits(**given: Any) -> ImageTask:
    """scikit-learn's 8x8 handwritten digits, each somewhere on a 10x10 field: 4 tokens of 5x5.

    A stand-in, not MNIST.
    """
    options = resolve("digits", given, {"train": image_data.DIGITS_SIZES["train"]})
    return ImageTask(
        name="digits",
        options=options,
        kind="vector",
        dim=25,
        length=4,
        classes=10,
        sizes=_sizes("digits", options, image_data.DIGITS_SIZES),
        available=image_data.DIGITS_SIZES["train"],
        dataset=image_data.DIGITS_DATA,
        patch=5,
        levels=16,
    )


def shapes(**given: Any) -> ImageTask:
    """Generated 32x32 colour images of ten shapes, tokens like cifar10. A stand-in."""
    options = resolve("shapes", given, {"train": image_data.SHAPES_SIZES["train"]})
    return ImageTask(
        name="shapes",
        options=options,
        kind="vector",
        dim=48,
        length=64,
        classes=len(SHAPES),
        sizes=_sizes("shapes", options, image_data.SHAPES_SIZES),
        available=image_data.SHAPES_SIZES["train"],
        augmented=True,
        dataset=image_data.SHAPES_DATA,
        shuffled=True,
        patch=4,
        mean=(0.5,),
        std=(0.25,),
        names=SHAPES,
    )
