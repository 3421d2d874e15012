"""Sweeps: which runs are missing, which of them form a pack, and where packs are trained.

Packs are independent. On a CPU a pack wants one thread, so as many run side by side as there are
cores; if there are fewer packs than cores, they share the cores that are left, which brings nothing
for small steps and up to 1.7 times the speed for large ones (benchmarks/). OMP_NUM_THREADS bounds
the threads of a pack. On CUDA one pack at a time has the whole card.
"""

import math
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..files import FptError
from ..records import Record, Store
from ..spec import RunSpec
from . import device as devices
from .model import backbone_identity, packable
from .ray_executor import train_on_cluster
from .trackers import in_jupyter, progress_bar
from .train import Job, Pack, task_of, train_pack

MAX_RUNS = 8  # of one pack
MAX_TOKENS = 1 << 16  # of one step of a pack; bounds the activations that are kept
Apart = Mapping[str, object] | None


def packs(
    specs: Iterable[RunSpec], max_runs: int = MAX_RUNS, apart: Apart = None, length: int = 0
) -> list[Pack]:
    """`specs` in packs of about equal size: a deterministic function of the specs, their order,
    `max_runs` and `apart`, the same on every machine.

    Runs whose keys have different values in `apart` share no pack. The values are the sections that
    have a run: then its pack is the same if one section is trained or all of them at once.
    `length`: of the sequences, for a task that has no name.
    """
    groups: dict[object, list[RunSpec]] = {}
    for spec in dict.fromkeys(specs):
        evaluations = (spec.eval_every, spec.eval_items, spec.test_items)
        shape = (spec.data, spec.batch, spec.steps, *evaluations, spec.augment)
        together = packable(spec) and spec.procedure != "probe"
        alone = () if together else (spec.key,)
        group = (backbone_identity(spec), shape, alone, (apart or {}).get(spec.key))
        groups.setdefault(group, []).append(spec)
    found = []
    for members in groups.values():
        most = max(1, min(max_runs, MAX_TOKENS // tokens_of_step(members[0], length)))
        size = math.ceil(len(members) / math.ceil(len(members) / most))
        found += [tuple(members[i : i + size]) for i in range(0, len(members), size)]
    return found


def tokens_of_step(spec: RunSpec, length: int = 0) -> int:
    """Tokens of one run in one training step."""
    return spec.batch * (length or task_of(spec).length)


def shard(found: Sequence[Pack], part: str | None) -> list[Pack]:
    """Part `I/N` of the packs, every N-th of them, so that N machines share a sweep."""
    if part is None:
        return list(found)
    written = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", part)
    index, count = map(int, written.groups()) if written else (0, 0)
    if not 1 <= index <= count:
        raise FptError(f"The shard {part!r} is not I/N with 1 <= I <= N, such as 2/8.")
    return list(found[index - 1 :: count])


def run(
    specs: Iterable[RunSpec],
    store: Store,
    *,
    budget: float = math.inf,
    part: str | None = None,
    workers: int | None = None,
    max_runs: int = MAX_RUNS,
    apart: Apart = None,
    cluster: str | None = None,
    gpus: float = 1.0,
    **options: Any,
) -> int:
    """Train what `store` misses of `specs`; returns the number of new records.

    `budget`: in seconds; packs that are not finished by then go on in a later call. `part`: of the
    packs (see `shard`). `workers`: packs side by side; by default one per core, but on a GPU and in
    Jupyter, where their bars would not show, one. `apart`: see `packs`. `cluster`: the address of a
    Ray cluster, or "local"; packs run there, each on `gpus` of a GPU, instead of in processes of
    this machine. `options` are those of `Job`: `device`, `precision`, `titles`, `tracker`, and
    `keep`, without whose parameters a run is missing. A pack that cannot be trained, because its
    weights are missing for example, does not stop the others; its FptError is raised after them.
    """
    job = Job(store, deadline=time.monotonic() + budget, **options)
    found = shard(packs(specs, max_runs, apart), part)
    wanted = [spec for pack in found for spec in pack]
    recorded = job.recorded(wanted)
    _check_one_arithmetic(recorded.values(), job.precision)
    todo = [pack for pack in found if any(spec.key not in recorded for spec in pack)]
    if not todo:
        return 0
    todo.sort(key=lambda pack: len(pack) * pack[0].steps * tokens_of_step(pack[0]), reverse=True)
    if cluster is None:
        results = _train_here(todo, job, workers)
    else:
        results = train_on_cluster(todo, job, cluster, workers, gpus)
    made, errors = 0, list[FptError]()
    with progress_bar(sum(map(len, todo)), "runs") as bar:
        for pack, result in results:
            if isinstance(result, FptError):
                errors.append(result)
            else:
                made += result
            bar.update(len(pack))
    if errors:
        after = f" (Packs that failed: {len(errors)}; records made of the others: {made}.)"
        raise FptError(f"{errors[0]}{after if len(todo) > 1 else ''}") from errors[0]
    left = len(wanted) - len(job.recorded(wanted))
    if left and time.monotonic() <= job.deadline:
        warnings.warn(
            f"Another process is training {left} of the runs that are missing, so they are left to "
            "it; run again when it has ended.",
            stacklevel=2,
        )
    return made


def _check_one_arithmetic(recorded: Iterable[Record], precision: str) -> None:
    """FptError if a run that is recorded would now be trained in another arithmetic on the kind of
    device that it was trained on: rounding is no treatment, so runs to compare share it."""
    for record in recorded:
        before = record.environment.get("precision")
        now = devices.arithmetic(record.environment.get("kind", "cpu"), precision)
        if before not in (None, now):
            raise FptError(
                f"Run {record.key} is recorded in {before}, and the precision {precision!r} would "
                f"train it in {now}: the runs of an experiment share one. Choose the precision of "
                "its records, or move these away to train all of it again."
            )


def _train_here(
    todo: Sequence[Pack], job: Job, workers: int | None
) -> Iterator[tuple[Pack, int | FptError]]:
    """Yield packs as they end, trained in this process or in `workers` others."""
    cores = len(os.sched_getaffinity(0))
    on_gpu = devices.choose(job.device).type == "cuda"
    workers = min(workers or (1 if on_gpu or in_jupyter() else cores), len(todo))
    if workers == 1:
        yield from ((pack, train_pack(pack, job)) for pack in todo)
        return
    # Needed only here, so that training on a GPU needs no joblib.
    from joblib.externals.loky import ProcessPoolExecutor, as_completed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    threads = max(1, min(torch.get_num_threads(), cores // workers))
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(os.getpid(), threads))
    running = {pool.submit(train_pack, pack, job): pack for pack in todo}
    try:
        for ended in as_completed(list(running)):
            yield running.pop(ended), ended.result()
    except TerminatedWorkerError as error:
        raise FptError(
            "A worker died, killed or out of memory (fewer --workers need less); what is recorded "
            "stays, so run again."
        ) from error
    finally:
        pool.shutdown(kill_workers=bool(running))


def _begin(parent: int, threads: int) -> None:
    """Prepare a worker: it exits when its parent dies, and leaves Ctrl-C to it."""
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
