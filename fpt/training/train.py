"""train(pack) -> records: the loop or the probe, with locks, checkpoint, cost and provenance.

`train_pack` is what a sweep hands to its workers, on this machine or on a cluster.
"""

import hashlib
import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from ..backbones.weights import file_digest, find
from ..files import CACHE, FptError, lock
from ..records import Record, Store
from ..spec import RunSpec
from ..tasks import Task, get_task
from ..tasks.datasets import data_note
from . import checkpoint
from . import device as devices
from .checkpoint import Progress
from .flops import flops_per_token
from .kept import stored_parameters
from .loop import Loop
from .probe import probe

THREADED = 3e9  # FLOPs of a step from which on more threads of a CPU are worth it

Pack = tuple[RunSpec, ...]


def task_of(spec: RunSpec) -> Task:
    return get_task(spec.task, **spec.options)


def pack_id(specs: Sequence[RunSpec]) -> str:
    """Names a pack by its members, in order."""
    return hashlib.sha256(" ".join(spec.key for spec in specs).encode()).hexdigest()[:16]


def train(
    specs: Sequence[RunSpec],
    store: Store,
    *,
    device: torch.device,
    deadline: float = math.inf,
    keep: Container[str] = (),
    cache: Path = CACHE,
) -> list[Record]:
    """Train the runs `specs` as one pack and write their records; none if `time.monotonic()` passes
    `deadline` before the pack ends.

    Runs that are recorded already, or that another process is training, are left out. A pack that
    was stopped goes on with the members it had, so that its packing is the same; what is recorded
    of them is not written again. `keep`: keys of runs whose parameters are kept with the record;
    one that is recorded without them is trained again.
    """
    with ExitStack() as locks:
        folder = cache / "locks" / store.folder.parent.name
        if not locks.enter_context(lock(folder / pack_id(specs), wait=False)):
            return []  # this very pack: two processes must not part its runs between them
        missing = [
            spec
            for spec in specs
            if locks.enter_context(lock(folder / spec.key, wait=False))
            and store.read(spec.key, spec.key in keep) is None
        ]
        if not missing:
            return []
        task, records = task_of(missing[0]), list[Record]()
        devices.reset_peak_memory(device)
        if missing[0].procedure == "probe":
            for spec in missing:
                if not records or time.monotonic() <= deadline:  # one fits into any time
                    progress, cost = probe(spec, task, device)
                    records.append(store.write(_record(spec, task, device, [spec], progress, cost)))
            return records
        path = cache / "checkpoints" / f"{pack_id(specs)}.safetensors"
        before = checkpoint.members(path)
        members = [spec for spec in specs if spec.key in before]
        if not set(missing) <= set(members):
            members = missing
        with _memory_explained(members):
            loop = Loop(members, task, device, path)
            if not loop.run(deadline):
                return []
        for index, (spec, progress) in enumerate(zip(members, loop.progress, strict=True)):
            if spec in missing:
                cost = {"tokens": progress.metrics["steps"] * spec.batch * task.length}
                record = _record(spec, task, device, members, progress, cost)
                kept = stored_parameters(loop.rows, loop.selected[index], spec.trainable)
                records.append(store.write(record, kept if spec.key in keep else None))
        path.unlink(missing_ok=True)
        return records


@contextmanager
def _memory_explained(pack: Sequence[RunSpec]) -> Iterator[None]:
    """Say in one sentence that the device has no memory for a pack, and what to do."""
    try:
        yield
    except RuntimeError as error:
        if not devices.out_of_memory(error):
            raise
        first, reason = pack[0], str(error).splitlines()[0].rstrip(".")
        fewer = f"--max-runs {len(pack) // 2}" if len(pack) > 1 else "a smaller batch"
        raise FptError(
            f"A pack of {len(pack)} runs ({first.task} on {first.backbone}, {first.batch} sequences"
            f" a step each) does not fit into the memory of the device; use {fewer} ({reason})."
        ) from error


def _record(
    spec: RunSpec,
    task: Task,
    device: torch.device,
    pack: Sequence[RunSpec],
    progress: Progress,
    cost: Mapping[str, float],
) -> Record:
    """The record of a run that has ended; `cost` has at least the `tokens` of its backbone."""
    seen, note = {"data_digest": task.digest()}, data_note(task)
    if spec.weights is not None:
        seen["weights_digest"] = file_digest(find(spec.weights))
    return Record(
        spec=spec,
        status="diverged" if progress.status == "diverged" else "done",
        metrics=progress.metrics,
        curve=progress.curve,
        cost={
            "seconds": progress.seconds,
            "process_seconds": progress.process_seconds,
            "flops": cost["tokens"] * flops_per_token(spec),
            "peak_bytes": devices.peak_memory(device),
            **cost,
        },
        environment=devices.environment(device) | seen,
        pack=[member.key for member in pack],
        notes=[note] if note else [],
    )


class Outcome(NamedTuple):
    """How a pack ended: its new records, how many of its runs another process is training, and
    what stopped it."""

    made: int
    elsewhere: int = 0
    error: FptError | None = None


def threads(pack: Pack, spare: int) -> int:
    """How many of `spare` threads of a CPU a pack takes: all or one, by the FLOPs of its step."""
    tokens = pack[0].batch * task_of(pack[0]).length
    flops = tokens * sum(flops_per_token(spec) for spec in pack)
    return max(1, spare) if flops >= THREADED else 1


def train_pack(
    pack: Pack, store: Store, keep: Container[str], device: str, deadline: float, spare: int = 1
) -> Outcome:
    """Train one pack in this process until `time.monotonic()` passes `deadline`."""
    if device == "cpu":
        torch.set_num_threads(threads(pack, spare))
    if time.monotonic() > deadline:
        return Outcome(0)
    try:
        records = train(pack, store, device=torch.device(device), deadline=deadline, keep=keep)
    except FptError as error:
        return Outcome(0, error=error)
    if time.monotonic() > deadline:
        return Outcome(len(records))
    # What is missing although there is time was left out for its lock.
    return Outcome(len(records), len(pack) - len(store.read_all((it.key for it in pack), keep)))
