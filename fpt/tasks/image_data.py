"""The arrays of the image tasks: decoded from the hub, from scikit-learn, or generated here.

Each data set has `<split>_images` (N, H, W, C) and `<split>_labels` (N,), uint8, for train, valid
and test.
"""

import numpy as np
from tqdm import tqdm

from .datasets import Arrays, Dataset, hub_dataset
from .rng import fold, numpy_generator
from .sources import Repository, decode_image, read_table

PREPARATION = 1
MNIST_SIZES = {"train": 55_000, "valid": 5_000, "test": 10_000}
CIFAR_SIZES = {"train": 45_000, "valid": 5_000, "test": 10_000}
DIGITS_SIZES = {"train": 4388, "valid": 200, "test": 500}
SHAPES_SIZES = {"train": 8000, "valid": 1000, "test": 2000}
DIGITS_FIELD = 10  # pixels a side
SHAPE_SIDE = 32
SHAPES = (
    "disc", "ring", "square", "frame", "triangle", "diamond", "plus", "cross", "bars", "stripes",
)  # fmt: skip


def split_rows(name: str, count: int, *parts: int) -> list[np.ndarray]:
    """`count` rows cut into fixed random parts of the given sizes, the first taking the rest.

    The permutation is keyed by the data set's name; each part is in ascending order.
    """
    # Argsort of raw 64-bit draws: the raw stream is the one NumPy promises never to change.
    draws = np.random.PCG64(fold(name, "split")).random_raw(count)
    shuffled = np.argsort(draws, kind="stable")
    borders = np.cumsum([count - sum(parts), *parts])[:-1]
    return [np.sort(part) for part in np.split(shuffled, borders)]


def _from_hub(
    name: str, folder: str, column: str, sizes: dict[str, int], repo: str, commit: str
) -> Dataset:
    """The data set of the PNG images in `column` of the parquet files of a repository. Some random
    training examples of the repository are the validation set."""
    files = {split: f"{folder}/{split}-00000-of-00001.parquet" for split in ("train", "test")}
    repository = Repository(repo, commit, files)

    def build() -> Arrays:
        arrays: Arrays = {}
        for split in files:
            table = read_table(repository.fetch(split), column, "label")
            encoded = tqdm(table[column].to_pylist(), desc=f"{name} {split}", disable=None)
            images = np.stack([decode_image(value) for value in encoded])
            arrays[f"{split}_images"] = images.reshape(*images.shape[:3], -1)
            arrays[f"{split}_labels"] = table["label"].to_numpy().astype(np.uint8)
        train_rows, valid_rows = split_rows(name, len(arrays["train_labels"]), sizes["valid"])
        for part in ("images", "labels"):
            whole = arrays[f"train_{part}"]
            arrays |= {f"train_{part}": whole[train_rows], f"valid_{part}": whole[valid_rows]}
        return arrays

    return hub_dataset(name, PREPARATION, repository, build)


def _digits() -> Arrays:
    """Every digit at a random place of an empty field, training digits at four places each, so that
    a linear classifier gets far fewer right than the 97% of the centred 8x8 images."""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    images, labels = bundle.images.astype(np.uint8), bundle.target.astype(np.uint8)
    rng = numpy_generator("digits", "places")
    arrays: Arrays = {}
    parts = split_rows("digits", len(labels), DIGITS_SIZES["valid"], DIGITS_SIZES["test"])
    for split, rows in zip(DIGITS_SIZES, parts, strict=True):
        rows = np.repeat(rows, 4) if split == "train" else rows
        fields = np.zeros((len(rows), DIGITS_FIELD, DIGITS_FIELD, 1), np.uint8)
        places = rng.integers(0, DIGITS_FIELD - 8 + 1, (len(rows), 2))
        for field, image, (top, left) in zip(fields, images[rows], places, strict=True):
            field[top : top + 8, left : left + 8, 0] = image
        arrays |= {f"{split}_images": fields, f"{split}_labels": labels[rows]}
    return arrays


def _inside(kind: np.ndarray, x: np.ndarray, y: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Whether pixel offsets x, y (N, 32, 32) from the centre lie in the shape of radius r."""
    ax, ay, distance = abs(x), abs(y), x * x + y * y
    box = np.maximum(ax, ay) <= r
    thin = r // 3
    masks = [
        distance <= r * r,
        (distance <= r * r) & (2 * distance >= r * r),
        box,
        box & (np.maximum(ax, ay) > r - thin),
        (ay <= r) & (2 * ax <= r + y),
        ax + ay <= r,
        box & (np.minimum(ax, ay) <= thin // 2),
        box & (abs(ax - ay) <= thin // 2),
        box & ((ax <= thin // 2) | (ax >= r - thin // 2)),
        box & ((ay <= thin // 2) | (ay >= r - thin // 2)),
    ]
    return np.choose(kind, masks)


def draw_shapes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` images (N, 32, 32, 3) uint8 and labels (N,) uint8, in integer arithmetic only.

    Position, size, colours of shape and ground, the shading of the ground and pixel noise vary, and
    either shape or ground is the brighter one, so that no fixed pixel tells the class.
    """

    def draw(low: int, high: int, *shape: int) -> np.ndarray:
        return rng.integers(low, high, (count, *shape), dtype=np.int64)

    labels = draw(0, len(SHAPES))
    radius = draw(6, 11, 1, 1)
    centre_x, centre_y = draw(10, 22, 1, 1), draw(10, 22, 1, 1)
    place = np.arange(SHAPE_SIDE)
    column, row = np.broadcast_arrays(place - centre_x, place[:, None] - centre_y)
    mask = _inside(labels[:, None, None], column, row, radius)[..., None]

    ground, contrast = draw(70, 186, 1, 1, 3), draw(30, 70, 1, 1, 3)
    sign = 2 * draw(0, 2, 1, 1, 3) - 1
    slope_x, slope_y = draw(-2, 3, 1, 1, 1), draw(-2, 3, 1, 1, 1)
    steps = place - SHAPE_SIDE // 2
    shading = slope_x * steps[:, None] + slope_y * steps[:, None, None]
    noise = draw(-15, 16, SHAPE_SIDE, SHAPE_SIDE, 3)
    image = ground + shading + mask * sign * contrast + noise
    return image.clip(0, 255).astype(np.uint8), labels.astype(np.uint8)


def _shapes() -> Arrays:
    arrays: Arrays = {}
    for split, count in SHAPES_SIZES.items():
        images, labels = draw_shapes(numpy_generator("shapes", split), count)
        arrays |= {f"{split}_images": images, f"{split}_labels": labels}
    return arrays


MNIST_DATA = _from_hub(
    "mnist", "mnist", "image", MNIST_SIZES,
    "ylecun/mnist", "77f3279092a1c1579b2250db8eafed0ad422088c",
)  # fmt: skip
CIFAR_DATA = _from_hub(
    "cifar10", "plain_text", "img", CIFAR_SIZES,
    "uoft-cs/cifar10", "0b2714987fa478483af9968de7c934580d0bb9a2",
)  # fmt: skip
DIGITS_DATA = Dataset(
    "digits-v2", {"source": "sklearn.datasets.load_digits", "preparation": 2}, _digits
)
SHAPES_DATA = Dataset(
    f"shapes-v{PREPARATION}", {"source": "generated", "preparation": PREPARATION}, _shapes
)
