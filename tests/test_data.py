"""Prepared data: real loaders on small files, digests, damage, the manifest, missing sources."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses
from samples import png, write_parquet

from fpt.errors import FptError
from fpt.tasks import datasets as data
from fpt.tasks import get_task, image_data, parse_task, proteins
from fpt.tasks.datasets import Dataset, data_note, load, prepared_path
from lab.manifest import write_manifest

# The test is the paper's; the easier ones are splits of their own.
SPLITS = ("train", "valid", "test", "superfamily", "family")
FILES_OF_TAPE = (
    "train", "validation", "test_fold_holdout", "test_superfamily_holdout", "test_family_holdout"
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(project):
    project.data.mkdir()
    return project.data


@pytest.fixture
def hub(folder, monkeypatch):
    """A folder of parquet files in place of the hub's, by their names there."""
    monkeypatch.setattr("fpt.tasks.sources.fetch", lambda _, file, *__: folder / Path(file).name)
    return folder


NUMBERS = Dataset(
    "numbers-v1",
    {},
    lambda: {"a": np.arange(3), "b": np.ones((2, 2), "u1")},
)


def reload(dataset):
    """The arrays as another process loads them."""
    data._on_device.cache_clear()
    data._loaded.cache_clear()
    return load(dataset)


@pytest.mark.parametrize(
    ("name", "column", "shape"), [("mnist", "image", (28, 28)), ("cifar10", "img", (32, 32, 3))]
)
def test_images_are_decoded_exactly_and_split(hub, monkeypatch, name, column, shape):
    pixels = np.random.default_rng(0).integers(0, 256, (30, *shape), dtype=np.uint8)
    for split, count in (("train", 30), ("test", 7)):
        columns = {column: [png(image) for image in pixels[:count]], "label": range(count)}
        write_parquet(hub / f"{split}-00000-of-00001.parquet", columns)
    for sizes in (image_data.MNIST_SIZES, image_data.CIFAR_SIZES):
        monkeypatch.setitem(sizes, "valid", 6)
    arrays = load(get_task(name).dataset)
    rows = []
    for split in ("train", "valid", "test"):
        images = arrays[f"{split}_images"]
        labels = arrays[f"{split}_labels"].tolist()
        assert np.array_equal(images.reshape(-1, *shape), pixels[labels])
        rows.append(labels)
    assert sorted(rows[0] + rows[1]) == list(range(30))
    assert (len(rows[1]), rows[2]) == (6, list(range(7)))


# TAPE has three test sets; the paper's is the one of folds.
def test_homology_tokens_and_truncation(hub):
    long = "ACDEFGHIKLMNPQRSTVWY" * 60
    for fold, file in enumerate(FILES_OF_TAPE):
        columns = {"primary": ["MKV", long, "AJZ", long[:1022]], "fold_label": [5, 1194, 0, fold]}
        write_parquet(hub / f"{file}-00000-of-00001.parquet", columns)
    few = dict.fromkeys(SPLITS, 4)
    task = replace(get_task("homology"), sizes=few)
    assert [task.labels(split)[3] for split in SPLITS] == [0, 1, 2, 3, 4]
    (batch,) = task.eval_batches("family", 8, "cpu")
    assert batch.last.tolist() == [[4, 4, 1023, 1023]]  # shortest first
    assert batch.targets[0, :, 0].tolist() == [5, 0, 1194, 4]
    words = [[proteins.VOCABULARY[t] for t in row] for row in batch.inputs[0, :2, :6].tolist()]
    assert words[0] == ["<cls>", "M", "K", "V", "<sep>", "<pad>"]
    assert words[1] == ["<cls>", "A", "<unk>", "Z", "<sep>", "<pad>"]
    assert batch.inputs[0, 2, 1023] == proteins.SEP
    short = replace(get_task("homology", length=4), sizes=few)
    (batch,) = short.eval_batches("family", 8, "cpu")
    assert batch.inputs.shape == (1, 4, 4)
    assert (batch.inputs[..., 0] == proteins.CLS).all()
    assert (batch.inputs[..., 3] == proteins.SEP).all()


def test_windows_of_proteins_hold_the_same_examples_with_less_padding(hub):
    """Each window has the examples that its batches would have had, whatever is in the pack."""
    counts = [1 + (37 * i) % 101 for i in range(120)]
    columns = {"primary": ["A" * n for n in counts], "fold_label": list(range(120))}
    for file in FILES_OF_TAPE:
        write_parquet(hub / f"{file}-00000-of-00001.parquet", columns)
    sizes = dict.fromkeys(SPLITS, 120)
    plain = replace(get_task("homology"), sizes=sizes)
    sorted_ = replace(get_task("homology", window=5), sizes=sizes)

    def folds(task, seeds, step):
        return task.train_batch(seeds, step, 6, "cpu").targets[..., 0]

    widths = {plain: 0, sorted_: 0}
    for first in range(0, 40, 5):  # two epochs
        for seed in (0, 1):
            both = [
                torch.cat([folds(task, [seed], first + i) for i in range(5)]).flatten().sort()[0]
                for task in (plain, sorted_)
            ]
            assert torch.equal(*both)
        for step in range(first, first + 5):
            assert torch.equal(folds(sorted_, [0, 1], step)[1:], folds(sorted_, [1], step))
            for task in widths:
                widths[task] += task.train_batch([0], step, 6, "cpu").inputs.shape[-1]
    assert widths[sorted_] < 0.75 * widths[plain]
    lengths = [sorted_.train_batch([0], step, 6, "cpu").inputs.shape[-1] for step in range(5)]
    assert lengths != sorted(lengths)  # short before long would be another treatment


@pytest.mark.parametrize("options", [{"length": 2}, {"length": 1025}, {"window": 0}])
def test_proteins_of_other_lengths_are_refused(options):
    refuses(lambda: get_task("homology", **options), next(iter(options)), "homology")


def test_options_that_came_later_change_no_identity():
    pairs = [("homology", {"length": 1024, "window": 1}), ("cifar10-lra", {"patch": 1})]
    for name, options in pairs:
        assert get_task(name, **options).identity == get_task(name).identity
    assert get_task("homology", window=2).identity != get_task("homology").identity


@pytest.mark.parametrize("content", [b"<html>404</html>", None])
def test_a_file_of_something_else(hub, prepared, content):
    path = hub / "train-00000-of-00001.parquet"
    write_parquet(path, {"label": [1]})
    if content is not None:
        path.write_bytes(content)
    parts = [
        str(path),
        "is not a complete parquet file with columns image, label",
        "fetch it again",
    ]
    refuses(lambda: get_task("mnist").digest(), *parts)
    assert not list(prepared.glob("*.safetensors"))


# ---------------------------------------------------------------------------------- prepared files


def test_a_data_set_is_prepared_once_to_the_same_bytes(monkeypatch):
    load(NUMBERS)
    path = prepared_path(NUMBERS)
    content = path.read_bytes()

    def read_only(path, *, wait):
        raise FptError(f"Cannot write the lock {path}: Read-only file system.")

    with monkeypatch.context() as disk:
        disk.setattr(data, "lock", read_only)  # what is prepared is read from a read-only disk
        never = replace(NUMBERS, build=lambda: pytest.fail("prepared twice"))
        assert torch.equal(reload(never)["a"], torch.arange(3))
    path.unlink()
    reload(NUMBERS)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-3],
        lambda content: content[:-1] + b"\x07",
    ],
)
def test_a_damaged_file_is_moved_aside_and_redone(damage):
    load(NUMBERS)
    path = prepared_path(NUMBERS)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    with pytest.warns(UserWarning, match=f"{path.name} is damaged .*is prepared again"):
        assert torch.equal(reload(NUMBERS)["a"], torch.arange(3))
    assert path.read_bytes() == good
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == damage(good)


# -------------------------------------------------------------------------------------- manifest


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_manifest_notes_and_floors(folder):
    task = get_task("digits")
    assert "not in data/manifest.json" in data_note(task.dataset, task.digest())
    assert set(task.floors()) == {"majority"}
    write_manifest([task, get_task("bit-xor")])
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    assert list(manifest) == [task.dataset.key]
    entry = manifest[task.dataset.key]
    assert (entry["digest"], entry["examples"]) == (task.digest(), task.sizes)
    assert data_note(task.dataset, task.digest()) is None
    assert 0.6 < task.floors()["linear classifier"] < 0.8
    assert set(get_task("digits", train=100).floors()) == {"majority"}  # of other examples
    entry["digest"] = "0" * 64
    path.write_text(json.dumps(manifest))
    assert "not 000000000000" in data_note(task.dataset, task.digest())


@pytest.mark.parametrize("text", ["listops:released", "listops:train=1=2", "listops:train={"])
def test_text_that_names_no_task(text):
    refuses(lambda: parse_task(text), "TASK:option=value")
