"""Packs on a Ray cluster (optional extra `ray`): a pack is a task, on a CPU or a part of a
GPU.

A worker needs this package, the data and the weights, and nothing else of the driver's
machine. Ray retries a pack whose worker is lost; on a machine with its last checkpoint it
goes on from there. Records travel back when their pack ends.
"""

import os
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import FptError
from ..project import project
from ..records import Record, Store
from .train import Job, Pack, pack_id, train_pack

RETRIES_AFTER_LOST_WORKER = 5


Contents = list[tuple[Record, bytes | None]]  # records with their kept parameters


def train_on_cluster(
    todo: Sequence[Pack], job: Job, address: str, workers: int | None, gpus: float
) -> Generator[tuple[Pack, int | FptError], None, None]:
    """Yield packs as they end on the cluster, with the number of records written to the
    job's store, or the error that stopped a pack.

    `address` is that of a Ray cluster, or "local" for one of our own on this machine, for
    `workers` packs side by side. `gpus` is the part of a GPU that a pack on CUDA takes. The
    job's device is one of the machines that train; this one needs none. Leaves out packs
    that another sweep on this store is training.
    """
    ray = start(address, workers)
    # The clock that machines share.
    deadline = time.time() + job.deadline - time.monotonic()
    try:
        with ExitStack() as locks:
            device = job.device
            if device == "auto":
                device = "cuda" if ray.cluster_resources().get("GPU", 0) else "cpu"
            need = {"num_gpus": gpus} if device == "cuda" else {"num_cpus": 1}
            remote = ray.remote(max_retries=RETRIES_AFTER_LOST_WORKER, **need)(
                train_remotely
            )
            remote_job = replace(job, device=device)
            running = {}
            for pack in todo:
                # The workers' locks are on their own disks; this one keeps another sweep
                # away.
                if locks.enter_context(job.lock(f"{pack_id(pack)}.ray")):
                    recorded = job.recorded(pack)
                    missing = tuple(spec for spec in pack if spec.key not in recorded)
                    running[remote.remote(missing, remote_job, deadline)] = pack
            while running:
                (ended, *_), _ = ray.wait(list(running), num_returns=1)
                pack = running.pop(ended)
                try:
                    new, error = ray.get(ended)
                except ray.exceptions.RayError as lost:
                    yield pack, FptError(f"A pack was lost on the cluster: {lost}")
                    continue
                for record, parameters in new:
                    job.store.write(record, parameters)
                yield pack, error or len(new)
    finally:
        ray.shutdown()


def train_remotely(
    pack: Pack, job: Job, deadline: float
) -> tuple[Contents, FptError | None]:
    """Train a pack on this worker; the new records and the error that stopped it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / job.store.folder.name)
        # Checkpoints stay on the worker's own disk, so that a retry there goes on from
        # them.
        end = time.monotonic() + deadline - time.time()
        own = project()
        job = replace(job, store=store, deadline=end, project=own, cache=own.cache)
        result = train_pack(pack, job)
        records = job.recorded(pack).values()
        new = [(record, store.parameters(record)) for record in records]
        return new, result if isinstance(result, FptError) else None


def start(address: str, workers: int | None) -> Any:
    """Ray, connected. FptError if it is not installed, or there is no cluster at the
    address."""
    # Else Ray would send usage statistics to its developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray

        ray.init(address, num_cpus=workers, include_dashboard=False)
    except ImportError as error:
        raise FptError(
            "The option --ray needs Ray, which is not installed: pip install 'fpt[ray]'."
        ) from error
    except Exception as error:  # a plain one if Ray takes too long to start
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise FptError(f"Ray does not start at {address!r} ({reason}).") from error
    return ray
