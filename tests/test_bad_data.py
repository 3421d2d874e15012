"""Damaged or too small texts and images of the corpora folder are refused in one sentence."""

import io
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from refusals import check_said, refusal

from fpt.pretraining.corpora import open_stream
from fpt.tasks import datasets


def png(*shape):
    file = io.BytesIO()
    Image.fromarray(np.zeros(shape, np.uint8)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


LINES = "\n".join(f"line {i}" for i in range(60)).encode()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path / "prepared")
    return tmp_path


TEXTS = {
    "not UTF-8": ("a.txt", LINES + b"\xff\xfe", ["a.txt is no whole text in UTF-8", "0xff"]),
    "not xz": ("a.txt.xz", LINES, ["a.txt.xz is no whole text"]),
    "truncated xz": ("a.txt.xz", lzma.compress(LINES)[:-20], ["a.txt.xz is no whole text"]),
    "an empty xz": ("a.txt.xz", b"", ["a.txt.xz is no whole text"]),
    "no images": ("images-32x32.parquet", b"PAR1", ["is not a whole parquet file"]),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_bad_text(what, folder):
    name, content, parts = TEXTS[what]
    for part in range(4):
        (folder / f"english-train-{part}.txt").write_bytes(LINES)
    (folder / name).write_bytes(content)
    said = refusal(lambda: open_stream(name.split("-")[0].split(".")[0], 1000))
    check_said(said, parts)
    assert not list(folder.glob("prepared/corpora/*.safetensors"))


IMAGES = {
    "few": ({"image": [png(4, 4)] * 49}, "49 images; 50 are the least"),
    "of two sizes": ({"image": [png(4, 4)] * 49 + [png(4, 5)] * 9}, "images of different sizes"),
    "under another name": (
        {"img": [png(4, 4)] * 60},
        "not a whole parquet file with columns image",
    ),
}


@pytest.mark.parametrize("what", IMAGES)
def test_bad_images(what, folder):
    table, expected = IMAGES[what]
    pq.write_table(pa.table(table), folder / "images-32x32.parquet")
    check_said(refusal(lambda: open_stream("images", 10_000)), [expected])


@pytest.mark.parametrize("what", ["tokenizer", "v2"])
def test_a_damaged_prepared_text_is_prepared_again(what, folder):
    (folder / "a.txt").write_bytes(LINES)
    words = open_stream("a", 1000).train
    (path,) = (folder / "prepared/corpora").glob(f"*-{what}.safetensors")
    path.write_bytes(path.read_bytes()[:-10])
    datasets._on_device.cache_clear()  # as in another process
    datasets._loaded.cache_clear()
    with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
        assert np.array_equal(open_stream("a", 1000).train, words)
