"""Files and the front page are there as a whole, before a change or after it, whatever happens
between."""

import multiprocessing
import os

from made import tree
from tiny import spec

from fpt.errors import FptError
from fpt.files import write_atomic
from fpt.records import Store
from fpt.training.train import Job, pack_id, train


def _write_slowly(path, pipe):
    """Write, and wait in the midst of it."""
    sync = os.fsync

    def wait(descriptor):
        pipe.send(True)
        pipe.recv()
        sync(descriptor)

    os.fsync = wait
    try:
        write_atomic(path, b"slow" * 1000)
        pipe.send(True)
    except FptError:
        pipe.send(False)


# Two workers of one machine must not share the name of their partial files.
def test_two_processes_that_write_one_file_do_not_meet(tmp_path):
    path, context = tmp_path / "file", multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    slow = context.Process(target=_write_slowly, args=(path, child))
    slow.start()
    assert parent.recv()
    write_atomic(path, b"quick")
    assert path.read_bytes() == b"quick"
    parent.send(True)
    assert parent.recv()
    slow.join()
    assert tree(tmp_path) == {"file": b"slow" * 1000}


# Runs have locks too, but without one of the pack both processes write one checkpoint.
def test_a_pack_that_another_process_trains_is_left_to_it(tiny):
    """Its checkpoint is named by the pack, so two processes would write one file."""
    pack, job = [spec(seed=0), spec(seed=1)], Job(Store(tiny / "records"), device="cpu", cache=tiny)
    with job.lock(pack_id(pack)):
        assert train(pack, job) == []
    assert job.store.keys() == set()
    assert len(train(pack, job)) == 2
