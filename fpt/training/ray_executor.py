"""Packs on a Ray cluster (optional extra `ray`): one task per pack, on CPUs or parts of a GPU.

A worker needs this package, the data and the weights, and nothing else of the driver's machine. A
pack whose worker is lost is tried again by Ray; on a machine with its last checkpoint it goes on
from there. Records travel back when their pack ends.
"""

import os
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import CACHE, FptError, lock
from ..records import Store
from . import device as devices
from .train import Outcome, Pack, pack_id, train_pack

RETRIES = 5  # of a pack, after its worker was lost


@dataclass(frozen=True)
class Cluster:
    """Where packs run. `address` of a Ray cluster, None: one of our own on this machine, for
    `workers` packs side by side. `gpus`: the part of a GPU that a pack on CUDA takes."""

    address: str | None = None
    workers: int | None = None
    gpus: float = 1.0


def outcomes_on_cluster(
    todo: Sequence[Pack],
    store: Store,
    keep: Container[str],
    device: str,
    budget: float,
    cluster: Cluster,
) -> Iterator[tuple[Pack, Outcome]]:
    """The packs as they end on the cluster, their records written to `store`.

    `device` is one of the machines that train; this one needs none. Packs that another sweep on
    this store is training are left out.
    """
    ray = start(cluster)
    deadline = time.time() + budget  # the machines of a cluster share no other clock
    try:
        with ExitStack() as locks:
            if device == "auto":
                device = "cuda" if ray.cluster_resources().get("GPU", 0) else "cpu"
            need = {"num_gpus": cluster.gpus} if device == "cuda" else {"num_cpus": 1}
            remote = ray.remote(max_retries=RETRIES, **need)(train_remotely)
            running = {}
            for pack in todo:
                name = CACHE / "locks" / store.folder.parent.name / f"{pack_id(pack)}.ray"
                if locks.enter_context(lock(name, wait=False)):
                    task = remote.remote(pack, files_of(store, pack), keep, device, deadline)
                    running[task] = pack
                else:
                    yield pack, Outcome(0, len(pack))
            while running:
                (done, *_), _ = ray.wait(list(running), num_returns=1)
                pack = running.pop(done)
                try:
                    files, outcome = ray.get(done)
                    yield pack, outcome._replace(made=take(store, files))
                except ray.exceptions.RayError as error:
                    yield (
                        pack,
                        Outcome(0, error=FptError(f"A pack was lost on the cluster: {error}")),
                    )
    finally:
        ray.shutdown()


def train_remotely(
    pack: Pack, files: Mapping[str, bytes], keep: Container[str], device: str, deadline: float
) -> tuple[dict[str, bytes], Outcome]:
    """Train a pack on this worker; the new files of its store, by name, and how it ended.
    `files`: what the driver's store has of the pack already."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "sweep" / "records")
        write_files(store.folder, files)
        end = time.monotonic() + deadline - time.time()
        outcome = train_pack(pack, store, keep, devices.choose(device).type, end)
        made = files_of(store, pack)
        return {name: made[name] for name in made if made[name] != files.get(name)}, outcome


def start(cluster: Cluster) -> Any:
    """Ray, connected. FptError if it is not installed, or there is no cluster at the address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise FptError(
            "The executor 'ray' needs Ray, which is not installed: pip install 'fpt[ray]'."
        ) from error
    try:
        if cluster.address is None:
            ray.init("local", num_cpus=cluster.workers, include_dashboard=False)
        else:
            ray.init(cluster.address)
    except Exception as error:  # a plain one if Ray takes too long to start
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        where = "on this machine" if cluster.address is None else f"at {cluster.address!r}"
        raise FptError(f"Ray does not start {where} ({reason}).") from error
    return ray


def files_of(store: Store, pack: Pack) -> dict[str, bytes]:
    """What the store has of a pack's runs: records and kept parameters, by file name."""
    paths = [
        path for spec in pack for path in (store.path(spec.key), store.parameters_path(spec.key))
    ]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def take(store: Store, files: Mapping[str, bytes]) -> int:
    """Merge what a worker sent into the store; returns the number of new records."""
    if not files:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        return store.merge(Path(folder))[0]
