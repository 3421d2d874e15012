"""Sweeps: which runs are missing, which of them form a pack, and where packs are trained.

Packs are independent. On a CPU a pack wants one thread, so as many run side by side as
there are cores; if there are fewer packs than cores, they share the cores that are left,
which brings nothing for small steps and up to 1.7 times the speed for large ones
(benchmarks/). OMP_NUM_THREADS bounds the threads of a pack. On CUDA one pack at a time has
the whole card.
"""

import itertools
import math
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import torch

from ..backbones.initialisations import INITS
from ..errors import FptError
from ..records import Store
from ..spec import RunSpec
from . import device as devices
from .cluster import train_on_cluster
from .flops import bytes_of, packable, tokens_of_step
from .progress import in_jupyter, log_line, progress_bar
from .train import Job, Pack, train_pack

MAX_RUNS_PER_PACK = 8
MAX_TOKENS_PER_STEP = 1 << 16  # of a pack; bounds the activations that are kept
# Tokens of a step. With fewer, a GPU waits for the next launch; with more, a pack takes as
# long as its runs one by one, and the memory of all.
FILLS_A_GPU = 8192
Sections = Mapping[str, object] | None  # by the keys of runs
Item = TypeVar("Item")
Result = TypeVar("Result")


def packs(
    specs: Iterable[RunSpec],
    max_runs: int = MAX_RUNS_PER_PACK,
    sections: Sections = None,
    most_tokens: int = MAX_TOKENS_PER_STEP,
) -> list[Pack]:
    """`specs` in packs of about equal size, with `most_tokens` a step: a deterministic
    function of these arguments and the order of the specs, the same on every machine.

    `sections` are those that have a run, by its key. Runs of different ones share no pack,
    so that a pack is the same if one section is trained or all of them at once.
    """
    groups: dict[object, list[RunSpec]] = {}
    for spec in dict.fromkeys(specs):  # a run that several sections name is one run
        often = (spec.eval_early, spec.eval_every)
        evaluations = (*often, spec.eval_items, spec.test_items)
        loop = (spec.data, spec.batch, spec.steps, *evaluations, spec.augment)
        # A run that trains its backbone shares it with no other, and a probe is fitted by
        # itself: the key makes a group of each.
        is_alone = spec.procedure == "probe" or not packable(spec)
        own_key = spec.key if is_alone else ""
        group = (backbone_identity(spec), loop, own_key, (sections or {}).get(spec.key))
        groups.setdefault(group, []).append(spec)
    all_packs = []
    for members in groups.values():
        most = max(1, min(max_runs, most_tokens // tokens_of_step(members[0])))
        count = math.ceil(len(members) / most)
        size = math.ceil(len(members) / count)  # packs of about equal size end together
        all_packs += [tuple(members[i : i + size]) for i in range(0, len(members), size)]
    return all_packs


def backbone_identity(spec: RunSpec) -> tuple[object, ...]:
    """The values that two runs must share to stand on one backbone."""
    seed = spec.backbone_seed if INITS[spec.init].depends_on_seed else None
    body = (spec.backbone, spec.init, spec.weights, seed, spec.prefix)
    return (*body, spec.dropout, spec.order)


def most_tokens(device: str = "auto") -> int:
    """The tokens that a step of a pack may have on a device."""
    is_gpu = devices.choose(device).type == "cuda"
    return FILLS_A_GPU if is_gpu else MAX_TOKENS_PER_STEP


def in_order(sections: Sections) -> Callable[[Pack], tuple[int, int, int]]:
    """The order in which packs are trained: the first seed of every cell before the next
    seed of any, section by section, the shortest first. So whenever a sweep is stopped,
    tables are as full as they can be."""
    places = {
        of_key: place
        for place, of_key in enumerate(dict.fromkeys((sections or {}).values()))
    }

    def key(pack: Pack) -> tuple[int, int, int]:
        place = places.get((sections or {}).get(pack[0].key), 0)
        length = len(pack) * pack[0].steps * tokens_of_step(pack[0])
        return min(spec.seed for spec in pack), place, length

    return key


def shard(all_packs: Sequence[Pack], part: str | None) -> list[Pack]:
    """Part `I/N` of the packs, every N-th of them, so that N machines share a sweep."""
    if part is None:
        return list(all_packs)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", part)
    index, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= index <= count:
        raise FptError(f"The shard {part!r} is not I/N with 1 <= I <= N, such as 2/8.")
    return list(all_packs[index - 1 :: count])


def run(
    specs: Iterable[RunSpec],
    store: Store,
    *,
    budget: float = math.inf,
    part: str | None = None,
    workers: int | None = None,
    max_runs: int = MAX_RUNS_PER_PACK,
    sections: Sections = None,
    cluster: str | None = None,
    gpus: float = 1.0,
    **options: Any,
) -> int:
    """Train what `store` misses of `specs`; returns the number of new records.

    `budget`: in seconds; packs that are not finished by then go on in a later call. `part`:
    of the packs (see `shard`). `workers`: packs side by side; by default see
    `usual_workers`. `sections`: see `packs`.
    `cluster`: the address of a Ray cluster, or "local"; packs run there, each on `gpus` of
    a GPU, instead of in processes of this machine. `options` are those of `Job`: `device`,
    `precision`, `titles`, `quiet`, `metrics`, `backbones`, and `keep`, without whose
    parameters a run is missing.
    A pack that cannot be trained, because its weights are missing for example, does not
    stop the others; its FptError is raised after them.
    """
    job = Job(store, deadline=time.monotonic() + budget, **options)
    limit = most_tokens(job.device)
    shard_packs = shard(packs(specs, max_runs, sections, limit), part)
    shard_specs = [spec for pack in shard_packs for spec in pack]
    recorded = job.recorded(shard_specs)
    devices.check_one_arithmetic(recorded.values(), job.precision)
    todo = [pack for pack in shard_packs if any(spec.key not in recorded for spec in pack)]
    if not todo:
        return 0
    todo.sort(key=in_order(sections))
    if cluster is None:
        results = trained_here(todo, job, workers)
    else:
        results = train_on_cluster(todo, job, cluster, workers, gpus)
    # A pack that fails, for want of a weights file say, must not stop a long sweep.
    count = 0
    errors: list[FptError] = []
    total = sum(map(len, todo))
    with progress_bar(total, "runs", job.quiet) as bar, closing(results):
        for pack, result in results:
            if isinstance(result, FptError):
                errors.append(result)
            else:
                count += result
            bar.update(len(pack))
            log_line(f"{count} of {total} runs are recorded", job.quiet)
    if errors:
        sentence = str(errors[0])
        if len(todo) > 1:
            sentence += f" (Failed packs: {len(errors)}; records of the others: {count}.)"
        raise FptError(sentence) from errors[0]
    left = len(shard_specs) - len(job.recorded(shard_specs))
    if left and time.monotonic() <= job.deadline:
        warnings.warn(
            f"Another process is training {left} of the runs that are missing, so they are "
            "left to it; run again when it has ended.",
            stacklevel=2,
        )
    return count


def trained_here(
    todo: Sequence[Pack], job: Job, workers: int | None
) -> Generator[tuple[Pack, int | FptError], None, None]:
    """Train packs in order on this machine, and yield each as it ends with what came of it.
    On a GPU, those that fill it are trained one by one."""
    is_gpu = devices.choose(job.device).type == "cuda"
    for alone, group in itertools.groupby(todo, lambda pack: is_gpu and fills_a_gpu(pack)):
        stretch = list(group)
        together = workers or (1 if alone else usual_workers(stretch, is_gpu))
        with worker_pool(min(together, len(stretch))) as pool:
            yield from side_by_side(partial(train_pack, job=job), stretch, pool)


def fills_a_gpu(pack: Pack) -> bool:
    """Whether a GPU is busy with a step of this pack alone."""
    return len(pack) * tokens_of_step(pack[0]) > FILLS_A_GPU


def usual_workers(todo: Sequence[Pack], is_gpu: bool) -> int:
    """How many packs are trained side by side: one per core, but in Jupyter, where bars of
    other processes would not show, one. On a GPU as many too, since the launches of one
    small step leave it idle, but at most 8, and no more than its memory has room for."""
    if in_jupyter():
        return 1
    if not is_gpu:
        return cores()
    memory = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(8, cores(), int(0.9 * memory / max(map(bytes_of, todo)))))


def side_by_side(
    function: Callable[[Item], Result], items: Sequence[Item], pool: Any
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result as the calls end: in the processes of `pool`, or in
    this one for a single item and where there is no pool. FptError if a worker dies."""
    if pool is None or len(items) <= 1:
        yield from ((item, function(item)) for item in items)
        return
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # No more than the workers take at once: what waits in its queue when a pool is
    # interrupted is a traceback of its thread.
    waiting = iter(items)
    first = itertools.islice(waiting, pool._max_workers + 1)
    try:
        running = {pool.submit(function, item): item for item in first}
        while running:
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for item in itertools.islice(waiting, len(ended)):
                running[pool.submit(function, item)] = item
            for call in ended:
                yield running.pop(call), call.result()
    except TerminatedWorkerError as error:
        raise FptError(
            "A worker died, killed or out of memory (fewer --workers need less); what is "
            "recorded stays, so run again."
        ) from error


@contextmanager
def worker_pool(workers: int) -> Iterator[Any]:
    """That many processes, which share the threads of this one and end with the block; None
    for one worker, which is this process."""
    if workers <= 1:
        yield None
        return
    # Needed only here, so that training on a GPU needs no joblib.
    from joblib.externals.loky import ProcessPoolExecutor

    # Small steps gain nothing from threads, so packs side by side come first.
    threads = max(1, min(torch.get_num_threads(), cores() // workers))
    # Not the reusable pool, which lets workers go that wait for ten seconds.
    # Work that comes at that moment is a warning in the thread that manages the pool, and
    # where warnings are errors the thread dies and nothing ever ends.
    pool = ProcessPoolExecutor(
        workers, initializer=begin_worker, initargs=(os.getpid(), threads)
    )
    try:
        yield pool
    except BaseException:
        # A pool that is interrupted while it starts has a thread that cannot be joined; its
        # workers exit with this process.
        with suppress(RuntimeError):
            pool.shutdown(kill_workers=True)
        raise
    pool.shutdown()


def cores() -> int:
    """The processors that this process may use."""
    # joblib knows the limits of a container, too, and starts the processes.
    try:
        from joblib import cpu_count
    except ImportError:
        return 1
    return int(cpu_count())


def begin_worker(parent: int, threads: int) -> None:
    """Prepare a worker: it exits when its parent dies, and leaves Ctrl-C to it."""
    from joblib.externals.loky import process_executor

    # A pack may need far more memory than the one before. loky would take that for a leak,
    # and replace the worker with a warning in the middle of the user's output.
    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        # The operating system gives an orphan another parent.
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
