"""Images as streams of tokens: one pixel after the other, one of 512 colours each.

A pixel keeps the three high bits of each channel (as many colours as Chen et al. 2020 used for
their Image GPT, on a grid instead of a palette); an image is its rows from top to bottom, then
`END`.
"""

import numpy as np
from tqdm import tqdm

from ..files import FptError
from ..tasks.datasets import load
from ..tasks.hub import decode_image, read_table
from ..tasks.image_data import CIFAR_DATA
from .corpus import HELD_OUT, Stream, corpus_file
from .lines import END_ID

FILE = "images-32x32.parquet"  # in the corpora folder; column `image` with the bytes of each
PIXELS = ("images", "cifar10-pixels")


def pixel_ids(images: np.ndarray) -> np.ndarray:
    """(N, H, W, 3) uint8 -> (N * (H * W + 1),) uint16: ids 1 to 512, and `END` after each."""
    high = (images >> 5).astype(np.uint16)
    ids = 1 + (high[..., 0] << 6) + (high[..., 1] << 3) + high[..., 2]
    rows = ids.reshape(len(ids), -1)
    return np.pad(rows, ((0, 0), (0, 1)), constant_values=END_ID).ravel()


def photographs(tokens: int, valid_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out images of `FILE`, as many as are needed; every 50th is held out."""
    path = corpus_file(FILE)
    column = read_table(path, "image")["image"]
    if len(column) < HELD_OUT:
        raise FptError(f"{path} has {len(column)} images; {HELD_OUT} are the least.")
    out = np.arange(len(column)) % HELD_OUT == HELD_OUT - 1

    def decode(rows: np.ndarray, wanted: int) -> np.ndarray:
        images: list[np.ndarray] = []
        pixels = 0
        for value in tqdm(column.take(rows[:wanted]).to_pylist(), desc="images", disable=None):
            images.append(decode_image(value, "RGB"))
            if images[-1].shape != images[0].shape:
                raise FptError(f"{path} has images of different sizes; one size is expected.")
            pixels += images[-1].shape[0] * images[-1].shape[1]
            if pixels >= wanted:
                break
        return np.stack(images)

    return decode(np.flatnonzero(~out), tokens), decode(np.flatnonzero(out), valid_tokens)


def pixel_stream(name: str, tokens: int, valid_tokens: int) -> Stream:
    """The images of one of `PIXELS`, or all it has where it is short."""
    if name == "images":
        train, valid = photographs(tokens, valid_tokens)
    else:
        arrays = load(CIFAR_DATA)
        train, valid = (arrays[f"{split}_images"].numpy() for split in ("train", "valid"))
    return Stream(train=pixel_ids(train)[:tokens], valid=pixel_ids(valid)[:valid_tokens])
