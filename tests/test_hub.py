"""Files of the hub at one commit and with one content: a cache made here, and no network."""

import errno
from hashlib import sha256

import numpy as np
import pytest
from refusals import refuses
from samples import write_parquet

from fpt import FrozenTransformer
from fpt.backbones import backbone, build
from fpt.backbones.weights import files, find, identity_of, read_weights
from fpt.errors import FptError
from fpt.tasks import sources as hub
from fpt.tasks.datasets import hub_dataset

FIRST = "1" * 40
SECOND = "2" * 40
FILE = "data/train.parquet"


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a file of a repository at a commit into the cache and lets `main` be that commit."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))

    def write(content, commit, repo="datasets--o--r", file=FILE):
        folder = tmp_path / "hub" / repo
        blob = folder / "blobs" / sha256(content).hexdigest()
        link = folder / "snapshots" / commit / file
        for path in (blob, link, folder / "refs/main"):
            path.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link.unlink(missing_ok=True)
        link.symlink_to(blob)
        (folder / "refs/main").write_text(commit)
        return link

    return write


def fetch(file=FILE):
    return hub.fetch("o/r", file, hub.LOCKED, "dataset")


# A branch of the hub moves on, and a mirror may send another file under the same commit.
def test_the_first_use_is_locked_and_the_next_ones_are_compared(put):
    path = put(b"first", FIRST)
    late = put(b"late", FIRST, file="b")
    assert fetch() == path
    digest = sha256(b"first").hexdigest()
    assert hub.read_lock() == {"datasets/o/r@locked": {"commit": FIRST, "sha256": {FILE: digest}}}

    put(b"second", SECOND)  # `main` moves on
    put(b"newer", SECOND, file="b")
    written = hub.lock_path().stat().st_mtime_ns
    assert fetch() == path
    assert hub.lock_path().stat().st_mtime_ns == written
    assert fetch("b") == late
    assert set(hub.read_lock()["datasets/o/r@locked"]["sha256"]) == {FILE, "b"}

    put(b"other", FIRST)  # the same commit with another content
    digests = [digest[:12], sha256(b"other").hexdigest()[:12]]
    refuses(fetch, f"{FILE} of o/r at {FIRST[:12]}", *digests, "fetch it again", str(path))
    path.unlink()
    refuses(fetch, f"{FILE} of o/r (revision {FIRST})", "HF_HUB_OFFLINE", "HF_HUB_CACHE")


def test_a_commit_is_asked_for_as_it_is_and_compared_too(put):
    path = put(b"first", FIRST, "models--o--r", "model.safetensors")
    put(b"second", SECOND, "models--o--r", "model.safetensors")
    identity = f"hub:o/r@{FIRST}"
    assert find(identity) == path
    assert not hub.lock_path().exists()  # the pipeline alone writes one
    assert files(identity, remember=True) == [path]
    assert set(hub.read_lock()) == {f"o/r@{FIRST}"}
    put(b"other", FIRST, "models--o--r", "model.safetensors")
    refuses(lambda: find(identity), "model.safetensors of o/r")


def test_a_file_that_cannot_be_read_is_one_sentence_for_every_use(put, monkeypatch):
    def failing_disk(*_):
        raise OSError(errno.EIO, "Input/output error")

    path = put(b"first", FIRST, "models--o--r", "model.safetensors")
    monkeypatch.setattr("hashlib.file_digest", failing_disk)
    identity = f"hub:o/r@{FIRST}"
    nano = backbone("nano")
    X = np.random.default_rng(0).normal(size=(10, 3, 2))
    model = FrozenTransformer(weights=identity)
    sentence = f"Cannot read {path}: Input/output error."
    refuses(lambda: find(identity), sentence)
    refuses(lambda: read_weights(nano, build(nano), identity), sentence)
    refuses(lambda: model.fit(X, np.arange(10) % 2), sentence)


def test_a_full_disk_is_not_the_hubs_fault(put, monkeypatch):
    def full_disk(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", full_disk)
    with pytest.raises(OSError, match="No space left"):
        hub.fetch("o/r", "model.safetensors", FIRST)


# What is wrong with model.safetensors, what with the index of shards, and which one is told.
REASONS = [
    (hub.NoSuchFile, hub.NoSuchFile, hub.WEIGHTS),
    (hub.NoSuchFile, hub.Unreachable, hub.SHARDS),
    (hub.NoSuchFile, FptError, hub.SHARDS),
    (hub.Unreachable, hub.NoSuchFile, hub.WEIGHTS),
    (hub.Unreachable, hub.Unreachable, hub.WEIGHTS),
    (hub.Unreachable, FptError, hub.SHARDS),
    (FptError, hub.NoSuchFile, hub.WEIGHTS),
]


@pytest.mark.parametrize(("of_weights", "of_index", "told"), REASONS)
def test_the_true_reason_is_told_why_weights_cannot_be_had(of_weights, of_index, told, monkeypatch):
    def failing_fetch(repository, file, *_, **__):
        raise {hub.WEIGHTS: of_weights, hub.SHARDS: of_index}[file](f"{file} is the reason.")

    monkeypatch.setattr("fpt.backbones.weights.fetch", failing_fetch)
    refuses(lambda: files(f"hub:o/r@{FIRST}"), f"{told} is the reason")


def test_an_index_of_other_content_than_the_locked_one_is_told(put, monkeypatch):
    identity = f"hub:o/r@{FIRST}"
    put(b'{"weight_map": {"a": "b"}}', FIRST, "models--o--r", hub.SHARDS)
    put(b"b", FIRST, "models--o--r", "b")
    assert [path.name for path in files(identity, remember=True)] == ["b"]
    put(b'{"weight_map": {"a": "c"}}', FIRST, "models--o--r", hub.SHARDS)
    refuses(lambda: files(identity), f"{hub.SHARDS} of o/r at {FIRST[:12]} has SHA-256")


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": []}', '{"weight_map": {}}'])
def test_an_index_without_files_is_told(content, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / hub.SHARDS).write_text(content)
    refuses(lambda: identity_of(tmp_path), str(tmp_path / hub.SHARDS))


def put_table(put, folder, commit, repo, file, columns):
    write_parquet(folder / "table", columns)
    put((folder / "table").read_bytes(), commit, repo, file)


def test_a_data_set_is_locked(put, tmp_path):
    source = hub.Repository("o/r", hub.LOCKED, {"train": FILE})
    columns = {"text": ["a", "b"], "label": [0, 1]}
    put_table(put, tmp_path, FIRST, "datasets--o--r", FILE, columns)
    assert source.columns("train", "label", "text") == [[0, 1], ["a", "b"]]
    dataset = hub_dataset("mine", 1, source, dict)
    assert dataset.source["revision"] == "locked"  # the key of a run holds no commit
    put(b"other", FIRST)
    refuses(lambda: source.columns("train", "text"), "hub.lock.json")
