"""Files and the front page are there as a whole, before a change or after it, whatever happens
between."""

import multiprocessing
import os
import resource
from contextlib import contextmanager

import yaml
from made import SETTINGS, backbones, tree, weights
from refusals import refuses
from tiny import spec

from fpt.errors import FptError
from fpt.files import lock, write_atomic
from fpt.records import Store
from fpt.report.index import index
from fpt.sections import NAMES
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


def test_a_lock_leaves_no_file(tmp_path):
    with lock(tmp_path / "lock", wait=False) as is_mine:
        assert is_mine
        assert tree(tmp_path) == {"lock": b""}
    assert tree(tmp_path) == {}


def test_a_pack_that_another_process_trains_is_left_to_it(tiny):
    """Its checkpoint is named by the pack, so two processes would write one file."""
    pack, job = [spec(seed=0), spec(seed=1)], Job(Store(tiny / "records"), device="cpu", cache=tiny)
    with job.lock(pack_id(pack)):
        assert train(pack, job) == []
    assert job.store.keys() == set()
    assert len(train(pack, job)) == 2


@contextmanager
def full_disk(after):
    """No file, of this process or its children, can be longer than `after` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_an_index_on_a_full_disk_is_the_old_one(project):
    """That of a profile whose sections have no run."""
    block = {
        "train_on": ["cpu"], "backbones": backbones("nano"), "weights": weights("nano-english-0"),
        "seeds": [0], "defaults": SETTINGS, "tasks": {}, "arms": {},
        "sections": {name: [] for name in NAMES},
    }  # fmt: skip
    project.params.write_text(yaml.safe_dump({"profile": "smoke", "smoke": block}))
    report = project.reports / "smoke"
    index("smoke")
    assert set(tree(report)) == {"README.md", "index.html", "appendix.html"}
    (report / "index.html").write_bytes(b"old" * 10_000)
    before = tree(report)
    with full_disk(4096):
        refuses(lambda: index("smoke"), "Cannot write", "index.html", "nothing was changed")
    assert tree(report) == before
