"""The images of the image tasks: fetched from the hub and decoded, or made here."""

from collections.abc import Mapping

import numpy as np
from tqdm import tqdm

from ..files import FptError
from . import parquet
from .datasets import Arrays, Dataset, check_array, check_below, fetch, hub_identity
from .rng import fold
from .shapes import draw_shapes

PREPARATION = 1
DIGITS_FIELD = 10  # pixels a side
# The column of the images in a hub file, and what each one is.
FORMS: Mapping[str, tuple[str, tuple[int, int, int]]] = {
    "mnist": ("image", (28, 28, 1)),
    "cifar10": ("img", (32, 32, 3)),
}
MNIST_SIZES = {"train": 55_000, "valid": 5_000, "test": 10_000}
CIFAR_SIZES = {"train": 45_000, "valid": 5_000, "test": 10_000}
DIGITS_SIZES = {"train": 4388, "valid": 200, "test": 500}
SHAPES_SIZES = {"train": 8000, "valid": 1000, "test": 2000}


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
