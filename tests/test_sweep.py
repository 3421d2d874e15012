"""Sweeps: which runs are trained together, where, and each once."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError
from processes import environment, lives, until, workers_of
from refusals import check_said, refusal, refuses
from tiny import FULL, measured_of, pretrained, spec, swept

from fpt.errors import FptError
from fpt.files import lock
from fpt.plan import plan
from fpt.records import Store
from fpt.training import sweep
from fpt.training.flops import bytes_of
from fpt.training.progress import progress_bar
from fpt.training.sweep import FILLS_A_GPU, MAX_RUNS_PER_PACK, MAX_TOKENS_PER_STEP, packs, shard
from fpt.training.train import Job

TESTS = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("tiny")


def sizes(specs, **options):
    return sorted(len(pack) for pack in packs(specs, **options))


# ------------------------------------------------------------------------------------------ packs


def test_runs_on_one_backbone_are_trained_together():
    seeds_and_rates = [pretrained(seed=s, lr=lr) for s in range(3) for lr in (0.01, 0.1)]
    assert sizes(seeds_and_rates) == [6]
    assert sizes([pretrained(trainable=("input",)), pretrained(trainable=("output",))]) == [2]
    assert sizes([pretrained(patience=1), pretrained(patience=2), pretrained(clip=3.0)]) == [3]
    assert sizes([spec(seed=s, lr=lr) for s in range(3) for lr in (0.01, 0.1)]) == [2, 2, 2]


def test_a_backbone_that_is_trained_is_one_runs():
    runs = [pretrained(trainable=FULL, seed=s, lr=lr) for s in range(2) for lr in (0.01, 0.1)]
    lstms = {"backbone": "lstm-tiny", "trainable": ("input", "output", "recurrent")}
    runs += [spec(lr=lr, **lstms) for lr in (0.01, 0.1)]
    assert sizes(runs) == [1] * 6


@pytest.mark.parametrize(
    "change",
    [
        {"backbone": "nano"},
        {"init": "random"},
        {"init": "random-layernorm"},
        {"weights": "other"},
        {"options": {"n": 3}},
        {"batch": 9},
        {"steps": 13},
        {"eval_every": 4},
        {"eval_items": 4},
        {"test_items": 4},
        {"order": "shuffled"},
        {"dropout": 0.0},
        {"augment": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_keeps_two_runs_apart(change):
    assert sizes([pretrained(seed=1), pretrained(seed=1, **change)]) == [1, 1]


# Sums of another pack come in another order, so the numbers of a section would depend on the
# command.
def test_packs_are_the_same_if_one_section_is_trained_or_all_at_once():
    whole = plan("smoke")
    sections = whole.sections_of
    specs = [[run.spec for run in runs] for runs in whole.sections.values()]
    assert any(len(names) > 1 for names in sections.values())
    all_packs = set(packs(itertools.chain(*specs), sections=sections))
    for specs_of_section in specs:
        assert set(packs(specs_of_section, sections=sections)) <= all_packs


def test_a_pack_is_bounded_by_runs_and_by_tokens():
    many = [pretrained(seed=seed) for seed in range(2 * MAX_RUNS_PER_PACK + 1)]
    assert sizes(many) == [5, 6, 6]  # of about equal size
    assert sizes(many, max_runs=3) == [2, 3, 3, 3, 3, 3]
    heavy = [pretrained(seed=seed, batch=MAX_TOKENS_PER_STEP // (4 * 3)) for seed in range(4)]
    assert sizes(heavy) == [2, 2]
    assert sizes([replace(run, batch=MAX_TOKENS_PER_STEP) for run in heavy]) == [1, 1, 1, 1]


def test_on_a_gpu_packs_are_what_keeps_it_busy(monkeypatch):
    heavy = [pretrained(seed=seed, batch=FILLS_A_GPU // (4 * 2)) for seed in range(4)]
    assert sizes(heavy) == [4]
    assert sizes(heavy, most_tokens=FILLS_A_GPU) == [2, 2]
    assert not any(map(sweep.fills_a_gpu, packs(heavy, most_tokens=FILLS_A_GPU)))
    assert sweep.fills_a_gpu((replace(heavy[0], batch=FILLS_A_GPU),))
    monkeypatch.setattr(sweep, "cores", lambda: 16)
    packed = packs(heavy, most_tokens=FILLS_A_GPU)
    for room, workers in {1000: 8, 3.5: 3, 0.1: 1}.items():  # of its largest pack
        memory = SimpleNamespace(total_memory=room * bytes_of(packed[0]) / 0.9)
        monkeypatch.setattr("torch.cuda.get_device_properties", lambda _, found=memory: found)
        assert sweep.usual_workers(packed, is_gpu=True) == workers


# One by one, so that their memory does not add up.
def test_on_a_gpu_packs_that_fill_it_are_trained_alone(store, monkeypatch):
    small, large = spec(seed=1), spec(seed=2, batch=FILLS_A_GPU)
    ordered = [(small,), (replace(small, lr=0.5),), (large,), (replace(large, lr=0.5),)]
    pools = []

    @contextmanager
    def pool(workers):
        pools.append(workers)
        yield None

    monkeypatch.setattr(sweep, "worker_pool", pool)
    monkeypatch.setattr(sweep, "train_pack", lambda pack, job: len(pack))
    monkeypatch.setattr(sweep, "usual_workers", lambda packs, is_gpu: 8)
    monkeypatch.setattr("fpt.training.device.choose", lambda name="auto": torch.device("cuda"))
    job = Job(store)
    assert [pack for pack, _ in sweep.trained_here(ordered, job, None)] == ordered
    assert pools == [2, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shards_cover_everything_once(count):
    all_packs = packs([spec(seed=seed) for seed in range(7)])
    parts = [shard(all_packs, f"{index}/{count}") for index in range(1, count + 1)]
    assert sorted(pack[0].seed for part in parts for pack in part) == list(range(7))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert shard(all_packs, None) == all_packs


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b"])
def test_a_wrong_shard_is_one_sentence(part, store):
    with pytest.raises(FptError, match=r"not I/N with 1 <= I <= N, such as 2/8\.$"):
        swept([spec()], store, part=part)
    assert store.keys() == set()


# ------------------------------------------------------------------------------------------ run


def measured(store, specs):
    records = [store.read(run.key) for run in specs]
    return [measured_of(record) if record else None for record in records]


def test_a_sweep_trains_what_is_missing(store):
    specs = [pretrained(seed=0), pretrained(seed=1), spec()]
    assert swept(specs[:1], store) == 1
    assert swept(specs, store) == 2
    assert swept(specs, store) == 0
    before = measured(store, specs)
    store.path(specs[1].key).unlink()
    assert swept(specs, store) == 1
    assert measured(store, specs) == before


def test_two_workers_give_the_bits_of_one(store, tmp_path):
    specs = [
        spec(backbone="attention-nano", seed=seed, lr=lr, steps=4)
        for seed in (0, 1)
        for lr in (0.1, 1)
    ]
    alone = Store(tmp_path / "alone" / "records")
    assert swept(specs, alone) == 4
    assert swept(specs, store, workers=2) == 4
    assert measured(store, specs) == measured(alone, specs)
    # Workers that waited for a next sweep would end by the clock, perhaps as it begins.
    assert not any(map(lives, workers_of(os.getpid())))


TWO = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import tiny, test_sweep
from transformers import GPT2Model  # once for both
from fpt.training import sweep
from fpt.training.flops import bytes_of
from fpt.training.progress import progress_bar
from fpt.records import Store

tiny.register()
for _ in range(2):
    if os.fork() == 0:
        store = Store(Path({folder!r}) / "reports" / "experiments" / "smoke")
        made = sweep.run(test_sweep.shared(), store, device="cpu", workers=1)
        os.write(1, b"%d\\n" % made)  # at once: the other may end at the same moment
        os._exit(0)
for _ in range(2):
    assert os.wait()[1] == 0
"""


def shared():
    return [
        maker(seed=seed, lr=lr)
        for seed in range(4)
        for maker, lr in ((spec, 0.1), (spec, 0.01), (pretrained, 0.01))
    ]


def test_two_sweeps_on_one_store_train_every_run_once(store, tmp_path):
    """And in the packs in which one sweep alone would train them."""
    script = tmp_path / "two.py"
    script.write_text(TWO.format(tests=str(TESTS), folder=str(tmp_path)))
    command = [sys.executable, str(script)]
    env = environment(tmp_path)
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert sum(map(int, done.stdout.split())) == len(shared())
    alone = Store(tmp_path / "alone" / "records")
    swept(shared(), alone)
    assert measured(store, shared()) == measured(alone, shared())

    def members(where):
        records = [where.read(run.key) for run in shared()]
        return [record.pack for record in records if record]

    assert members(store) == members(alone)


def test_a_run_that_another_process_trains_is_left_to_it(store):
    runs = [spec(seed=0), spec(seed=1)]
    with (
        Job(store).lock(runs[0].key),
        pytest.warns(UserWarning, match=r"training 1 of the runs that are missing"),
    ):
        assert swept(runs, store) == 1
    assert store.keys() == {runs[1].key}
    assert swept(runs, store) == 1


# A backbone that needs no transformers, so that processes begin sooner.
QUICK = "attention-pico"
# Two packs that no worker finishes while a test waits.
ENDLESS = [spec(backbone=QUICK, seed=seed, steps=10**6, eval_every=1000) for seed in (0, 1)]
DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_sweep
from fpt.training import sweep
from fpt.training.flops import bytes_of
from fpt.training.progress import progress_bar
from fpt.records import Store

store = Store(Path({folder!r}) / "reports" / "experiments" / "smoke")
budget = 300.0  # if nobody ends it
sweep.run(test_sweep.ENDLESS, store, device="cpu", budget=budget, workers=2)
"""


def both_train(cache):
    """Whether each of the two workers has the lock of a pack of its own."""
    return all((cache / "locks" / "smoke" / run.key).exists() for run in ENDLESS)


def nobody_trains(cache):
    """A process that died keeps its locks until the last of its threads is gone."""
    with ExitStack() as stack:
        locks = (lock(path, wait=False) for path in (cache / "locks" / "smoke").iterdir())
        return all([stack.enter_context(free) for free in locks])


# Workers that go on would hold the locks of their packs.
def test_a_killed_sweep_takes_its_workers_with_it(store, tmp_path):
    """What the next one makes of it is in test_faults.py."""
    script, cache = tmp_path / "driver.py", tmp_path / ".cache"
    script.write_text(DRIVER.format(tests=str(TESTS), folder=str(tmp_path)))
    driver = subprocess.Popen([sys.executable, str(script)], env=environment(tmp_path))
    until(lambda: both_train(cache) or driver.poll() is not None)
    workers = workers_of(driver.pid)
    driver.kill()
    driver.wait()
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)) and nobody_trains(cache), 10.0)
    assert store.keys() == set()


def test_a_killed_worker_is_one_sentence(store, tmp_path):

    def kill_one():
        until(lambda: both_train(tmp_path / ".cache"))
        os.kill(workers_of(os.getpid())[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    sentence = refusal(lambda: swept(ENDLESS, store, workers=2, budget=300.0))
    check_said(sentence, ["A worker died", "out of memory", "run again"])
    thread.join()
    assert store.keys() == set()


def test_ctrl_c_while_workers_start_is_ctrl_c(store, monkeypatch):
    def interrupt(thread):
        raise KeyboardInterrupt

    manager = "joblib.externals.loky.process_executor._ExecutorManagerThread"
    monkeypatch.setattr(f"{manager}.start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        swept(ENDLESS, store, workers=2)
    for worker in workers_of(os.getpid()):
        os.kill(worker, signal.SIGKILL)


def test_the_first_seed_of_every_cell_is_trained_first(store, monkeypatch):
    """Then section by section, the shortest first: a sweep that is stopped has a part of all."""
    runs = [spec(seed=seed, steps=steps) for seed, steps in ((1, 3), (0, 6), (0, 3), (1, 6))]
    runs += [spec(seed=0, steps=9)]
    sections = {run.key: ("first",) if run.steps == 9 else ("second",) for run in reversed(runs)}
    trained, train_pack = [], sweep.train_pack

    def noted(pack, job):
        trained.append((pack[0].seed, pack[0].steps))
        return train_pack(pack, job)

    monkeypatch.setattr(sweep, "train_pack", noted)
    swept(runs, store, sections=sections)
    assert trained == [(0, 9), (0, 3), (0, 6), (1, 3), (1, 6)]


def test_a_worker_that_died_between_two_sets_of_packs_is_one_sentence():
    class Pool:
        _max_workers = 2

        def submit(self, function, item):
            raise TerminatedWorkerError

    refuses(lambda: list(sweep.side_by_side(abs, [1, 2], Pool())), "A worker died")


def test_a_pack_that_cannot_be_trained_does_not_stop_the_others(store):
    runs = [pretrained(weights="nowhere"), spec(), pretrained()]
    with pytest.raises(FptError, match=r"weights 'nowhere' .*Failed packs: 1; records .*others: 2"):
        swept(runs, store)
    assert store.keys() == {run.key for run in runs[1:]}


MEMORY = []


def remember(megabytes):
    """Keep memory, for longer than loky waits between two looks at it."""
    MEMORY.append(b"1" * (megabytes * 2**20))
    time.sleep(1.1)
    return os.getpid()


# loky takes it for a leak, and replaces the worker with a warning.
def test_a_worker_that_needs_more_memory_stays():
    pytest.importorskip("psutil")
    with sweep.worker_pool(2) as pool:
        first = set(pool.map(remember, [0, 0]))
        later = {*pool.map(remember, [400, 400, 0, 0, 0, 0])}
    assert later <= first


# What waits in the queue of an interrupted pool is a traceback of its thread.
def test_no_more_packs_are_submitted_than_workers_take():
    counts = []

    class Pool(ThreadPoolExecutor):
        def submit(self, function, item):
            counts.append(self._work_queue.qsize())
            return super().submit(function, item)

    with Pool(2) as pool:
        results = sorted(sweep.side_by_side(slowly, range(9), pool))
    assert results == [(number, -number) for number in range(9)]
    assert max(counts) <= 2


def slowly(number):
    time.sleep(0.02)
    return -number


def test_a_process_without_standard_error_has_no_bar(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with progress_bar(3, "runs") as bar:
        bar.update(3)


def test_a_bar_is_switched_off(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert progress_bar(3, "runs").disable
