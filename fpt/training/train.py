"""train(pack, job) -> records: the loop or the probe, with locks, checkpoint and provenance."""

import hashlib
import math
import time
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ..backbones.weights import digest, files
from ..files import CACHE, FptError, lock
from ..records import Record, Store
from ..spec import RunSpec
from ..tasks import Task, get_task
from ..tasks.datasets import data_note
from . import checkpoint
from . import device as devices
from .checkpoint import Progress
from .flops import flops_per_token
from .loop import Loop
from .probe import probe
from .trackers import Tracker

Pack = tuple[RunSpec, ...]


@dataclass(frozen=True)
class Job:
    """What all packs of a sweep share: where their records go, and how they are trained."""

    store: Store
    keep: Container[str] = ()  # keys of runs whose trained parameters are stored with the record
    device: str = "auto"
    precision: str = devices.AUTO  # one of `fpt.training.device.PRECISIONS`
    deadline: float = math.inf  # of `time.monotonic()`
    titles: Mapping[str, str] = field(default_factory=dict)  # of runs by key: arm and task
    tracker: Tracker | None = None
    cache: Path = field(default_factory=lambda: CACHE)  # of locks and checkpoints

    def recorded(self, specs: Sequence[RunSpec]) -> dict[str, Record]:
        """The records, by key, that need no training."""
        return self.store.read_all((spec.key for spec in specs), self.keep)

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """A lock among all processes that train for a store of this name."""
        return lock(self.cache / "locks" / self.store.folder.parent.name / name, wait=False)


def task_of(spec: RunSpec) -> Task:
    """The task of a run, with its options; reads no data."""
    return get_task(spec.task, **spec.options)


def pack_id(specs: Sequence[RunSpec]) -> str:
    """Names a pack by its members, in order."""
    return hashlib.sha256(" ".join(spec.key for spec in specs).encode()).hexdigest()[:16]


def train(pack: Sequence[RunSpec], job: Job) -> list[Record]:
    """Train the runs of `pack` together and write their records; none if the job's deadline passes
    before they end.

    Leaves out runs that are recorded or that another process is training. A pack that was stopped
    goes on with the members it had, so that its packing is the same; those of them that are
    recorded are not written again.
    """
    with ExitStack() as locks:
        if not locks.enter_context(job.lock(pack_id(pack))):
            return []  # another process trains this very pack
        free = [spec for spec in pack if locks.enter_context(job.lock(spec.key))]
        recorded = job.recorded(free)
        missing = [spec for spec in free if spec.key not in recorded]
        if not missing:
            return []
        device, task = devices.choose(job.device), task_of(missing[0])
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        if missing[0].procedure == "probe":
            (spec,) = missing
            fitted = probe(spec, task, device, job.precision)
            return [job.store.write(_record(spec, task, device, job.precision, pack, fitted))]
        path = job.cache / "checkpoints" / f"{pack_id(pack)}.safetensors"
        saved = checkpoint.read(path)
        members = [spec for spec in pack if saved and spec.key in saved[1]["keys"]]
        if not set(missing) <= set(members):
            members = missing
        devices.keep_memory()
        titles = [job.titles.get(spec.key, spec.task) for spec in members]
        try:
            tracker, precision = job.tracker, job.precision
            loop = Loop(members, task, device, path, titles, tracker, precision=precision)
            if not loop.run(job.deadline):
                return []
        except RuntimeError as error:
            if any(part in str(error) for part in devices.NO_MEMORY):
                raise _too_large(members, error) from error
            raise
        records = []
        for index, spec in enumerate(members):
            if spec in missing:
                progress, parameters = loop.progress[index], None
                progress.cost["tokens"] = progress.metrics["steps"] * spec.batch * task.length
                if spec.key in job.keep:
                    parameters = loop.rows.stored(loop.selected[index], spec.trainable)
                record = _record(spec, task, device, precision, members, progress)
                records.append(job.store.write(record, parameters))
        path.unlink(missing_ok=True)
        return records


def _too_large(pack: Sequence[RunSpec], error: RuntimeError) -> FptError:
    """What to do about a lack of memory."""
    first, reason = pack[0], str(error).splitlines()[0].rstrip(".")
    fewer = f"--max-runs {len(pack) // 2}" if len(pack) > 1 else "a smaller batch"
    return FptError(
        f"A pack of {len(pack)} runs ({first.task} on {first.backbone}, {first.batch} sequences a "
        f"step each) does not fit into the memory of the device; use {fewer} ({reason})."
    )


def _record(
    spec: RunSpec,
    task: Task,
    device: torch.device,
    precision: str,
    pack: Sequence[RunSpec],
    progress: Progress,
) -> Record:
    """The record of a run that has ended."""
    seen, note = {"data_digest": task.digest()}, data_note(task)
    if spec.weights is not None:
        seen["weights_digest"] = digest(files(spec.weights))
    return Record(
        spec=spec,
        status="diverged" if progress.status == "diverged" else "done",
        metrics=progress.metrics,
        curve=progress.curve,
        cost={
            "seconds": progress.seconds,
            "process_seconds": progress.process_seconds,
            "flops": progress.cost["tokens"] * flops_per_token(spec),
            "peak_bytes": devices.peak_memory(device),
            **progress.cost,
        },
        environment=devices.environment(device, precision) | seen,
        pack=[member.key for member in pack],
        notes=[note] if note else [],
    )


def train_pack(pack: Pack, job: Job) -> int | FptError:
    """Train a pack, unless the deadline has passed; the number of new records, or what stopped it:
    a worker of a sweep returns an error, since other packs go on."""
    if time.monotonic() > job.deadline:
        return 0
    try:
        return len(train(pack, job))
    except FptError as error:
        return error
