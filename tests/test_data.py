"""Prepared data: real loaders on small files, digests, damage, the manifest, missing sources."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from refusals import check_said, refusal

from fpt import files
from fpt.files import FptError
from fpt.tasks import TASKS, get_task, image_data, parse_task, prepare, proteins
from fpt.tasks import datasets as data
from fpt.tasks.datasets import Dataset, data_note, dataset_digest, load, prepared_path
from lab.manifest import write_manifest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "PREPARED", tmp_path / "prepared")
    monkeypatch.setattr(data, "DATA", tmp_path)
    monkeypatch.setattr("lab.manifest.DATA", tmp_path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Small parquet files in place of the hub's, by their names there; returns the folder."""
    monkeypatch.setattr(
        "fpt.tasks.sources.fetch", lambda repo, file, *_: tmp_path / Path(file).name
    )
    return tmp_path


def write(path, columns):
    pq.write_table(pa.table(columns), path)


def numbers(length=3):
    return Dataset("numbers-v1", {}, lambda: {"a": np.arange(length), "b": np.ones((2, 2), "u1")})


def reload(dataset):
    """The arrays as another process loads them."""
    data._on_device.cache_clear()
    data._loaded.cache_clear()
    return load(dataset)


def encoded(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


@pytest.mark.parametrize(
    ("name", "column", "shape"), [("mnist", "image", (28, 28)), ("cifar10", "img", (32, 32, 3))]
)
def test_images_are_decoded_exactly_and_split(hub, monkeypatch, name, column, shape):
    rng = np.random.Generator(np.random.PCG64(0))
    pixels = rng.integers(0, 256, (30, *shape), dtype=np.uint8)
    for split, count in (("train", 30), ("test", 7)):
        images = [encoded(image) for image in pixels[:count]]
        labels = np.arange(count) % 10
        write(hub / f"{split}-00000-of-00001.parquet", {column: images, "label": labels})
    for sizes in (image_data.MNIST_SIZES, image_data.CIFAR_SIZES):
        monkeypatch.setitem(sizes, "valid", 6)
    arrays = load(get_task(name).dataset)
    assert arrays["train_images"].shape[:3] == (24, *shape[:2])
    assert np.array_equal(arrays["test_images"].reshape(7, *shape), pixels[:7])
    both = torch.cat([arrays["train_images"], arrays["valid_images"]]).reshape(30, -1)
    originals = pixels.reshape(30, -1).tolist()
    rows = [originals.index(image) for image in both.tolist()]
    assert sorted(rows) == list(range(30))
    labels = torch.cat([arrays["train_labels"], arrays["valid_labels"]])
    assert labels.tolist() == [row % 10 for row in rows]
    before = dataset_digest(get_task(name).dataset)
    prepared_path(get_task(name).dataset).unlink()
    reload(get_task(name).dataset)
    assert dataset_digest(get_task(name).dataset) == before


def test_homology_tokens_and_truncation(hub):
    long = "ACDEFGHIKLMNPQRSTVWY" * 60
    columns = {"primary": ["MKV", long, "AJZ", long[:1022]], "fold_label": [5, 1194, 0, 7]}
    for file in proteins.REPOSITORY.files.values():
        write(hub / Path(file).name, columns)
    few = dict.fromkeys(proteins.REPOSITORY.files, 4)
    task = replace(get_task("homology"), sizes=few)
    (batch,) = task.eval_batches("family", 8, "cpu")
    assert batch.last.tolist() == [[4, 4, 1023, 1023]]  # shortest first
    assert batch.targets[0, :, 0].tolist() == [5, 0, 1194, 7]
    words = [[proteins.VOCABULARY[t] for t in row] for row in batch.inputs[0, :, :6].tolist()]
    assert words[0] == ["<cls>", "M", "K", "V", "<sep>", "<pad>"]
    assert words[1] == ["<cls>", "A", "<unk>", "Z", "<sep>", "<pad>"]
    assert batch.inputs[0, 2, 1023] == proteins.SEP
    assert load(task.dataset)["train_cut"].tolist() == [0, 1, 0, 0]

    released = replace(get_task("homology", padding="released"), sizes=few)
    batch = released.train_batch([0], 0, 2, "cpu")
    assert batch.inputs.shape == (1, 2, 1024)
    assert batch.last is None


def test_the_splits_of_homology_are_tapes(hub):
    """The paper's test is the holdout of folds; the easier ones are splits of their own."""
    files = {
        "train": "train",
        "valid": "validation",
        "test": "test_fold_holdout",
        "superfamily": "test_superfamily_holdout",
        "family": "test_family_holdout",
    }
    for fold, file in enumerate(files.values()):
        columns = {"primary": ["MKV"], "fold_label": [fold]}
        write(hub / f"{file}-00000-of-00001.parquet", columns)
    task = get_task("homology")
    assert [task.labels(split).tolist() for split in files] == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("content", [{"label": [1]}, b"<html>404</html>", b""])
def test_a_file_of_something_else(hub, content):
    path = hub / "train-00000-of-00001.parquet"
    path.write_bytes(content) if isinstance(content, bytes) else write(path, content)
    parts = [str(path), "is not a whole parquet file with columns image, label", "fetch it again"]
    check_said(refusal(lambda: get_task("mnist").digest()), parts)
    assert not list(hub.glob("prepared/*.safetensors"))


# ---------------------------------------------------------------------------------- prepared files


def test_a_data_set_is_prepared_once_to_the_same_bytes(monkeypatch):
    dataset = numbers()
    digest = dataset_digest(dataset)
    path = prepared_path(dataset)
    first = path.read_bytes()

    def read_only(path, *, wait):
        raise FptError(f"Cannot write the lock {path}: Read-only file system.")

    with monkeypatch.context() as disk:
        disk.setattr(data, "lock", read_only)  # what is prepared is read from a read-only disk
        never = Dataset(dataset.key, {}, lambda: pytest.fail("prepared twice"))
        assert torch.equal(reload(never)["a"], torch.arange(3))
    path.unlink()
    reload(dataset)
    assert dataset_digest(dataset) == digest
    assert path.read_bytes() == first


def test_a_data_set_is_prepared_by_one_process_at_a_time():
    free = []

    def build():
        with files.lock(path.with_suffix(".lock"), wait=False) as mine:
            free.append(mine)
        return {"a": np.arange(3)}

    dataset = Dataset("locked-v1", {}, build)
    path = prepared_path(dataset)
    load(dataset)
    assert free == [False]


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "foreign"])
def test_a_damaged_file_is_moved_aside_and_redone(damage):
    dataset = numbers()
    load(dataset)
    path = prepared_path(dataset)
    good = path.read_bytes()
    bad = {
        "truncated": good[:-3],
        "changed": good[:-1] + b"\x07",
        "empty": b"",
        "foreign": b"not safetensors at all",
    }[damage]
    path.write_bytes(bad)
    with pytest.warns(UserWarning, match=f"{path.name} is damaged .*is prepared again"):
        assert torch.equal(reload(dataset)["a"], torch.arange(3))
    assert path.read_bytes() == good
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == bad


# -------------------------------------------------------------------------------------- manifest


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_manifest_notes_and_floors():
    task = get_task("digits")
    unlisted = data_note(task)
    assert "not in data/manifest.json" in unlisted
    assert set(task.floors()) == {"majority"}

    write_manifest([task, get_task("bit-xor")])
    written = json.loads((data.DATA / "manifest.json").read_text())
    assert list(written) == [task.dataset.key]
    entry = written[task.dataset.key]
    assert entry["digest"] == task.digest()
    assert entry["examples"] == task.sizes
    assert data_note(task) is None
    assert task.floors()["majority"] < 0.2
    assert 0.6 < task.floors()["linear classifier"] < 0.8

    entry["digest"] = "0" * 64
    (data.DATA / "manifest.json").write_text(json.dumps(written))
    assert "not 000000000000" in data_note(task)


def test_the_committed_manifest_lists_every_default_data_set(monkeypatch):
    monkeypatch.setattr(data, "DATA", files.DATA)
    for name in set(TASKS) - {"bit-memory", "bit-xor", "glue"}:
        task = get_task(name)
        entry = data.read_manifest()[task.dataset.key]
        assert entry["examples"] == task.sizes
        assert entry["preparation"] == task.identity["data"]["preparation"]
        assert "majority" in entry["floors"][name]
    assert "root operator" in get_task("listops", variant="released").floors()


def test_prepared_data_have_the_digest_of_the_manifest(monkeypatch):
    monkeypatch.setattr(data, "DATA", files.DATA)
    assert data_note(get_task("digits")) is None


def test_what_is_prepared_is_named():
    said = prepare(get_task("digits"))
    assert said.startswith(f"digits: digits-v2, {get_task('digits').digest()[:12]} (data set")
    bits = get_task("bit-xor")
    assert prepare(bits) == f"bit-xor: generated on the fly, {bits.digest()[:12]}"
    task = parse_task("listops:variant=released,train=50")
    assert (task.options["variant"], task.options["train"]) == ("released", 50)
    for wrong in ("listops:released", "listops:train=1=2", "listops:train={"):
        check_said(refusal(lambda text=wrong: parse_task(text)), ["TASK:option=value"])
