"""Packs on Ray: the records of one process, whatever is lost on the way."""

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from processes import until
from refusals import check_said, refusal
from tiny import measured_of, spec

from fpt.errors import FptError
from fpt.records import Store
from fpt.training import sweep
from fpt.training.train import Job, pack_id

pytest.importorskip("ray")
# Of a start of Ray that came too late and was repeated: it leaves processes, which end with this.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# A backbone that every worker knows and has at once, without transformers.
BACKBONE = "attention-pico"
SHORT = [spec(backbone=BACKBONE, seed=seed, lr=lr) for seed in range(4) for lr in (0.01, 0.02)]
# Long enough to be killed on the way.
PATIENCE = 120  # seconds, so that a test that fails ends
LONG = [spec(backbone=BACKBONE, steps=2400, eval_every=60, lr=lr) for lr in (0.01, 0.02)]


@pytest.fixture
def folder(project, tmp_path, monkeypatch):
    """Locks and checkpoints of everything that the test trains lie here."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return tmp_path


def measured(specs, store):
    records = store.read_all(run.key for run in specs)
    assert len(records) == len(specs)
    return {key: measured_of(record) for key, record in records.items()}


def in_one_process(specs, folder):
    store = Store(folder / "alone" / "records")
    sweep.run(specs, store, device="cpu", workers=1)
    return measured(specs, store)


def workers():
    """Process ids of Ray's workers that train a pack now."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::train_remotely"):
                processes.append(int(path.parent.name))
        except OSError:
            continue
    return processes


def test_two_workers_give_the_records_of_one_process(folder):
    """And leave a pack to another sweep that trains it, and go on after one that fails."""
    store, place = Store(folder / "ray"), {"cluster": "local", "workers": 2}
    lost = spec(backbone="pico", init="pretrained", weights="pico-nowhere-0")
    first, theirs, *_ = sweep.packs(SHORT)
    with (
        Job(store).lock(f"{pack_id(theirs)}.ray"),
        pytest.raises(FptError, match=r"pico-nowhere-0.*records of the others: 6"),
    ):
        sweep.run([lost, *SHORT], store, device="cpu", **place)
    assert not store.keys() & {run.key for run in theirs}
    assert sweep.run(SHORT, store, device="cpu", **place) == 2
    assert measured(SHORT, store) == in_one_process(SHORT, folder)


def test_a_killed_worker_is_replaced(folder):
    store, killed = Store(folder / "ray"), list[int]()

    def kill():
        begun = folder / ".cache" / "locks" / "ray" / LONG[0].key
        until(begun.exists, PATIENCE)
        for process in workers():
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    assert sweep.run(LONG, store, device="cpu", cluster="local", workers=2) == len(LONG)
    thread.join()
    assert killed
    assert measured(LONG, store) == in_one_process(LONG, folder)


def test_what_does_not_start_is_one_sentence(folder, monkeypatch):
    def late(*arguments, **options):
        raise Exception("The current node timed out during startup. Why?")  # as Ray does

    store = Store(folder / "ray")
    monkeypatch.setattr("ray.init", late)
    sentence = refusal(partial(sweep.run, SHORT, store, device="cpu", cluster="there:1"))
    check_said(sentence, ["Ray does not start at 'there:1' (The current node timed out"])
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FptError, match=r"pip install 'fpt\[ray\]'"):
        sweep.run(SHORT, store, device="cpu", cluster="local")
