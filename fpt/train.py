"""train(pack) -> records: the loop, with data and weights checked and the cost counted."""

import hashlib
import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from . import checkpoint
from . import device as devices
from .backbones import backbone, build
from .data import data_note
from .draws import Draws
from .files import lock
from .loop import CHECKPOINT_SECONDS, Loop
from .paths import ROOT
from .probe import probe
from .records import Record, Store
from .spec import RunSpec
from .tasks import Task, get_task
from .weights import file_digest, find

CACHE = ROOT / ".cache"
FREEZABLE = {"input", "output", "layernorm", "positions"}  # groups outside the matrices of the body


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
    bar: tqdm | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    cache: Path = CACHE,
) -> list[Record]:
    """Train the runs `specs` as one pack and write their records; [] where `deadline` came first.

    Runs that are recorded already, or that another process is training, are left out. A pack that
    was stopped goes on with the members it had, so that its packing is the same; what is recorded
    of them is not written again.
    """
    with ExitStack() as locks:
        folder = cache / "locks" / store.folder.parent.name
        if not locks.enter_context(lock(folder / pack_id(specs), wait=False)):
            return []  # this very pack: two processes must not part its runs between them
        mine = []
        for spec in specs:
            path = folder / spec.key
            if locks.enter_context(lock(path, wait=False)) and store.read(spec.key) is None:
                mine.append(spec)
        if not mine:
            return []
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        if mine[0].procedure == "probe":
            return [probe_run(spec, store, device) for spec in mine]
        path = cache / "checkpoints" / f"{pack_id(specs)}.safetensors"
        before = checkpoint.members(path)
        members = [spec for spec in specs if spec.key in before]
        if not set(mine) <= set(members):
            members = mine
        task = task_of(members[0])
        loop = Loop(members, task, device, path, checkpoint_seconds)
        if not loop.run(deadline, bar):
            return []
        records = [record(loop, i, task) for i, spec in enumerate(members) if spec in mine]
        for made in records:
            store.write(made)
        path.unlink(missing_ok=True)
        return records


def flops_per_token(spec: RunSpec) -> int:
    """Two FLOPs per multiply-add, matrices of the body only: forward and gradient by the input
    cost 2 P each per token; the gradient by the weights another 2 P where the body is trained."""
    body = build(backbone(spec.backbone), Draws(), spec.dropout)
    matrices = sum(p.numel() for p in body.parameters() if p.dim() == 2)
    return (4 if set(spec.trainable) <= FREEZABLE else 6) * matrices


def record(loop: Loop, index: int, task: Task) -> Record:
    """The record of run `index` of a finished loop."""
    spec, progress = loop.specs[index], loop.progress[index]
    tokens = progress.metrics["steps"] * spec.batch * task.length
    cost = {
        "seconds": progress.seconds,
        "tokens": tokens,
        "flops": tokens * flops_per_token(spec),
        "peak_bytes": devices.peak_memory(loop.device),
    }
    note = data_note(task)
    return Record(
        spec=spec,
        status="diverged" if progress.status == "diverged" else "done",
        metrics=progress.metrics,
        curve=progress.curve,
        cost=cost,
        environment=devices.environment(loop.device) | digests(spec, task),
        pack=[member.key for member in loop.specs],
        notes=[note] if note else [],
    )


def probe_run(spec: RunSpec, store: Store, device: torch.device) -> Record:
    """Probe the untrained model of `spec` and write the record."""
    task = task_of(spec)
    found = probe(spec, task, device)
    forward = flops_per_token(spec) // 2  # no gradient passes through the body
    cost = {"flops": found.cost["tokens"] * forward, "peak_bytes": devices.peak_memory(device)}
    note = data_note(task)
    made = Record(
        spec=spec,
        status="done",
        metrics=found.metrics,
        curve=found.curve,
        cost=found.cost | cost,
        environment=devices.environment(device) | digests(spec, task),
        pack=[spec.key],
        notes=[note] if note else [],
    )
    store.write(made)
    return made


def digests(spec: RunSpec, task: Task) -> dict[str, Any]:
    """What data and weights the run really saw."""
    seen = {"data_digest": task.digest()}
    if spec.weights is not None:
        seen["weights_digest"] = file_digest(find(backbone(spec.backbone), spec.weights))
    return seen
