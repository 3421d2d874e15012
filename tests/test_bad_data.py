"""Bad data: parquet files, prepared arrays, the manifest, texts. What comes from outside is refused
in one sentence; what was prepared here is set aside and prepared again."""

import io
import json
import logging
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from refusals import check_said, refusal
from safetensors.torch import save_file

from fpt.pretraining import corpora
from fpt.pretraining.corpora import open_stream
from fpt.tasks import datasets as data
from fpt.tasks import get_task, image_data, parquet, proteins
from fpt.tasks.datasets import Arrays, Dataset
from fpt.tasks.expressions import generate


def png(*shape: int) -> dict[str, object]:
    file = io.BytesIO()
    Image.fromarray(np.zeros(shape, np.uint8)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


# ----------------------------------------------------------------------- parquet files of the hub

GOOD = {"image": [png(28, 28)] * 3, "label": [0, 5, 9]}
PROTEINS = {"primary": ["MKV", "AC", "W"], "fold_label": [0, 7, 1194]}
CUT = {"bytes": png(28, 28)["bytes"][:50], "path": None}  # type: ignore[index]
TABLES: dict[str, tuple[dict[str, list[Any]], list[str]]] = {
    "no images": ({"label": [1]}, ["has no column 'image' but label"]),
    "no labels": ({"image": GOOD["image"]}, ["has no column 'label' but image"]),
    "no rows": ({"image": [], "label": []}, ["has no rows"]),
    "a label of 10": ({**GOOD, "label": [0, 5, 10]}, ["'label'", "classes 0 to 9"]),
    "a label of 261": ({**GOOD, "label": [0, 5, 261]}, ["'label'", "classes 0 to 9"]),
    "a label of -1": ({**GOOD, "label": [0, 5, -1]}, ["'label'", "classes 0 to 9"]),
    "a label missing": ({**GOOD, "label": [0, 5, None]}, ["'label'", "classes 0 to 9"]),
    "a real label": ({**GOOD, "label": [0, 5, 1.5]}, ["'label'", "classes 0 to 9"]),
    "labels of text": ({**GOOD, "label": ["0", "5", "9"]}, ["'label'", "classes 0 to 9"]),
    "a large image": ({**GOOD, "image": [png(30, 30)] * 3}, ["(30, 30, 1)", "(28, 28, 1)"]),
    "another image": (
        {**GOOD, "image": [png(28, 28), png(28, 28), png(28, 27)]},
        ["an image of (28, 27, 1); all must be (28, 28, 1)"],
    ),
    "a colour image": ({**GOOD, "image": [png(28, 28, 3)] * 3}, ["(28, 28, 3)", "(28, 28, 1)"]),
    "a broken image": ({**GOOD, "image": [CUT] * 3}, ["holds something that is no image"]),
    "text for images": ({**GOOD, "image": [{"bytes": b"a cat"}] * 3}, ["is no image", "identify"]),
    "an image missing": ({**GOOD, "image": [None] * 3}, ["is no image"]),
    "numbers for images": ({**GOOD, "image": [1, 2, 3]}, ["is no image"]),
    "no residues": ({"fold_label": [1]}, ["has no column 'primary' but fold_label"]),
    "a fold of 1195": ({**PROTEINS, "fold_label": [0, 1, 1195]}, ["'fold_label'", "0 to 1194"]),
    "residues missing": ({**PROTEINS, "primary": ["MKV", None, "W"]}, ["'primary'", "no text"]),
    "residues as numbers": ({**PROTEINS, "primary": [1, 2, 3]}, ["'primary'", "no text"]),
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that stands for every file of the hub; prepared data go to the test's folder."""
    path = tmp_path / "hub.parquet"
    for module in (image_data, proteins):
        monkeypatch.setattr(module, "fetch", lambda name, split: path)
    monkeypatch.setattr(data, "PREPARED", tmp_path / "prepared")
    return path


@pytest.mark.parametrize("what", TABLES)
def test_a_table_of_something_else(what: str, hub: Path) -> None:
    table, parts = TABLES[what]
    pq.write_table(pa.table(table), hub)
    name = "homology" if table.keys() & PROTEINS.keys() else "mnist"
    check_said(refusal(lambda: get_task(name).digest()), [*parts, str(hub)])
    assert not list(hub.parent.glob("prepared/*.safetensors"))


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:-20],
    "empty": lambda content: b"",
    "a page": lambda content: b"<html>404</html>",
    "bits flipped": lambda content: content[:4] + b"\xff" * 100 + content[104:],
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_table(how: str, hub: Path) -> None:
    pq.write_table(pa.table(GOOD), hub)
    hub.write_bytes(DAMAGED[how](hub.read_bytes()))
    said = refusal(lambda: get_task("mnist").digest())
    check_said(said, [f"{hub} is not a whole parquet file", "fetch it again"])


def test_tables_with_too_few_images() -> None:
    def few() -> Arrays:
        return {"train_images": np.zeros((7, 28, 28, 1), np.uint8)}

    said = refusal(lambda: data._build(replace(image_data.MNIST_DATA, build=few)))
    check_said(said, ["mnist-v1 cannot be made of its source", "'train_images'", "(55000, 28, 28"])


def test_a_folder_in_place_of_a_table(hub: Path) -> None:
    hub.mkdir()
    refusal(lambda: parquet.read(hub, "image"))


# --------------------------------------------------------------------------------- prepared arrays


def without(name: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {key: array for key, array in arrays.items() if key != name}


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, name: change(arrays[name])}


def first(value: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.concatenate([np.full_like(array[:1], value), array[1:]])


PREPARED: dict[str, tuple[str, Callable[[Arrays], Arrays], str]] = {
    "NaN": ("digits", changed("test_images", lambda a: a * np.float32("nan")), "float32"),
    "16 bits": ("digits", changed("test_images", lambda a: a.astype(np.int16)), "int16"),
    "too bright": ("digits", changed("valid_images", first(17)), "to 17, not from 0 to 16"),
    "label 10": ("digits", changed("train_labels", first(10)), "to 10, not from 0 to 9"),
    "another size": ("digits", changed("test_images", lambda a: a[:, 1:]), "(500, 9, 10, 1)"),
    "too few": ("digits", changed("test_labels", lambda a: a[1:]), "(499,)"),
    "none": ("digits", without("valid_labels"), "no array 'valid_labels'"),
    "id 16": ("listops", changed("test_tokens", first(16)), "to 16, not from 0 to 15"),
    "ids of 64 bits": ("listops", changed("test_tokens", lambda a: a.astype(int)), "int64"),
    "starts late": ("listops", changed("test_starts", first(1)), "'test_starts' does not cut"),
    "stops early": ("listops", changed("test_tokens", lambda a: a[:-1]), "does not cut"),
    "unsorted": (
        "listops",
        changed("test_starts", lambda a: a[[0, 2, 1, *range(3, len(a))]]),
        "cut",
    ),
    "too long": (
        "listops",
        changed("train_starts", lambda a: a[[0, *range(3, len(a))]]),
        "a sequence of 'train' has",
    ),
    "no depths": ("listops", without("train_depths"), "no array 'train_depths'"),
}
OPTIONS = {"digits": {}, "listops": {"max_length": 12, "train": 20, "valid": 5, "test": 5}}


def dataset_of(task: str) -> Dataset:
    return get_task(task, **OPTIONS[task]).dataset  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", PREPARED)
def test_prepared_arrays_that_cannot_be(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whole files with a right digest, but not of this data set."""
    task, change, expected = PREPARED[what]
    dataset, path = dataset_of(task), tmp_path / "a.safetensors"
    arrays = dataset.build()
    data._write(path, change(arrays))
    with caplog.at_level(logging.WARNING, "fpt"):
        tensors, digest = data._prepared(dataset, path)
    assert digest == data.arrays_digest(arrays)
    check_said(caplog.text, [f"{path.name} is damaged", expected])


@pytest.mark.parametrize("what", ["of another data set", "of weights", "a folder"])
def test_another_file_in_place_of_prepared_arrays(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset, path = dataset_of("listops"), tmp_path / "a.safetensors"
    if what == "a folder":
        path.mkdir()
    elif what == "of weights":
        save_file({"weight": torch.ones(3, 3, dtype=torch.bfloat16)}, path)
    else:
        data._write(path, dataset_of("digits").build())
    with caplog.at_level(logging.WARNING, "fpt"):
        data._prepared(dataset, path)
    check_said(caplog.text, [f"{path.name} is damaged", "prepared again"])


def test_more_expressions_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpt.tasks.expressions.IN_VAIN", 5)
    draw = np.random.Generator(np.random.PCG64(0))
    parts = ["of 500 different ListOps expressions with 3 < tokens <= 4", "widen that window"]
    check_said(refusal(lambda: generate(draw, 500, 2, 2, 3, 4)), parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "holds no values by name"),
        ('{"digits-v2": 3}', "'digits-v2' has no digest"),
        ('{"digits-v2": {"digest": 3}}', "'digits-v2' has no digest"),
    ],
)
def test_a_damaged_manifest(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "DATA", tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    check_said(refusal(data.read_manifest), [str(tmp_path / "manifest.json"), expected])


def test_a_folder_in_place_of_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "DATA", tmp_path)
    (tmp_path / "manifest.json").mkdir()
    check_said(refusal(data.read_manifest), ["manifest.json is not valid JSON (it is a folder)"])


# ------------------------------------------------------------------------------------------- texts

LINES = "\n".join(f"line {i}" for i in range(60)).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    monkeypatch.setattr(corpora, "PREPARED", tmp_path / "prepared")
    return tmp_path


TEXTS: dict[str, tuple[str, bytes, list[str]]] = {
    "empty": ("a.txt", b"", ["'a' is too small", "50 documents"]),
    "49 lines": ("a.txt", LINES[: LINES.index(b"line 49")], ["'a' is too small"]),
    "not UTF-8": ("a.txt", LINES + b"\xff\xfe", ["a.txt is no whole text in UTF-8", "0xff"]),
    "not xz": ("a.txt.xz", LINES, ["a.txt.xz is no whole text"]),
    "truncated xz": ("a.txt.xz", lzma.compress(LINES)[:-20], ["a.txt.xz is no whole text"]),
    "an empty xz": ("a.txt.xz", b"", ["a.txt.xz is no whole text"]),
    "no text in it": ("a.txt", b"\n" * 60, ["'a' is too small"]),
    "no images": ("images-32x32.parquet", b"PAR1", ["is not a whole parquet file"]),
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_bad_text(what: str, folder: Path) -> None:
    name, content, parts = TEXTS[what]
    for part in range(4):
        (folder / f"english-train-{part}.txt").write_bytes(LINES)
    (folder / name).write_bytes(content)
    said = refusal(lambda: open_stream(name.split("-")[0].split(".")[0], 1000))
    check_said(said, parts)
    assert not list(folder.glob("prepared/corpora/*.safetensors"))


IMAGES: dict[str, tuple[dict[str, list[Any]], str]] = {
    "few": ({"image": [png(4, 4)] * 49}, "49 images; 50 are the least"),
    "of two sizes": ({"image": [png(4, 4)] * 49 + [png(4, 5)] * 9}, "images of different sizes"),
    "under another name": ({"img": [png(4, 4)] * 60}, "no column 'image' but img"),
}


@pytest.mark.parametrize("what", IMAGES)
def test_bad_images(what: str, folder: Path) -> None:
    table, expected = IMAGES[what]
    pq.write_table(pa.table(table), folder / "images-32x32.parquet")
    check_said(refusal(lambda: open_stream("images", 10_000)), [expected])


@pytest.mark.parametrize("what", ["truncated", "a folder", "tokenizer"])
def test_a_damaged_prepared_text(what: str, folder: Path) -> None:
    (folder / "a.txt").write_bytes(LINES)
    words = open_stream("a", 1000).train
    (path,) = (folder / "prepared/corpora").glob("*.safetensors")
    if what == "truncated":
        path.write_bytes(path.read_bytes()[:-10])
    elif what == "a folder":
        path.unlink()
        path.mkdir()
    else:
        (path,) = (folder / "prepared/corpora").glob("*.json")
        path.write_text(json.dumps({"model": {}}))
    check_said(refusal(lambda: open_stream("a", 1000)), [str(path), "remove it"])
    path.rmdir() if path.is_dir() else path.unlink()
    assert np.array_equal(open_stream("a", 1000).train, words)
