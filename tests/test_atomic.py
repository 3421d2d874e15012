"""Files and the front page are there as a whole, before a change or after it, whatever happens
between."""

import multiprocessing
import os
import threading

import pytest
from made import tree
from tiny import spec

from fpt.files import set_aside, write_atomic
from fpt.records import Store
from fpt.training.train import Job, pack_id, train


# Two workers of one machine, or two threads, must not share the name of their partial files.
@pytest.mark.parametrize("kind", [multiprocessing.get_context("fork").Process, threading.Thread])
def test_two_that_write_one_file_do_not_meet(kind, tmp_path, monkeypatch):
    """The second writes in the midst of the first one's write."""
    path, sync = tmp_path / "file", os.fsync

    def write_meanwhile(descriptor):
        monkeypatch.setattr(os, "fsync", sync)
        second = kind(target=write_atomic, args=(path, b"quick"))
        second.start()
        second.join()
        assert path.read_bytes() == b"quick"

    monkeypatch.setattr(os, "fsync", write_meanwhile)
    write_atomic(path, b"slow" * 1000)
    assert tree(tmp_path) == {"file": b"slow" * 1000}


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "file", b"content")
    assert tree(tmp_path) == {}


def test_a_folder_that_is_damaged_twice_is_moved_aside_twice(tmp_path):
    for _ in range(2):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").touch()
        with pytest.warns(UserWarning, match="was moved to folder.corrupt"):
            set_aside(tmp_path / "folder", "bad", "is made again")


# Runs have locks too, but without one of the pack both processes write one checkpoint.
def test_a_pack_that_another_process_trains_is_left_to_it(tiny):
    """Its checkpoint is named by the pack, so two processes would write one file."""
    pack, job = [spec(seed=0), spec(seed=1)], Job(Store(tiny / "records"), device="cpu", cache=tiny)
    with job.lock(pack_id(pack)):
        assert train(pack, job) == []
    assert job.store.keys() == set()
    assert len(train(pack, job)) == 2


# A killed process removes nothing, and its name comes never again.
def test_what_a_killed_writer_left_is_removed_later(tmp_path):
    left, living = (tmp_path / f".file.host.{number}.1.partial" for number in (1, 2))
    for path in (left, living, tmp_path / ".other.host.1.1.partial"):
        path.touch()
        if path != living:
            os.utime(path, (0, 0))
    write_atomic(tmp_path / "file", b"content")
    assert set(tree(tmp_path)) == {"file", living.name, ".other.host.1.1.partial"}
