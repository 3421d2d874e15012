"""What is missing, in which packs, trained where.

Packs are independent. On a CPU they want one thread each, so as many run side by side as there are
cores. Where packs are fewer, those with large steps share the cores that are left: a second thread
brought nothing at 0.5 GFLOPs a step, 1.4 times the speed at 3 and 1.7 at 20 and more (benchmarks/).
OMP_NUM_THREADS bounds the threads of a pack. On CUDA one pack at a time has the whole card.

Packs are a function of the specs asked for, the same on every machine, but for one thing: where a
CPU has more workers than packs, packs are halved, by all specs asked for and the number of workers.
So checkpoints of halves serve a later call only with as many workers.
"""

import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from tqdm import tqdm

from ..files import FptError
from ..records import Store
from ..spec import RunSpec
from . import device as devices
from .flops import flops_per_token
from .model import body_identity, packable
from .train import halved, task_of, train

if TYPE_CHECKING:
    from .ray_executor import Cluster

MAX_RUNS = 16  # of one pack
MIN_RUNS = 4  # of a part of one that was split
MAX_TOKENS = 1 << 16  # of one step of a pack; bounds the activations that are kept
THREADED = 3e9  # FLOPs of a step from which on more threads of a CPU are worth it


def packs(specs: Iterable[RunSpec]) -> list[tuple[RunSpec, ...]]:
    """`specs` in packs: a deterministic function of the specs and their order."""
    groups: dict[object, list[RunSpec]] = {}
    for spec in dict.fromkeys(specs):
        looks = (spec.eval_every, spec.eval_items, spec.test_items)
        shape = (spec.data, spec.batch, spec.steps, *looks, spec.augment, spec.procedure)
        alone = () if packable(spec) else (spec.key,)
        groups.setdefault((body_identity(spec), shape, alone), []).append(spec)
    found = []
    for members in groups.values():
        tokens = members[0].batch * task_of(members[0]).length
        size = max(1, min(MAX_RUNS, MAX_TOKENS // tokens))
        found += [tuple(members[i : i + size]) for i in range(0, len(members), size)]
    return found


def work(pack: Sequence[RunSpec]) -> int:
    """Tokens that a pack trains on at most, to start long packs first."""
    first = pack[0]
    return len(pack) * first.steps * first.batch * task_of(first).length


def split(found: Sequence[tuple[RunSpec, ...]], workers: int) -> list[tuple[RunSpec, ...]]:
    """The packs, of which the largest (`work`) are halved until each worker has one, as far as no
    part has fewer than MIN_RUNS runs: below, a core is better used by a pack than by its part."""
    parts = list(found)
    while len(parts) < workers:
        largest = max((p for p in parts if len(p) >= 2 * MIN_RUNS), key=work, default=None)
        if largest is None:
            break
        place = parts.index(largest)
        parts[place : place + 1] = halved(largest)
    return parts


def threads(pack: Sequence[RunSpec], spare: int) -> int:
    """How many of `spare` threads of a CPU a pack takes: all or one, by the FLOPs of its step."""
    tokens = pack[0].batch * task_of(pack[0]).length
    flops = tokens * sum(flops_per_token(spec) for spec in pack)
    return max(1, spare) if flops >= THREADED else 1


def shard(found: Sequence[tuple[RunSpec, ...]], part: str | None) -> list[tuple[RunSpec, ...]]:
    """Part `I/N` of the packs, dealt round, so that N machines share a sweep."""
    if part is None:
        return list(found)
    written = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", part)
    index, count = map(int, written.groups()) if written else (0, 0)
    if not 1 <= index <= count:
        raise FptError(f"The shard {part!r} is not I/N with 1 <= I <= N, such as 2/8.")
    return list(found[index - 1 :: count])


def _train_pack(
    pack: Sequence[RunSpec],
    store: Store,
    device: str,
    deadline: float,
    keep: Container[str],
    spare: int,
    position: int,
) -> tuple[int, int]:
    """Train one pack in this process; returns how many records it wrote, and how many of the runs
    another process is training."""
    if device == "cpu":
        torch.set_num_threads(threads(pack, spare))
    if time.monotonic() > deadline:
        return 0, 0
    first = pack[0]
    title = f"{first.task} {first.init} {first.backbone} x{len(pack)}"
    with tqdm(total=first.steps, desc=title, disable=None, position=position, leave=False) as bar:
        where = torch.device(device)
        made = len(train(pack, store, device=where, deadline=deadline, keep=keep, bar=bar))
    # What is missing while there is time was left out for its lock.
    return made, 0 if time.monotonic() > deadline else missing(pack, store, keep)


def missing(pack: Sequence[RunSpec], store: Store, keep: Container[str]) -> int:
    return len(pack) - len(store.read_all((spec.key for spec in pack), keep))


def _end_with_parent() -> None:
    """In a worker: end as soon as its parent has, which may be killed without a word to it. And
    nothing is left behind where the worker is: a lock between processes, as tqdm takes, would be.
    Warnings are said as the command line says them.
    """
    import_module("fpt.__main__")
    tqdm.set_lock(threading.RLock())
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def apart() -> Iterator[None]:
    """Processes begun in here do not import the program that began them: a script that trains would
    be run again by each of its workers. A pack needs nothing of it."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Processes are begun in here whole, each known to this one: what would end it comes after. And
    they never get the signal of Ctrl-C, which goes to every process of a terminal: this one gets
    it, and ends its workers."""
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():  # no other is interrupted
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread, and theirs
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


def run(
    specs: Iterable[RunSpec],
    store: Store,
    *,
    keep: Container[str] = (),
    device: str = "auto",
    budget: float = math.inf,
    part: str | None = None,
    workers: int | None = None,
    cluster: "Cluster | None" = None,
) -> int:
    """Train what `store` misses of `specs`; returns the number of new records.

    `keep`: keys of runs whose parameters are kept; without them a run is missing. `budget` is in
    seconds: packs that are not finished by then go on in a later call, with as many `workers` where
    these halved packs (`split`). `part`: of the packs as they are before. `cluster`: packs run
    there instead of in processes of this machine. A pack that cannot be trained, for want of
    weights say, does not stop the others; its FptError is raised after them.
    """
    specs = list(specs)
    present = store.read_all((spec.key for spec in specs), keep)  # damaged ones are missing

    def lacking(found: Iterable[tuple[RunSpec, ...]]) -> list[tuple[RunSpec, ...]]:
        todo = [pack for pack in found if any(spec.key not in present for spec in pack)]
        return sorted(todo, key=work, reverse=True)

    found = shard(packs(specs), part)
    todo = lacking(found)
    if not todo:
        return 0
    if cluster is not None:
        from .ray_executor import run_packs

        return run_packs(todo, store, cluster, keep=keep, device=device, budget=budget)
    chosen = devices.choose(device)
    if workers is None:
        workers = 1 if chosen.type == "cuda" else len(os.sched_getaffinity(0))
    if chosen.type == "cpu":
        todo = lacking(split(found, workers))  # of all packs: with the same ids when some are done
    deadline = time.monotonic() + budget
    made, elsewhere, errors = 0, 0, list[FptError]()
    workers = min(workers, len(todo))
    before = torch.get_num_threads()
    spare = min(before, len(os.sched_getaffinity(0)) // workers)
    if workers == 1:
        for pack in todo:
            try:
                ended = _train_pack(pack, store, chosen.type, deadline, keep, spare, 0)
            except FptError as error:
                errors.append(error)
            else:
                made, elsewhere = made + ended[0], elsewhere + ended[1]
            finally:
                torch.set_num_threads(before)
        say_elsewhere(elsewhere)
        return counted(made, errors)
    context = multiprocessing.get_context("spawn")
    try:
        with (
            ProcessPoolExecutor(workers, context, _end_with_parent) as pool,
            tqdm(total=sum(map(len, todo)), desc="runs", disable=None) as bar,
        ):
            try:
                with uninterrupted(), apart():
                    futures = {
                        pool.submit(
                            _train_pack,
                            *(pack, store, chosen.type, deadline, keep, spare, 1 + i % workers),
                        ): pack
                        for i, pack in enumerate(todo)
                    }
                for future in as_completed(futures):
                    try:
                        ended = future.result()
                    except FptError as error:
                        errors.append(error)
                    else:
                        made, elsewhere = made + ended[0], elsewhere + ended[1]
                    bar.update(len(futures[future]))
            except KeyboardInterrupt:  # else the pool would wait for all packs
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
    except BrokenProcessPool:
        errors.append(
            FptError(
                "A worker died, killed or out of memory (fewer --workers need less); what is "
                "recorded stays, so run again."
            )
        )
    say_elsewhere(elsewhere)
    return counted(made, errors)


def say_elsewhere(count: int) -> None:
    if count:
        warnings.warn(
            f"Another process is training {count} of the runs that are missing, so they are left "
            "to it; run again when it has ended.",
            stacklevel=3,
        )


def counted(made: int, errors: Sequence[FptError]) -> int:
    if not errors:
        return made
    said = [f"{len(errors)} packs failed"] if len(errors) > 1 else []
    said += [f"records made of the others: {made}"] if made else []
    after = f" ({'; '.join(said)}.)" if said else ""
    raise FptError(f"{errors[0]}{after}") from errors[0]
