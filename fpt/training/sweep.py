"""What is missing, in which packs, trained where.

Packs are independent. On a CPU they want one thread each, so as many run side by side as there are
cores; if there are fewer packs than cores, those with large steps share the cores that are left: a
second thread brought nothing at 0.5 GFLOPs a step, 1.4 times the speed at 3 and 1.7 at 20 and more
(benchmarks/). OMP_NUM_THREADS bounds the threads of a pack. On CUDA one pack at a time has the
whole card.
"""

import math
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from tqdm import tqdm

from ..files import FptError
from ..records import Store
from ..spec import RunSpec
from . import device as devices
from .flops import flops_per_token
from .model import backbone_identity, packable
from .train import task_of, train

if TYPE_CHECKING:
    from .ray_executor import Cluster

MAX_RUNS = 8  # of one pack
MAX_TOKENS = 1 << 16  # of one step of a pack; bounds the activations that are kept
THREADED = 3e9  # FLOPs of a step from which on more threads of a CPU are worth it

Pack = tuple[RunSpec, ...]


class Outcome(NamedTuple):
    """How a pack ended: its new records, how many of its runs another process is training, and
    what stopped it."""

    made: int
    elsewhere: int
    error: FptError | None = None


def packs(specs: Iterable[RunSpec], max_runs: int = MAX_RUNS) -> list[Pack]:
    """`specs` in packs of about equal size: a deterministic function of the specs, their order and
    `max_runs`, the same on every machine."""
    groups: dict[object, list[RunSpec]] = {}
    for spec in dict.fromkeys(specs):
        evaluations = (spec.eval_every, spec.eval_items, spec.test_items)
        shape = (spec.data, spec.batch, spec.steps, *evaluations, spec.augment, spec.procedure)
        alone = () if packable(spec) else (spec.key,)
        groups.setdefault((backbone_identity(spec), shape, alone), []).append(spec)
    found = []
    for members in groups.values():
        tokens = members[0].batch * task_of(members[0]).length
        most = max(1, min(max_runs, MAX_TOKENS // tokens))
        size = math.ceil(len(members) / math.ceil(len(members) / most))
        found += [tuple(members[i : i + size]) for i in range(0, len(members), size)]
    return found


def work(pack: Pack) -> int:
    """Tokens that a pack trains on at most, to start long packs first."""
    first = pack[0]
    return len(pack) * first.steps * first.batch * task_of(first).length


def threads(pack: Pack, spare: int) -> int:
    """How many of `spare` threads of a CPU a pack takes: all or one, by the FLOPs of its step."""
    tokens = pack[0].batch * task_of(pack[0]).length
    flops = tokens * sum(flops_per_token(spec) for spec in pack)
    return max(1, spare) if flops >= THREADED else 1


def shard(found: Sequence[Pack], part: str | None) -> list[Pack]:
    """Part `I/N` of the packs, dealt round, so that N machines share a sweep."""
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
    keep: Container[str] = (),
    device: str = "auto",
    budget: float = math.inf,
    part: str | None = None,
    workers: int | None = None,
    max_runs: int = MAX_RUNS,
    cluster: "Cluster | None" = None,
) -> int:
    """Train what `store` misses of `specs`; returns the number of new records.

    `keep`: keys of runs whose parameters are kept; without them a run is missing. `budget`: in
    seconds; packs that are not finished by then go on in a later call. `part`: of the packs (see
    `shard`). `cluster`: packs run there instead of in processes of this machine. A pack that cannot
    be trained, because its weights are missing for example, does not stop the others; its FptError
    is raised after them.
    """
    specs = list(specs)
    present = store.read_all((spec.key for spec in specs), keep)  # damaged ones are missing
    found = shard(packs(specs, max_runs), part)
    todo = [pack for pack in found if any(spec.key not in present for spec in pack)]
    todo.sort(key=work, reverse=True)
    if not todo:
        return 0
    outcomes: Iterable[tuple[Pack, Outcome]]
    if cluster is not None:
        from .ray_executor import outcomes_there

        outcomes = outcomes_there(todo, store, cluster, keep=keep, device=device, budget=budget)
    else:
        outcomes = _outcomes_here(todo, store, keep, device, time.monotonic() + budget, workers)
    made, elsewhere, errors = 0, 0, list[FptError]()
    with tqdm(total=sum(map(len, todo)), desc="runs", disable=None) as bar:
        for pack, outcome in outcomes:
            made, elsewhere = made + outcome.made, elsewhere + outcome.elsewhere
            errors += [outcome.error] if outcome.error else []
            bar.update(len(pack))
    if elsewhere:
        warnings.warn(
            f"Another process is training {elsewhere} of the runs that are missing, so they are "
            "left to it; run again when it has ended.",
            stacklevel=2,
        )
    if errors:
        said = [f"{len(errors)} packs failed"] if len(errors) > 1 else []
        said += [f"records made of the others: {made}"] if made else []
        after = f" ({'; '.join(said)}.)" if said else ""
        raise FptError(f"{errors[0]}{after}") from errors[0]
    return made


def _outcomes_here(
    todo: Sequence[Pack],
    store: Store,
    keep: Container[str],
    device: str,
    deadline: float,
    workers: int | None,
) -> Iterator[tuple[Pack, Outcome]]:
    """The packs as they end, trained in this process or in `workers` others."""
    chosen = devices.choose(device).type
    cores = len(os.sched_getaffinity(0))
    workers = min(workers or (1 if chosen == "cuda" else cores), len(todo))
    before = torch.get_num_threads()
    spare = min(before, cores // workers)
    if workers == 1:
        for pack in todo:
            try:
                yield pack, train_pack(pack, store, chosen, deadline, keep, spare)
            finally:
                torch.set_num_threads(before)
        return
    # Needed only here, so that training on a GPU needs no joblib.
    from joblib.externals.loky import ProcessPoolExecutor, as_completed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pool = ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),))
    try:
        jobs = {
            pool.submit(train_pack, pack, store, chosen, deadline, keep, spare): pack
            for pack in todo
        }
        for job in as_completed(jobs):
            yield jobs[job], job.result()
    except TerminatedWorkerError:
        said = (
            "A worker died, killed or out of memory (fewer --workers need less); what is recorded "
            "stays, so run again."
        )
        yield todo[0], Outcome(0, 0, FptError(said))
    finally:
        pool.shutdown(kill_workers=True)


def train_pack(
    pack: Pack, store: Store, device: str, deadline: float, keep: Container[str], spare: int = 1
) -> Outcome:
    """Train one pack in this process until `time.monotonic()` passes `deadline`."""
    if device == "cpu":
        torch.set_num_threads(threads(pack, spare))
    if time.monotonic() > deadline:
        return Outcome(0, 0)
    first = pack[0]
    title = f"{first.task} {first.init} {first.backbone} x{len(pack)}"
    try:
        with tqdm(total=first.steps, desc=title, disable=None, position=1, leave=False) as bar:
            where = torch.device(device)
            made = len(train(pack, store, device=where, deadline=deadline, keep=keep, bar=bar))
    except FptError as error:
        return Outcome(0, 0, error)
    if time.monotonic() > deadline:
        return Outcome(made, 0)
    # What is missing although there is time was left out for its lock.
    return Outcome(made, len(pack) - len(store.read_all((spec.key for spec in pack), keep)))


def _end_with(parent: int) -> None:
    """Exit when the parent process dies, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
