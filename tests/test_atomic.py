"""Files and reports are there as a whole, before a change or after it, whatever happens between."""

import errno
import multiprocessing
import os
import resource
from contextlib import contextmanager

import nbformat
import pytest
import yaml
from made import SETTINGS, backbones, weights
from refusals import check_said, refusal, refuses
from test_render import notebook
from tiny import spec

from fpt.files import FptError, lock, write_atomic
from fpt.records import Store
from fpt.report.index import index
from fpt.report.render import render
from fpt.sections import NAMES
from fpt.training.train import Job, pack_id, train


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@contextmanager
def full_disk(after):
    """No file, of this process or its children, can be longer than `after` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# ------------------------------------------------------------------------------------------ files


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


# ---------------------------------------------------------------------------------------- reports


@pytest.fixture
def report(tmp_path, monkeypatch):
    """The report of a profile whose sections have no run."""
    sections = {name: list[object]() for name in NAMES}
    block = {
        "train_on": ["cpu"], "backbones": backbones("nano"), "weights": weights("nano-english-0"),
        "seeds": [0], "defaults": SETTINGS, "tasks": {}, "arms": {}, "sections": sections,
    }  # fmt: skip
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"profile": "smoke", "smoke": block}))
    monkeypatch.setattr("fpt.files.PARAMS", tmp_path / "params.yaml")
    for place in ("records", "analysis.study", "report.index"):
        monkeypatch.setattr(f"fpt.{place}.REPORTS", tmp_path / "reports")
    return tmp_path / "reports" / "smoke"


def test_an_index_on_a_full_disk_is_the_old_one(report):
    index("smoke")
    before = tree(report)
    assert set(before) == {"README.md", "index.html", "appendix.html"}
    (report / "index.html").write_bytes(b"old" * 10_000)
    before = tree(report)
    with full_disk(4096):
        sentence = refusal(lambda: index("smoke"))
    check_said(sentence, ["Cannot write", "index.html", "nothing was changed"])
    assert tree(report) == before


# What a notebook does in place of `fpt.report.show`, whose import takes seconds.
DRAW = """
import os; from pathlib import Path
folder = Path(os.environ['FPT_STAGED']) / 'figures' / 'transfer'
folder.mkdir(parents=True)
(folder / '{name}.png').write_text('{name}')
{then}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose one section has been rendered once."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr("fpt.files.NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr("fpt.report.render.REPORTS", tmp_path / "reports")
    draw(tmp_path, "first")
    render("transfer", "smoke")
    return tmp_path


def draw(project, name, then=""):
    nbformat.write(
        notebook(DRAW.format(name=name, then=then)), project / "notebooks/01_transfer.ipynb"
    )


def test_a_page_takes_the_place_of_the_earlier_one(project):
    report = project / "reports" / "smoke"
    names = ["notebooks/01_transfer.html", "notebooks/01_transfer.ipynb"]
    assert sorted(tree(report)) == ["figures/transfer/first.png", *names]
    (report / ".transfer.rendering" / "notebooks").mkdir(parents=True)  # of a killed process
    draw(project, "second")
    render("transfer", "smoke")
    assert sorted(tree(report)) == ["figures/transfer/second.png", *names]
    assert (report / "tables" / "transfer").is_dir()  # an output of the pipeline, even if empty
    assert not (report / ".transfer.rendering").exists()


def test_a_cell_that_fails_leaves_the_report_and_shows_why(project):
    report = project / "reports" / "smoke"
    before = tree(report)
    draw(project, "second", "1 / 0")
    refuses(
        lambda: render("transfer", "smoke"),
        "ZeroDivisionError",
        "notebooks/01_transfer.failed.html",
    )
    after = tree(report)
    assert b"ZeroDivisionError" in after.pop("notebooks/01_transfer.failed.html")
    assert after == before
    draw(project, "first")
    render("transfer", "smoke")
    assert sorted(tree(report)) == sorted(before)


def test_a_full_disk_leaves_the_report(project, monkeypatch):
    """It is full when the page is written, after the notebook, the tables and the figures."""
    report = project / "reports" / "smoke"
    before = tree(report)
    draw(project, "second")

    def write(path, content):
        if path.suffix == ".html":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomic(path, content)

    monkeypatch.setattr("fpt.report.render.write_atomic", write)
    refuses(lambda: render("transfer", "smoke"), "Cannot write", "No space left")
    assert tree(report) == before


def test_a_page_that_cannot_be_made_leaves_the_report(project, monkeypatch):
    """A process that is killed is the same, up to the folder that the next one removes."""
    report = project / "reports" / "smoke"
    before = tree(report)
    draw(project, "second")

    def end(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("fpt.report.render.notebook_page", end)
    with pytest.raises(KeyboardInterrupt):
        render("transfer", "smoke")
    assert tree(report) == before
