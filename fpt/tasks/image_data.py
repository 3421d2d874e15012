"""The arrays of the image tasks: decoded from the hub, or from scikit-learn.

Each data set has `<split>_images` (N, H, W, C) and `<split>_labels` (N,), uint8, for train,
valid and test.
"""

import numpy as np

from .datasets import Arrays, Dataset, hub_dataset
from .rng import fold, numpy_generator
from .sources import Repository, decode_image

PREPARATION = 1
MNIST_SIZES = {"train": 55_000, "valid": 5_000, "test": 10_000}
CIFAR_SIZES = {"train": 45_000, "valid": 5_000, "test": 10_000}
DIGITS_SIZES = {"train": 4388, "valid": 200, "test": 500}
# Pixels a side, so that a digit of 8 has nine places.
DIGITS_FIELD = 10


def split_rows(name: str, count: int, *sizes: int) -> list[np.ndarray]:
    """`count` rows cut into fixed random parts: the first takes what those of `sizes`
    leave. The permutation is keyed by the data set's name; each part is in ascending
    order."""
    # Argsort of raw 64-bit draws: the raw stream is the one NumPy promises never to change.
    draws = np.random.PCG64(fold(name, "split")).random_raw(count)
    shuffled = np.argsort(draws, kind="stable")
    borders = np.cumsum([count - sum(sizes), *sizes])[:-1]
    return [np.sort(rows) for rows in np.split(shuffled, borders)]


def _from_hub(
    name: str, column: str, sizes: dict[str, int], repo: str, commit: str, folder: str
) -> Dataset:
    """The data set of the PNG images in `column` of the parquet files of a repository. Some
    random training examples of the repository are the validation set."""
    files = {
        split: f"{folder}/{split}-00000-of-00001.parquet" for split in ("train", "test")
    }
    repository = Repository(repo, commit, files)

    def read(split: str) -> tuple[np.ndarray, np.ndarray]:
        encoded, labels = repository.columns(split, column, "label")
        images = np.stack([decode_image(value) for value in encoded])
        return images.reshape(*images.shape[:3], -1), np.array(labels, np.uint8)

    def build() -> Arrays:
        images, labels = read("train")
        train, valid = split_rows(name, len(labels), sizes["valid"])
        return {
            **_named("train", images[train], labels[train]),
            **_named("valid", images[valid], labels[valid]),
            **_named("test", *read("test")),
        }

    return hub_dataset(name, PREPARATION, repository, build)


def _named(split: str, images: np.ndarray, labels: np.ndarray) -> Arrays:
    return {f"{split}_images": images, f"{split}_labels": labels}


def _digits() -> Arrays:
    """Every digit at a random place of an empty field, training digits at four places each,
    so that a linear classifier gets far fewer right than the 97% of the centred 8x8
    images."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    digits = bundle.images.astype(np.uint8)
    labels = bundle.target.astype(np.uint8)
    rng = numpy_generator("digits", "places")
    parts = split_rows("digits", len(labels), DIGITS_SIZES["valid"], DIGITS_SIZES["test"])
    arrays: Arrays = {}
    for split, rows in zip(DIGITS_SIZES, parts, strict=True):
        rows = np.repeat(rows, 4) if split == "train" else rows
        images = np.zeros((len(rows), DIGITS_FIELD, DIGITS_FIELD, 1), np.uint8)
        places = rng.integers(0, DIGITS_FIELD - 8 + 1, (len(rows), 2))
        for image, digit, (top, left) in zip(images, digits[rows], places, strict=True):
            image[top : top + 8, left : left + 8, 0] = digit
        arrays |= _named(split, images, labels[rows])
    return arrays


MNIST_DATA = _from_hub(
    "mnist",
    "image",
    MNIST_SIZES,
    "ylecun/mnist",
    "77f3279092a1c1579b2250db8eafed0ad422088c",
    "mnist",
)
CIFAR_DATA = _from_hub(
    "cifar10",
    "img",
    CIFAR_SIZES,
    "uoft-cs/cifar10",
    "0b2714987fa478483af9968de7c934580d0bb9a2",
    "plain_text",
)
DIGITS_DATA = Dataset(
    "digits-v2", {"source": "sklearn.datasets.load_digits", "preparation": 2}, _digits
)
