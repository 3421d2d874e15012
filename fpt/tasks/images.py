"""Image tasks: mnist, cifar10, cifar10-lra, and the smoke stand-ins digits and shapes.

Token form and normalisation follow paper section 2.2 (paper and released code); patches are cut
row by row, a token's values in the order (row, column, channel).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from .. import parquet
from ..data import Arrays, Dataset, check_array, check_below, fetch, hub_identity, load
from ..errors import FptError
from ..rng import fold, generator
from . import augment as augmentation
from .base import (
    Batch,
    Device,
    Example,
    FiniteTask,
    choice,
    constant,
    majority,
    order,
    resolve,
)
from .shapes import SHAPES, draw_shapes

PREPARATION = 1
DIGITS_FIELD = 10  # pixels a side
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

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        arrays = load(self.dataset, device)
        rows = order(self.sizes["train"], seeds, step, size, device)
        if self.part is not None:
            rows = self.part.to(device)[rows]
        images = arrays["train_images"][rows]
        if augment and self.augmented:
            numbers = augmentation.draw(seeds, step, size, device)
            images = augmentation.transform(images, numbers)
        return Batch(self.tokens(images), arrays["train_labels"][rows].long()[..., None])

    def eval_batches(self, split: str, size: int, device: Device) -> Iterator[Batch]:
        self.check_split(split)
        arrays = load(self.dataset, device)
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        if split == "train" and self.part is not None:
            images, labels = images[self.part.to(device)], labels[self.part.to(device)]
        for start in range(0, len(labels), size):
            part = slice(start, start + size)
            yield Batch(self.tokens(images[part])[None], labels[part].long()[None, :, None])

    @cached_property
    def part(self) -> Tensor | None:
        """The training examples that are used, (N,) int64; None where all are. Of two parts of one
        data set, the larger contains the smaller."""
        used = self.sizes["train"]
        if used == self.available:
            return None
        shuffled = torch.randperm(self.available, generator=generator("cpu", self.name, "part"))
        return shuffled[:used].sort()[0]

    def floors(self) -> dict[str, float]:
        """Measured with all training examples; with a part of them, only what needs no fit."""
        if self.part is None:
            return super().floors()
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


def split_rows(name: str, count: int, *parts: int) -> list[np.ndarray]:
    """`count` rows cut into fixed random parts of the given sizes, the first taking the rest.

    The permutation is keyed by the data set's name; each part is in ascending order.
    """
    rng = np.random.Generator(np.random.PCG64(fold(name, "split")))
    # Argsort of raw 64-bit draws: the raw stream is the one NumPy promises never to change.
    shuffled = np.argsort(rng.bit_generator.random_raw(count), kind="stable")
    borders = np.cumsum([count - sum(parts), *parts])[:-1]
    return [np.sort(part) for part in np.split(shuffled, borders)]


def _decode(name: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, H, W, C) uint8 and labels (N,) uint8 of a hub file with one image column."""
    path, column, shape = fetch(name, split), *FORMS[name]
    table = parquet.read(path, column, "label")
    images = []
    for value in tqdm(table[column].to_pylist(), desc=f"{name} {split}", disable=None):
        image = parquet.picture(path, value)
        images.append(image[..., None] if image.ndim == 2 else image)
        if images[-1].shape != shape:
            raise FptError(f"{path} has an image of {images[-1].shape}; all must be {shape}.")
    return np.stack(images), parquet.labels(path, table, "label", 10).astype(np.uint8)


def _from_hub(name: str, valid: int) -> Arrays:
    images, labels = _decode(name, "train")
    train_rows, valid_rows = split_rows(name, len(labels), valid)
    arrays = {
        "train_images": images[train_rows],
        "train_labels": labels[train_rows],
        "valid_images": images[valid_rows],
        "valid_labels": labels[valid_rows],
    }
    images, labels = _decode(name, "test")
    return {**arrays, "test_images": images, "test_labels": labels}


def _digits() -> Arrays:
    """Every digit at a random place of an empty field, training digits at four places each.

    In the middle of an 8x8 image a linear classifier knows 97% of them; moved about, it does not.
    """
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images, labels = bundle.images.astype(np.uint8), bundle.target.astype(np.uint8)
    rng = np.random.Generator(np.random.PCG64(fold("digits", "places")))
    arrays: Arrays = {}
    for split, rows in zip(
        ("train", "valid", "test"), split_rows("digits", len(labels), 200, 500), strict=True
    ):
        rows = np.repeat(rows, 4) if split == "train" else rows
        fields = np.zeros((len(rows), DIGITS_FIELD, DIGITS_FIELD, 1), np.uint8)
        places = rng.integers(0, DIGITS_FIELD - 8 + 1, (len(rows), 2))
        for field, image, (top, left) in zip(fields, images[rows], places, strict=True):
            field[top : top + 8, left : left + 8, 0] = image
        arrays |= {f"{split}_images": fields, f"{split}_labels": labels[rows]}
    return arrays


def _shapes() -> Arrays:
    arrays: Arrays = {}
    for split, count in SHAPES_SIZES.items():
        images, labels = draw_shapes(fold("shapes", split), count)
        arrays |= {f"{split}_images": images, f"{split}_labels": labels}
    return arrays


def check_images(
    arrays: Arrays, sizes: Mapping[str, int], shape: tuple[int, int, int], levels: int = 255
) -> None:
    """ValueError where arrays are not those of an ImageTask with `sizes` examples in ten classes,
    images of `shape` and pixels from 0 to `levels`."""
    for split, count in sizes.items():
        images = check_array(arrays, f"{split}_images", "uint8", (count, *shape))
        check_below(f"{split}_images", images, levels + 1)
        labels = check_array(arrays, f"{split}_labels", "uint8", (count,))
        check_below(f"{split}_labels", labels, 10)


# The column of the images in a hub file, and what each one is.
FORMS: Mapping[str, tuple[str, tuple[int, int, int]]] = {
    "mnist": ("image", (28, 28, 1)),
    "cifar10": ("img", (32, 32, 3)),
}
MNIST_SIZES = {"train": 55_000, "valid": 5_000, "test": 10_000}
CIFAR_SIZES = {"train": 45_000, "valid": 5_000, "test": 10_000}
DIGITS_SIZES = {"train": 4388, "valid": 200, "test": 500}
SHAPES_SIZES = {"train": 8000, "valid": 1000, "test": 2000}
MNIST_DATA = Dataset(
    f"mnist-v{PREPARATION}",
    hub_identity("mnist", PREPARATION),
    lambda: _from_hub("mnist", 5000),
    lambda arrays: check_images(arrays, MNIST_SIZES, (28, 28, 1)),
)
CIFAR_DATA = Dataset(
    f"cifar10-v{PREPARATION}",
    hub_identity("cifar10", PREPARATION),
    lambda: _from_hub("cifar10", 5000),
    lambda arrays: check_images(arrays, CIFAR_SIZES, (32, 32, 3)),
)
DIGITS_DATA = Dataset(
    "digits-v2",
    {"source": "sklearn.datasets.load_digits", "preparation": 2},
    _digits,
    lambda arrays: check_images(arrays, DIGITS_SIZES, (DIGITS_FIELD, DIGITS_FIELD, 1), 16),
)
SHAPES_DATA = Dataset(
    f"shapes-v{PREPARATION}",
    {"source": "generated", "preparation": PREPARATION},
    _shapes,
    lambda arrays: check_images(arrays, SHAPES_SIZES, (32, 32, 3)),
)


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
    options = resolve("mnist", given, {"size": 32, "train": MNIST_SIZES["train"]})
    choice("mnist", "size", options["size"], (32, 28))
    return ImageTask(
        name="mnist",
        options=options,
        kind="vector",
        dim=16,
        length=(options["size"] // 4) ** 2,
        classes=10,
        sizes=_sizes("mnist", options, MNIST_SIZES),
        available=MNIST_SIZES["train"],
        dataset=MNIST_DATA,
        patch=4,
        pad=(options["size"] - 28) // 2,
    )


def cifar10(**given: Any) -> ImageTask:
    """Colour photographs, 64 tokens of 4x4x3, normalised as the released code does."""
    options = resolve("cifar10", given, {"train": CIFAR_SIZES["train"]})
    return ImageTask(
        name="cifar10",
        options=options,
        kind="vector",
        dim=48,
        length=64,
        classes=10,
        sizes=_sizes("cifar10", options, CIFAR_SIZES),
        available=CIFAR_SIZES["train"],
        augmented=True,
        dataset=CIFAR_DATA,
        patch=4,
        mean=CIFAR_MEAN,
        std=CIFAR_STD,
        names=CIFAR_CLASSES,
    )


def cifar10_lra(**given: Any) -> ImageTask:
    """The same photographs in grey, pixel by pixel: 1024 tokens of 1, in [-1, 1]."""
    options = resolve("cifar10-lra", given, {"train": CIFAR_SIZES["train"]})
    return replace(
        cifar10(),
        name="cifar10-lra",
        options=options,
        sizes=_sizes("cifar10-lra", options, CIFAR_SIZES),
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
    options = resolve("digits", given, {"train": DIGITS_SIZES["train"]})
    return ImageTask(
        name="digits",
        options=options,
        kind="vector",
        dim=25,
        length=4,
        classes=10,
        sizes=_sizes("digits", options, DIGITS_SIZES),
        available=DIGITS_SIZES["train"],
        dataset=DIGITS_DATA,
        patch=5,
        levels=16,
    )


def shapes(**given: Any) -> ImageTask:
    """Generated 32x32 colour images of ten shapes, tokens like cifar10. A stand-in."""
    options = resolve("shapes", given, {"train": SHAPES_SIZES["train"]})
    return ImageTask(
        name="shapes",
        options=options,
        kind="vector",
        dim=48,
        length=64,
        classes=len(SHAPES),
        sizes=_sizes("shapes", options, SHAPES_SIZES),
        available=SHAPES_SIZES["train"],
        augmented=True,
        dataset=SHAPES_DATA,
        patch=4,
        mean=(0.5,),
        std=(0.25,),
        names=SHAPES,
    )
