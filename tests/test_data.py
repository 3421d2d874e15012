"""Prepared data: real loaders on small files, digests, damage, the manifest, missing sources."""

import io
import json
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from fpt.files import FptError
from fpt.tasks import datasets as data
from fpt.tasks import get_task, image_data, proteins
from fpt.tasks import manifest as prepare
from fpt.tasks.datasets import Dataset, data_note, load, prepared_path


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PREPARED", tmp_path / "prepared")
    monkeypatch.setattr(data, "DATA", tmp_path)
    monkeypatch.setattr(prepare, "DATA", tmp_path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Small parquet files in place of the hub's; returns the folder."""
    monkeypatch.setattr(
        image_data, "fetch", lambda name, split: tmp_path / f"{name}-{split}.parquet"
    )
    monkeypatch.setattr(proteins, "fetch", lambda name, split: tmp_path / f"{name}-{split}.parquet")
    return tmp_path


def numbers(length=3):
    return Dataset("numbers-v1", {}, lambda: {"a": np.arange(length), "b": np.ones((2, 2), "u1")})


def encoded(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def write_images(folder, name, column, pixels, labels):
    table = pa.table({column: [encoded(image) for image in pixels], "label": labels})
    pq.write_table(table, folder / f"{name}.parquet")


@pytest.mark.parametrize(
    ("name", "column", "shape"), [("mnist", "image", (28, 28)), ("cifar10", "img", (32, 32, 3))]
)
def test_images_are_decoded_exactly_and_split(hub, name, column, shape):
    rng = np.random.Generator(np.random.PCG64(0))
    pixels = rng.integers(0, 256, (30, *shape), dtype=np.uint8)
    write_images(hub, f"{name}-train", column, pixels, np.arange(30) % 10)
    write_images(hub, f"{name}-test", column, pixels[:7], np.arange(7))
    arrays = image_data._from_hub(name, valid=6)
    assert arrays["train_images"].shape[:3] == (24, *shape[:2])
    assert np.array_equal(arrays["test_images"].reshape(7, *shape), pixels[:7])
    both = np.concatenate([arrays["train_images"], arrays["valid_images"]]).reshape(30, -1)
    originals = pixels.reshape(30, -1).tolist()
    rows = [originals.index(image) for image in both.tolist()]
    assert sorted(rows) == list(range(30))
    assert len(arrays["valid_labels"]) == 6
    labels = np.concatenate([arrays["train_labels"], arrays["valid_labels"]])
    assert np.array_equal(labels, np.array(rows) % 10)
    again = image_data._from_hub(name, valid=6)
    assert all(np.array_equal(arrays[k], again[k]) for k in arrays)


def test_homology_tokens_and_truncation(hub):
    long = "ACDEFGHIKLMNPQRSTVWY" * 60
    for split in data.SOURCES["homology"].files:
        table = pa.table(
            {
                "primary": ["MKV", long, "AJZ"],
                "fold_label": [5, 1194, 0],
                "protein_length": [3, 1200, 3],
            }
        )
        pq.write_table(table, hub / f"homology-{split}.parquet")
    task = get_task("homology")
    (batch,) = task.eval_batches("family", 8, "cpu")
    order = [0, 2, 1]  # shortest first
    assert batch.last.tolist() == [[4, 4, 1023]]
    assert batch.targets[0, :, 0].tolist() == [[5, 1194, 0][i] for i in order]
    words = [[proteins.VOCABULARY[t] for t in row] for row in batch.inputs[0, :, :6].tolist()]
    assert words[0] == ["<cls>", "M", "K", "V", "<sep>", "<pad>"]
    assert words[1] == ["<cls>", "A", "<unk>", "Z", "<sep>", "<pad>"]
    assert batch.inputs[0, 2, 1023] == proteins.SEP
    assert task.coverage()["train"] == pytest.approx(2 / 3)

    released = get_task("homology", padding="released").train_batch([0], 0, 2, "cpu")
    assert released.inputs.shape == (1, 2, 1024)
    assert released.last is None


def test_prepared_data_are_read_from_a_read_only_disk(monkeypatch):
    dataset = numbers()
    before, digest = data._prepared(dataset, prepared_path(dataset))

    def read_only(path, *, wait):
        raise FptError(f"Cannot write the lock {path}: Read-only file system.")

    monkeypatch.setattr(data, "lock", read_only)
    tensors, again = data._prepared(dataset, prepared_path(dataset))
    assert torch.equal(tensors["a"], before["a"])
    assert again == digest


def test_a_data_set_is_prepared_once_to_the_same_bytes():
    dataset = numbers()
    load(dataset)
    path = prepared_path(dataset)
    first = path.read_bytes()
    tensors, digest = data._prepared(
        Dataset(dataset.key, {}, lambda: pytest.fail("prepared twice")), path
    )
    assert torch.equal(tensors["a"], torch.arange(3))
    path.unlink()
    assert data._prepared(numbers(), path)[1] == digest == data.dataset_digest(dataset)
    assert path.read_bytes() == first


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "foreign"])
def test_a_damaged_file_is_moved_aside_and_redone(damage, caplog):
    dataset = numbers()
    path = prepared_path(dataset)
    data._prepared(dataset, path)
    good = path.read_bytes()
    bad = {
        "truncated": good[:-3],
        "changed": good[:-1] + b"\x07",
        "empty": b"",
        "foreign": b"not safetensors at all",
    }[damage]
    path.write_bytes(bad)
    with caplog.at_level(logging.WARNING, "fpt"):
        tensors, _ = data._prepared(dataset, path)
    assert torch.equal(tensors["a"], torch.arange(3))
    assert path.read_bytes() == good
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == bad
    assert "damaged" in caplog.text
    assert path.name in caplog.text


def test_the_file_of_another_data_set_is_moved_aside(tmp_path, caplog):
    """Its arrays have the same names and shapes; the manifest knows whose they are."""
    dataset, other = numbers(), Dataset("others-v1", {}, lambda: {"a": np.arange(1, 4)})
    path, theirs = prepared_path(dataset), prepared_path(other)
    listed = {other.key: {"digest": data._prepared(other, theirs)[1]}}
    (tmp_path / "manifest.json").write_text(json.dumps(listed))
    theirs.rename(path)
    with caplog.at_level(logging.WARNING, "fpt"):
        tensors, _ = data._prepared(dataset, path)
    assert torch.equal(tensors["a"], torch.arange(3))
    assert "it is the data set others-v1" in caplog.text


def test_a_missing_source_is_one_clear_sentence(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(FptError) as caught:
        data.fetch("mnist", "train")
    message = str(caught.value)
    for part in (
        "mnist/train-00000-of-00001.parquet",
        "ylecun/mnist",
        "HF_HUB_OFFLINE",
        "HF_HUB_CACHE",
    ):
        assert part in message
    assert "\n" not in message


def test_manifest_notes_and_floors():
    task = get_task("digits")
    unlisted = data_note(task)
    assert "not in data/manifest.json" in unlisted
    assert unlisted not in data.listed_since()
    assert set(task.floors()) == {"majority"}

    prepare.write_manifest([task, get_task("bit-xor")])
    manifest = json.loads((data.DATA / "manifest.json").read_text())
    entry = manifest[task.dataset.key]
    assert entry["digest"] == task.digest()
    assert entry["examples"] == task.sizes
    assert data_note(task) is None
    assert unlisted in data.listed_since()  # of the same digest only
    floors = task.floors()
    assert floors["majority"] < 0.2
    assert 0.6 < floors["linear classifier"] < 0.8

    entry["digest"] = "0" * 64
    (data.DATA / "manifest.json").write_text(json.dumps(manifest))
    assert "not 000000000000" in data_note(task)
    assert unlisted not in data.listed_since()


def test_the_committed_manifest_lists_every_default_data_set(monkeypatch):
    from fpt.files import DATA

    monkeypatch.setattr(data, "DATA", DATA)
    for name in (
        "listops",
        "mnist",
        "cifar10",
        "cifar10-lra",
        "homology",
        "digits",
        "shapes",
        "families",
        "authors",
    ):
        task = get_task(name)
        entry = data.manifest_entry(task.dataset.key)
        assert entry["examples"] == task.sizes
        assert entry["preparation"] == task.identity["data"]["preparation"]
        assert "majority" in entry["floors"][name]
    assert "root operator" in get_task("listops", variant="released").floors()


@pytest.mark.parametrize("name", ["digits", "families"])
def test_generated_data_have_the_digest_of_the_manifest(name, monkeypatch):
    from fpt.files import DATA

    monkeypatch.setattr(data, "DATA", DATA)
    assert data_note(get_task(name)) is None


def test_prepare_summarises():
    (row, bits) = prepare.prepare(["digits", get_task("bit-xor")])
    assert (row.task, row.data, row.examples["test"]) == ("digits", "digits-v2", 500)
    assert bits.data == "generated on the fly"
    assert bits.note is None
    task = prepare.parse_task("listops:variant=released,train=50")
    assert (task.options["variant"], task.options["train"]) == ("released", 50)
    with pytest.raises(FptError, match="TASK:option=value"):
        prepare.parse_task("listops:released")
