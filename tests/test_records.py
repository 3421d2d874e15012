"""Records, checkpoints and the files under them: whole, or absent and said to be."""

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import spec

from fpt import files, records
from fpt.files import CACHE, FptError, lock, write_atomic, write_json
from fpt.records import Record, Store, digest, from_content, to_content
from fpt.training import checkpoint


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "reports" / "smoke" / "records")


def made(seed: int = 0, accuracy: float = 0.75) -> Record:
    run = spec(seed=seed)
    return Record(
        spec=run,
        status="done",
        metrics={"test_accuracy": accuracy, "valid_accuracy": 0.5, "best_step": 3, "steps": 12},
        curve=[{"step": 3, "valid_accuracy": 0.1 + 0.2}],
        cost={"seconds": 1.0, "tokens": 10, "flops": 1e6, "peak_bytes": 1e8},
        environment={"device": "CPU", "kind": "cpu"},
        pack=[run.key],
        notes=["a note"],
    )


def test_a_record_is_read_as_it_was_written(store: Store) -> None:
    record = made()
    assert store.read(record.key) is None
    store.write(record)
    assert store.read(record.key) == record
    assert store.keys() == {record.key}
    assert store.read_all([record.key, made(1).key]) == {record.key: record}
    assert store.digests([record.key, made(1).key]) == {
        record.key: digest(to_content(record)),
        made(1).key: None,
    }


def test_measured_leaves_out_what_may_differ_between_two_trainings() -> None:
    slow = replace(made(), cost={"seconds": 2.0}, environment={}, notes=[])
    assert slow.measured() == made().measured()
    assert made(accuracy=0.5).measured() != made().measured()


def test_the_digest_covers_every_field() -> None:
    content = to_content(made())
    assert content["digest"] == digest(content)
    for name in set(content) - {"digest"}:
        assert digest(content | {name: "other"}) != content["digest"], name


def test_a_value_that_is_not_finite_is_never_written(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.write(made(accuracy=float("nan")))
    assert store.keys() == set()


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "bit flipped":
        at = content.index(b"0.75") + 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif how == "not text":
        path.write_bytes(b"\xff\xfe" + content)
    elif how == "a list":
        path.write_text("[1, 2]")
    elif how == "another's":
        path.write_text(json.dumps(to_content(made(seed=1))))
    elif how == "another's under this key":
        false = to_content(made(seed=1)) | {"key": path.stem}
        path.write_text(json.dumps(false | {"digest": digest(false)}))
    elif how == "without a key":
        false = to_content(made())
        del false["key"]
        path.write_text(json.dumps(false | {"digest": digest(false)}))
    elif how == "of an unknown kind":
        false = to_content(made())
        false["spec"]["momentum"] = 0.9
        path.write_text(json.dumps(false | {"digest": digest(false)}))


DAMAGES = pytest.mark.parametrize(
    "how",
    [
        "truncated",
        "empty",
        "bit flipped",
        "not text",
        "a list",
        "another's",
        "another's under this key",
        "without a key",
        "of an unknown kind",
    ],
)


@DAMAGES
def test_a_damaged_record_is_moved_aside_said_and_missing(store: Store, how: str) -> None:
    record = made()
    store.write(record)
    path = store.path(record.key)
    damage(path, how)
    damaged = path.read_bytes()
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*moved to {path.name}.corrupt"):
        assert store.read(record.key) is None
    assert not path.exists()
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == damaged
    assert store.keys() == set()
    assert store.read(record.key) is None  # said once
    store.write(record)
    assert store.read(record.key) == record


def test_merging_takes_what_is_missing_and_keeps_what_is_here(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    store.write(made(0, accuracy=0.5))
    for record in (made(0, accuracy=0.9), made(1), made(2)):
        other.write(record)
    (other.folder / "README.md").write_text("not a record")
    assert store.merge(other.folder) == (2, 1)
    assert store.read(made(0).key) == made(0, accuracy=0.5)
    assert store.read(made(2).key) == made(2)
    assert store.merge(other.folder) == (0, 3)


def test_a_merge_and_a_sweep_write_in_turn(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sweep writes between a merge's look and its own write would be replaced by it."""
    other = Store(tmp_path / "other")
    other.write(made(0))
    seen = []

    def write_all(contents: dict[Path, bytes]) -> None:
        with lock(CACHE / "locks" / store.folder.parent.name / "records", wait=False) as free:
            seen.append(free)
        files.write_all(contents)

    monkeypatch.setattr(records, "write_all", write_all)
    assert store.merge(other.folder) == (1, 0)
    monkeypatch.setattr(records, "write_atomic", lambda path, value: write_all({path: b"{}"}))
    store.write(made(1))
    assert seen == [False, False]


def test_a_store_of_its_own_has_its_lock_there_too(tmp_path: Path) -> None:
    """As that of a worker, on a machine where nothing else can be written."""
    Store(tmp_path / "own" / "records", tmp_path / "cache").write(made(0))
    assert (tmp_path / "cache" / "locks" / "own" / "records").exists()


@pytest.mark.parametrize("how", ["truncated", "bit flipped", "without a key", "another's"])
def test_merging_a_damaged_file_takes_nothing(store: Store, tmp_path: Path, how: str) -> None:
    other = Store(tmp_path / "other")
    for seed in range(3):
        other.write(made(seed))
    path = sorted(other.folder.iterdir())[-1]
    damage(path, how)
    with pytest.raises(FptError, match=rf"{path.name} is not a record"):
        store.merge(other.folder)
    assert store.keys() == set()
    assert path.exists()


def test_merging_what_is_no_folder(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FptError, match="no folder .*nowhere to merge"):
        store.merge(tmp_path / "nowhere")


def test_from_content_refuses_what_is_no_record() -> None:
    assert from_content(to_content(made())) == made()
    with pytest.raises(ValueError, match="digest"):
        from_content({})


# ------------------------------------------------------------------------------------------ files


def test_a_failed_write_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_json(path, 1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(FptError, match="Cannot write .*No space left on device"):
        write_json(path, 2)
    assert path.read_text() == "1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")
    store = Store(tmp_path / "reports" / "records")
    with pytest.raises(FptError, match="Cannot write .*nothing was changed"):
        store.write(made())
    with (
        pytest.raises(FptError, match="Cannot write the lock"),
        lock(tmp_path / "reports" / "lock", wait=False),
    ):
        pass


def _write_often(path: Path, text: str, times: int) -> None:
    for _ in range(times):
        write_atomic(path, text.encode() * 10_000)


def test_a_reader_never_sees_half_of_a_file(tmp_path: Path) -> None:
    """Two processes replace the file while this one reads it."""
    path = tmp_path / "file"
    context = multiprocessing.get_context("fork" if "fork" in dir(os) else "spawn")
    write_atomic(path, b"a" * 10_000)
    writers = [context.Process(target=_write_often, args=(path, t, 40)) for t in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        content = path.read_bytes()
        seen.add((len(content), len(set(content))))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen == {(10_000, 1)}
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "one"
    with lock(path, wait=False) as first:
        assert first
        with lock(path, wait=False) as second:
            assert not second
    with lock(path, wait=False) as third:
        assert third


# ------------------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    assert checkpoint.read(path) is None
    assert checkpoint.members(path) == []
    tensors = {"values": torch.randn(2, 3), "none": torch.empty(0, 3)}
    history = {"keys": ["a", "b"], "step": 3, "loss": 0.1 + 0.2}
    checkpoint.write(path, tensors, history)
    found = checkpoint.read(path)
    assert found is not None
    assert found[1] == history
    assert {name: t.tolist() for name, t in found[0].items()} == {
        name: t.tolist() for name, t in tensors.items()
    }
    assert checkpoint.members(path) == ["a", "b"]


@pytest.mark.parametrize("how", ["truncated", "empty", "flipped tensor", "flipped history", "text"])
def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path, how: str) -> None:
    path = tmp_path / "c.safetensors"
    checkpoint.write(path, {"values": torch.ones(50)}, {"keys": ["abc"], "step": 3})
    content = bytearray(path.read_bytes())
    if how == "truncated":
        del content[-40:]
    elif how == "empty":
        content.clear()
    elif how == "flipped tensor":
        content[-1] ^= 1
    elif how == "flipped history":
        content[content.index(b"abc")] ^= 1
    else:
        content[:] = b"this is no checkpoint"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*starts again"):
        assert checkpoint.read(path) is None
    assert [each.name for each in tmp_path.iterdir()] == [f"{path.name}.corrupt"]
    assert checkpoint.read(path) is None
