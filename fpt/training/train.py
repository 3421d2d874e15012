"""train(pack) -> records: the loop, with data and weights checked and the cost counted."""

import hashlib
import math
import time
from collections.abc import Container, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tqdm import tqdm

from ..backbones import backbone
from ..backbones.weights import file_digest, find
from ..files import CACHE, FptError, lock
from ..records import Record, Status, Store
from ..spec import RunSpec
from ..tasks import Task, get_task
from ..tasks.datasets import data_note
from . import checkpoint
from . import device as devices
from .flops import flops_per_token
from .loop import CHECKPOINT_SECONDS, Loop
from .probe import probe


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
    bar: tqdm | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
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
        task = task_of(missing[0])
        if missing[0].procedure == "probe":
            probed = []
            for spec in missing:
                probed.append(store.write(_probed(spec, task, device)))
                if time.monotonic() > deadline:
                    break
            return probed
        path = cache / "checkpoints" / f"{pack_id(specs)}.safetensors"
        before = checkpoint.members(path)
        members = [spec for spec in specs if spec.key in before]
        if not set(missing) <= set(members):
            members = missing
        devices.reset_peak_memory(device)
        try:
            loop = Loop(members, task, device, path, checkpoint_seconds)
            if not loop.run(deadline, bar):
                return []
        except RuntimeError as error:
            if not devices.out_of_memory(error):
                raise
            raise FptError(_too_large(members, error)) from error
        records = [
            store.write(_record(loop, i, task), _parameters(loop, i) if spec.key in keep else None)
            for i, spec in enumerate(members)
            if spec in missing
        ]
        path.unlink(missing_ok=True)
        return records


def _too_large(pack: Sequence[RunSpec], error: Exception) -> str:
    first = pack[0]
    fewer = f"--max-runs {len(pack) // 2}" if len(pack) > 1 else "a smaller batch"
    reason = str(error).splitlines()[0].rstrip(".")
    return (
        f"A pack of {len(pack)} runs ({first.task} on {first.backbone}, {first.batch} sequences a "
        f"step each) does not fit into the memory of the device; use {fewer} ({reason})."
    )


def _record(loop: Loop, index: int, task: Task) -> Record:
    """The record of run `index` of a finished loop."""
    spec, progress = loop.specs[index], loop.progress[index]
    tokens = progress.metrics["steps"] * spec.batch * task.length
    cost = {
        "seconds": progress.seconds,
        "process_seconds": progress.process_seconds,
        "tokens": tokens,
        "flops": tokens * flops_per_token(spec),
        "peak_bytes": devices.peak_memory(loop.device),
    }
    status: Status = "diverged" if progress.status == "diverged" else "done"
    return Record(
        spec=spec,
        status=status,
        metrics=progress.metrics,
        curve=progress.curve,
        cost=cost,
        environment=devices.environment(loop.device) | _digests(spec, task),
        pack=[member.key for member in loop.specs],
        notes=_notes(task),
    )


def _parameters(loop: Loop, index: int) -> bytes:
    """What run `index` of a finished loop has trained, as selected on validation: float32 tensors
    by the names of their parameters, in a safetensors file."""
    row, spec = loop.selected[index], loop.specs[index]
    columns = loop.rows.columns()
    trained = [it for it in loop.rows.slices if it.group in spec.trainable]
    return save({it.stored: row[columns[it.name]].view(it.shape).clone() for it in trained})


def _probed(spec: RunSpec, task: Task, device: torch.device) -> Record:
    """The record of a probe of the untrained model of `spec`."""
    found = probe(spec, task, device)
    cost = {
        "flops": found.cost["tokens"] * flops_per_token(spec),
        "peak_bytes": devices.peak_memory(device),
    }
    return Record(
        spec=spec,
        status="done",
        metrics=found.metrics,
        curve=found.curve,
        cost=found.cost | cost,
        environment=devices.environment(device) | _digests(spec, task),
        pack=[spec.key],
        notes=_notes(task),
    )


def _notes(task: Task) -> list[str]:
    note = data_note(task)
    return [note] if note else []


def _digests(spec: RunSpec, task: Task) -> dict[str, Any]:
    """What data and weights the run really saw."""
    seen = {"data_digest": task.digest()}
    if spec.weights is not None:
        seen["weights_digest"] = file_digest(find(backbone(spec.backbone), spec.weights))
    return seen
