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

import torch
from tqdm import tqdm

from ..files import FptError
from ..records import Store
from ..spec import RunSpec
from . import device as devices
from .model import backbone_identity, packable
from .ray_executor import Cluster, outcomes_on_cluster
from .train import Outcome, Pack, task_of, train_pack

MAX_RUNS = 8  # of one pack
MAX_TOKENS = 1 << 16  # of one step of a pack; bounds the activations that are kept


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
    cluster: Cluster | None = None,
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
    if cluster is None:
        outcomes = _outcomes_here(todo, store, keep, device, time.monotonic() + budget, workers)
    else:
        outcomes = outcomes_on_cluster(todo, store, keep, device, budget, cluster)
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
        after = f" (Packs that failed: {len(errors)}; records made of the others: {made}.)"
        raise FptError(f"{errors[0]}{after if len(todo) > 1 else ''}") from errors[0]
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
    given = (store, keep, chosen, deadline, min(before, cores // workers))
    if workers == 1:
        for pack in todo:
            try:
                yield pack, train_pack(pack, *given)
            finally:
                torch.set_num_threads(before)
        return
    # Needed only here, so that training on a GPU needs no joblib.
    from joblib.externals.loky import ProcessPoolExecutor, as_completed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pool = ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),))
    jobs = {pool.submit(train_pack, pack, *given): pack for pack in todo}
    try:
        for job in as_completed(list(jobs)):
            yield jobs.pop(job), job.result()
    except TerminatedWorkerError as error:
        raise FptError(
            "A worker died, killed or out of memory (fewer --workers need less); what is recorded "
            "stays, so run again."
        ) from error
    finally:
        pool.shutdown(kill_workers=bool(jobs))


def _end_with(parent: int) -> None:
    """Exit when the parent process dies, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
