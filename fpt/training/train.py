"""train(pack) -> records: the loop, with data and weights checked and the cost counted."""

import hashlib
import math
import time
import warnings
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
from ..records import Record, Store
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


def looked_at(spec: RunSpec) -> int:
    """Validation examples at a look."""
    whole = task_of(spec).sizes["valid"]
    return min(spec.eval_items or whole, whole)


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
    theirs: Container[str] = (),
    bar: tqdm | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    cache: Path = CACHE,
) -> list[Record]:
    """Train the runs `specs` as one pack and write their records; those that had ended where
    `deadline` came first.

    Runs that are recorded already, or that another process is training, are left out. A pack that
    was stopped goes on with the members it had, so that its packing is the same; what is recorded
    of them is not written again. A pack that the memory of the device does not hold is trained in
    halves, each from its first step, since a record is of one packing. `keep`: keys of runs whose
    parameters are kept with the record; one that is recorded without them is trained again.
    `theirs`: keys of runs to leave out, which a process on another machine is training.
    """
    with ExitStack() as locks:
        folder = cache / "locks" / store.folder.parent.name
        if not locks.enter_context(lock(folder / pack_id(specs), wait=False)):
            return []  # this very pack: two processes must not part its runs between them
        mine = []
        for spec in specs:
            path = folder / spec.key
            if not locks.enter_context(lock(path, wait=False)):
                continue
            if spec.key not in theirs and store.read(spec.key, spec.key in keep) is None:
                mine.append(spec)
        if not mine:
            return []
        if mine[0].procedure == "probe":
            probed = []
            for spec in mine:
                probed.append(probe_run(spec, store, device))
                if time.monotonic() > deadline:
                    break
            return probed

        def attempt(members: Sequence[RunSpec], path: Path) -> list[Record] | None:
            task = task_of(members[0])
            loop = Loop(members, task, device, path, checkpoint_seconds)
            if not loop.run(deadline, bar):
                return None
            return [
                store.write(
                    record(loop, i, task), parameters(loop, i) if spec.key in keep else None
                )
                for i, spec in enumerate(members)
                if spec in mine
            ]

        records: list[Record] = []
        parts = [tuple(specs)]
        outgrown: list[Path] = []  # checkpoints of wholes: they serve until a half has got anywhere
        while parts:
            part = parts.pop(0)
            left = [spec for spec in part if spec in mine]
            own, *of_halves = (cache / "checkpoints" / name for name in checkpoints(part))
            if any(path.exists() for path in of_halves):
                own.unlink(missing_ok=True)
                parts = [*halved(part), *parts]
            elif left:
                devices.reset_peak_memory(device)
                try:
                    made = attempt(together(left, part, own), own)
                except RuntimeError as error:
                    if not devices.out_of_memory(error):
                        raise
                    if len(part) == 1:
                        raise FptError(too_large(part[0], device, error)) from error
                    warnings.warn(too_many(part), stacklevel=2)
                    parts = [*halved(part), *parts]
                    outgrown.append(own)
                else:
                    for path in outgrown:
                        path.unlink(missing_ok=True)
                    if made is None:
                        break
                    records += made
                    own.unlink(missing_ok=True)
                devices.release_memory(device)  # here: the error holds on to the pack's tensors
        return records


def together(mine: Sequence[RunSpec], pack: Sequence[RunSpec], path: Path) -> Sequence[RunSpec]:
    """What to train in one pack for `mine`: the members of the pack's checkpoint in `path`, where
    it has all of them."""
    before = checkpoint.members(path)
    members = [spec for spec in pack if spec.key in before]
    return members if set(mine) <= set(members) else mine


def halved(pack: tuple[RunSpec, ...]) -> tuple[tuple[RunSpec, ...], tuple[RunSpec, ...]]:
    middle = (len(pack) + 1) // 2
    return pack[:middle], pack[middle:]


def checkpoints(pack: tuple[RunSpec, ...]) -> list[str]:
    """Names of the files that may hold checkpoints of a pack: its own and, where the device cannot
    hold it, those of its halves, and of theirs."""
    halves = halved(pack) if len(pack) > 1 else ()
    return [
        f"{pack_id(pack)}.safetensors",
        *(name for half in halves for name in checkpoints(half)),
    ]


def too_many(pack: Sequence[RunSpec]) -> str:
    return (
        f"A pack of {len(pack)} runs ({pack[0].task} on {pack[0].backbone}) does not fit into the "
        "memory of the device; its halves are trained one after the other."
    )


def too_large(spec: RunSpec, device: torch.device, error: Exception) -> str:
    instead = "a smaller batch" if device.type == "cpu" else "--device cpu"
    reason = str(error).splitlines()[0].rstrip(".")
    return (
        f"Run {spec.key} ({spec.task} on {spec.backbone}, {spec.batch} sequences a step) does not "
        f"fit into the memory of the device; use a larger one, or {instead} ({reason})."
    )


def record(loop: Loop, index: int, task: Task) -> Record:
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


def parameters(loop: Loop, index: int) -> bytes | None:
    """What run `index` of a finished loop has trained, as chosen on validation: float32 tensors by
    the names of their slots, in a safetensors file. None where it had left its pack before the
    checkpoint of an earlier version, without such rows, from which the pack went on."""
    row, spec = loop.chosen.get(index), loop.specs[index]
    if row is None:
        return None
    columns = loop.rows.columns()
    trained = [slot for slot in loop.rows.slots if slot.group in spec.trainable]
    return save({s.name: row[columns[s.name]].view(s.shape).clone() for s in trained})


def probe_run(spec: RunSpec, store: Store, device: torch.device) -> Record:
    """Probe the untrained model of `spec` and write the record."""
    task = task_of(spec)
    found = probe(spec, task, device)
    cost = {
        "flops": found.cost["tokens"] * flops_per_token(spec),
        "peak_bytes": devices.peak_memory(device),
    }
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
