"""Damaged or too small texts and images of the corpora folder are refused in one sentence."""

import lzma

import numpy as np
import pytest
from refusals import refuses
from samples import png, write_parquet

from fpt.pretraining.corpora import open_stream

LINES = "\n".join(f"line {i}" for i in range(60)).encode()
SMALL = png(np.zeros((4, 4), np.uint8))
WIDE = png(np.zeros((4, 5), np.uint8))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", LINES + b"\xff\xfe", "a.txt is not complete text in UTF-8"),
        ("a.txt.xz", lzma.compress(LINES)[:-20], "a.txt.xz is not complete text"),
    ],
)
def test_a_damaged_file(name, content, sentence, corpora, prepared):
    (corpora / name).write_bytes(content)
    refuses(lambda: open_stream("a", 1000), sentence)
    assert not list(prepared.glob("corpora/*.safetensors"))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"image": [SMALL] * 49}, "49 images; 50 are the least"),
        ({"image": [SMALL] * 49 + [WIDE] * 9}, "images of different sizes"),
    ],
)
def test_bad_images(columns, sentence, corpora):
    write_parquet(corpora / "images-32x32.parquet", columns)
    refuses(lambda: open_stream("images", 10_000), sentence)
