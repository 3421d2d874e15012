"""A pack of runs to records: the loop or the probe, with locks, checkpoint and
provenance."""

import hashlib
import math
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from ..backbones import Backbone, backbone
from ..backbones.weights import digest, files
from ..errors import FptError
from ..files import lock
from ..project import Project, project
from ..records import Record, Store
from ..spec import RunSpec
from ..tasks import IN_MEMORY, Task, in_memory, task_of
from ..tasks.datasets import data_note
from . import device as devices
from .flops import flops_per_token
from .loop import Loop
from .probe import probe
from .progress import Checkpoint, Metrics, Progress, read_checkpoint, tested

Pack = tuple[RunSpec, ...]


@dataclass(frozen=True)
class Job:
    """What all packs of a sweep share: where their records go, and how they are trained."""

    store: Store
    keep: Container[str] = ()  # keys of runs whose trained parameters are stored too
    device: str = "auto"
    precision: str = devices.AUTO  # one of `fpt.training.device.PRECISIONS`
    deadline: float = math.inf  # of `time.monotonic()`
    titles: Mapping[str, str] = field(default_factory=dict)  # of runs by key: arm and task
    quiet: bool = False  # without bars and lines
    # Of a run that ends. If they have `scores` of the test examples, a list, these are kept
    # in the place of its parameters.
    metrics: Metrics = tested
    # By their names, those that no table has, such as one in a user's folder.
    backbones: Mapping[str, Backbone] = field(default_factory=dict)
    tasks: tuple[Task, ...] = field(default_factory=IN_MEMORY.get)
    project: Project = field(default_factory=project)  # whose data and weights are read
    cache: Path = field(default_factory=lambda: project().cache)  # of locks and checkpoints

    def recorded(self, specs: Sequence[RunSpec]) -> dict[str, Record]:
        """The records, by key, that need no training."""
        return self.store.read_all((spec.key for spec in specs), self.keep)

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """A lock among all processes that train for a store of this name."""
        return lock(self.cache / "locks" / self.store.folder.name / name, wait=False)


def pack_id(specs: Sequence[RunSpec]) -> str:
    """Names a pack by its members, in order."""
    return hashlib.sha256(" ".join(spec.key for spec in specs).encode()).hexdigest()[:16]


def train(pack: Sequence[RunSpec], job: Job) -> list[Record]:
    """Train the runs of `pack` together and write their records; none if the job's deadline
    passes before they end.

    Leaves out runs that are recorded or that another process is training. A pack that was
    stopped goes on with the members it had, so that its packing is the same; those of them
    that are recorded are not written again.
    """
    with job.project.in_force(), in_memory(*job.tasks), ExitStack() as locks:
        # One process trains a pack: two would write one checkpoint.
        if not locks.enter_context(job.lock(pack_id(pack))):
            return []
        # A run may be in packs of several sections, so it has a lock of its own. What was
        # recorded before we held the lock is seen after it, so that no run is trained
        # twice.
        free = [spec for spec in pack if locks.enter_context(job.lock(spec.key))]
        recorded = job.recorded(free)
        missing = [spec for spec in free if spec.key not in recorded]
        if not missing:
            return []
        first = missing[0]
        # Names are looked up once; from here on it is the task and the backbone themselves.
        task = task_of(first)
        architecture = job.backbones.get(first.backbone) or backbone(first.backbone)
        # Of what is read now: the file may be another when the training ends.
        weights = None
        if first.weights:
            weights = digest(files(first.weights, architecture.folder))
        device = devices.choose(job.device)
        if device.type == "cuda":  # or a record would state the peak of an earlier pack
            torch.cuda.reset_peak_memory_stats(device)

        if first.procedure == "probe":
            # A convex fit takes seconds: no checkpoint, no mates.
            progress = probe(first, task, device, job.precision)
            common = provenance(weights, task, device, job)
            return [
                job.store.write(record_of(first, pack, progress, architecture, **common))
            ]

        path = job.cache / "checkpoints" / f"{pack_id(pack)}.safetensors"
        saved = read_checkpoint(path)
        members = members_of(pack, missing, saved)
        # With other threads, sums would be split at other places.
        count = saved[1].get("threads") if saved else None
        titles = [job.titles.get(spec.key, spec.task) for spec in members]
        devices.keep_memory()
        with memory_for(members), devices.threads(count):
            loop = Loop(
                members,
                task,
                device,
                path,
                titles,
                quiet=job.quiet,
                architecture=architecture,
                precision=job.precision,
                metrics=job.metrics,
                weights=weights,
            )
            if not loop.run(job.deadline):
                return []
            common = provenance(weights, task, device, job)
        records = []
        for index, spec in enumerate(members):
            # A member that was recorded before the pack was stopped keeps its record.
            if spec not in missing:
                continue
            progress = loop.progress[index]
            progress.cost["tokens"] = progress.tokens
            scores: Any = progress.metrics.pop("scores", None)
            record = record_of(spec, members, progress, architecture, **common)
            parameters = None
            if scores is not None:
                parameters = save({"scores": np.array(scores, np.float32)})
            elif spec.key in job.keep:
                parameters = loop.rows.stored(loop.selected[index], spec.trainable)
            records.append(job.store.write(record, parameters))
        # Only now: killed between two records, the next process writes the rest from it.
        path.unlink(missing_ok=True)
        return records


def members_of(
    pack: Sequence[RunSpec], missing: Sequence[RunSpec], saved: Checkpoint | None
) -> Sequence[RunSpec]:
    """The runs to train: those of the checkpoint that was `saved`, if it has all that are
    missing, since a run's rounding depends on its pack mates; else those that are
    missing."""
    if saved is None:
        return missing
    _, history = saved
    members = [spec for spec in pack if spec.key in history["keys"]]
    return members if set(missing) <= set(members) else missing


@contextmanager
def memory_for(pack: Sequence[RunSpec]) -> Iterator[None]:
    """Says what to do if the device lacks memory for a pack that is trained in the
    block."""
    try:
        yield
    except RuntimeError as error:
        # torch has one class for all its errors.
        if not any(part in str(error) for part in devices.NO_MEMORY):
            raise
        first = pack[0]
        reason = str(error).splitlines()[0].rstrip(".")
        remedy = "a smaller batch"
        if len(pack) > 1:
            remedy = f"--max-runs {len(pack) // 2}, or {remedy}"
        raise FptError(
            f"A pack of {len(pack)} runs ({first.task} on {first.backbone}, {first.batch} "
            "sequences a step each) does not fit into the memory of the device; use "
            f"{remedy} ({reason})."
        ) from error


def provenance(
    weights: str | None, task: Task, device: torch.device, job: Job
) -> dict[str, Any]:
    """What the records of a pack have in common: how its runs were trained, and on what;
    `weights` is the digest of the pretrained ones."""
    environment = devices.environment(device, job.precision)
    # A specification names data and weights; their digests say with which content it was
    # trained.
    data_digest = task.digest()
    environment["data_digest"] = data_digest
    if weights is not None:
        environment["weights_digest"] = weights
    note = data_note(task.dataset, data_digest)
    return {
        "environment": environment,
        "notes": [note] if note else [],
        "peak_bytes": devices.peak_memory(device),
    }


def record_of(
    spec: RunSpec,
    pack: Sequence[RunSpec],
    progress: Progress,
    architecture: Backbone,
    *,
    peak_bytes: int,
    **common: Any,
) -> Record:
    """The record of a run of `pack` that has ended; the rest is its `provenance`."""
    return Record(
        spec=spec,
        status="diverged" if progress.status == "diverged" else "done",
        metrics=progress.metrics,
        curve=progress.curve,
        cost={
            "seconds": progress.seconds,
            "process_seconds": progress.process_seconds,
            "flops": progress.cost["tokens"] * flops_per_token(spec, architecture),
            "peak_bytes": peak_bytes,
            **progress.cost,
        },
        pack=[member.key for member in pack],
        **common,
    )


def train_pack(pack: Pack, job: Job) -> int | FptError:
    """Train a pack, unless the deadline has passed; the number of new records, or the error
    that stopped it: a worker of a sweep returns it, since other packs go on."""
    if time.monotonic() > job.deadline:
        return 0
    try:
        return len(train(pack, job))
    except FptError as error:
        return error
