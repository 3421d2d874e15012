"""Packs on a Ray cluster (optional extra `ray`): one task per pack, on CPUs or parts of a GPU.

A worker trains in a folder of its own and needs nothing of the driver's machine but, like it, this
package, the data and the weights. Its checkpoints travel to a keeper beside the driver. So a pack
whose worker or machine is lost goes on elsewhere from its last checkpoint, also after the driver
was lost. Records travel back when their pack ends.
"""

import logging
import os
import signal
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ..files import FptError, lock, write_atomic
from ..records import Store
from ..spec import RunSpec
from . import device as devices
from .keeper import Keeper
from .loop import CHECKPOINT_SECONDS
from .sweep import counted, missing, say_elsewhere
from .train import CACHE, checkpoints, pack_id, train

RETRIES = 5  # of a pack, after its worker was lost
POLL = 0.5  # seconds between two looks at a checkpoint
STARTS = 3  # of a cluster of our own: on a busy machine Ray's agents miss its limit of 15 seconds
PATIENCE = 10.0  # seconds until the address of a cluster answers
# Ray's processes talk HTTP/2, in which the client begins with this and the server with settings.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
NAMED = "name the address that 'ray start --head' printed."
KEEPER_DIED = (
    "The process that keeps the checkpoints here died, killed or out of memory; what is recorded "
    "stays, so run again."
)

Pack = tuple[RunSpec, ...]


@dataclass(frozen=True)
class Cluster:
    """Where packs run. `address` of a Ray cluster, None: one of our own on this machine, for
    `workers` packs side by side. `gpus`: the part of a GPU that a pack on CUDA takes."""

    address: str | None = None
    workers: int | None = None
    gpus: float = 1.0
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    cache: Path = field(default=CACHE)


class Courier:
    """While it is open, sends each new version of a checkpoint in `folder` to the keeper, and the
    last ones before it closes."""

    def __init__(self, folder: Path, keeper: Any) -> None:
        self.folder, self.keeper = folder, keeper
        self.seen: dict[str, int] = {}
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Courier":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.closing.set()
        self.thread.join()
        self._send()

    def _watch(self) -> None:
        while not self.closing.wait(POLL):
            with suppress(Exception):  # tried again; what lasts is said at the close
                self._send()

    def _send(self) -> None:
        import ray

        for path in self.folder.glob("*.safetensors"):
            try:
                changed, content = path.stat().st_mtime_ns, path.read_bytes()
            except FileNotFoundError:  # the pack has ended
                continue
            if changed != self.seen.get(path.name):
                ray.get(self.keeper.put.remote(path.name, content))
                self.seen[path.name] = changed


def train_there(
    pack: Pack,
    files: Mapping[str, bytes],
    device: str,
    keep: Container[str],
    theirs: Container[str],
    keeper: Any,
    checkpoint_seconds: float,
) -> dict[str, bytes]:
    """Train a pack on this worker until it ends or the keeper's time is over; the new files of its
    store, by name. `files`: what the driver's store has of the pack already. `theirs`: keys of runs
    that another sweep is training."""
    import ray

    left = ray.get(keeper.left.remote())
    if left <= 0:
        return {}
    deadline = time.monotonic() + left
    where = devices.choose(device)
    if where.type == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        store = Store(Path(folder) / "sweep" / "records")
        store.folder.mkdir(parents=True)
        for name, content in files.items():
            (store.folder / name).write_bytes(content)
        for name in checkpoints(pack):
            begun = ray.get(keeper.latest.remote(name))
            if begun is not None:
                write_atomic(cache / "checkpoints" / name, begun)
        with Courier(cache / "checkpoints", keeper):
            train(
                pack,
                store,
                device=where,
                deadline=deadline,
                keep=keep,
                theirs=theirs,
                checkpoint_seconds=checkpoint_seconds,
                cache=cache,
            )
        return {
            path.name: path.read_bytes()
            for path in store.folder.iterdir()
            if files.get(path.name) != path.read_bytes()
        }


def run_packs(
    todo: Sequence[Pack],
    store: Store,
    cluster: Cluster,
    *,
    keep: Container[str],
    device: str,
    budget: float,
) -> int:
    """Train the packs on the cluster; returns the number of new records.

    `device` is one of the machines that train; this one needs none. Runs that another sweep on this
    store is training are left out. An error of one pack is raised when the others have ended.
    """
    ray = start(cluster)
    errors: list[FptError] = []
    made = elsewhere = 0
    folder = cluster.cache / "checkpoints"
    try:
        with (
            ExitStack() as locks,
            tqdm(total=sum(map(len, todo)), desc="runs", disable=None) as bar,
        ):
            device = asked_for(ray, cluster, device)
            keeper = keeper_here(ray, folder, budget)
            need = {"num_gpus": cluster.gpus} if device == "cuda" else {"num_cpus": 1}
            remote = ray.remote(max_retries=RETRIES, **need)(train_there)
            running = {}

            def mine(name: str) -> bool:  # as `train` has it on one machine
                path = cluster.cache / "locks" / store.folder.parent.name / name
                return locks.enter_context(lock(path, wait=False))

            for pack in todo:
                if not mine(pack_id(pack)):
                    elsewhere += missing(pack, store, keep)
                    continue
                present = store.read_all((spec.key for spec in pack), keep)
                left = [spec.key for spec in pack if spec.key not in present]
                theirs = [key for key in left if not mine(key)]
                elsewhere += len(theirs)
                if len(theirs) < len(left):
                    args = (pack, files_of(store, pack), device, keep, theirs, keeper)
                    running[remote.remote(*args, cluster.checkpoint_seconds)] = pack
            try:
                while running:
                    for ref in ray.wait(list(running), num_returns=1, timeout=1.0)[0]:
                        pack = running.pop(ref)
                        try:
                            taken = take(store, ray.get(ref))
                        except ray.exceptions.RayTaskError as error:
                            if isinstance(error.cause, OSError):
                                said = f"A machine that trains cannot go on ({error.cause})."
                                errors.append(FptError(said))
                            elif isinstance(error.cause, FptError):
                                errors.append(error.cause)
                            elif isinstance(error.cause, ray.exceptions.RayActorError):
                                errors.append(FptError(KEEPER_DIED))
                            else:
                                raise
                            continue
                        except ray.exceptions.RayError as error:
                            errors.append(FptError(f"A pack was lost {RETRIES + 1} times: {error}"))
                            continue
                        except (FptError, OSError) as error:  # of a full disk, say
                            errors.append(FptError(f"What a pack gave is not kept: {error}"))
                            continue
                        made += taken
                        bar.update(len(pack))
                        if len(store.read_all((spec.key for spec in pack), keep)) == len(pack):
                            for name in checkpoints(pack):
                                (folder / name).unlink(missing_ok=True)
            except KeyboardInterrupt:
                for ref in running:
                    ray.cancel(ref, force=True)
                raise
    finally:
        ray.shutdown()
    say_elsewhere(elsewhere)
    return counted(made, errors)


def start(cluster: Cluster) -> Any:
    """Ray, connected. FptError where it is not installed, or there is no cluster at the address."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise FptError(
            "The executor 'ray' needs Ray, which is not installed: pip install 'fpt[ray]'."
        ) from error
    if cluster.address is not None:
        check_answers(cluster.address)
    ended = signal.getsignal(signal.SIGTERM)
    try:
        if cluster.address is None:
            start_here(ray, cluster.workers)
        else:
            ray.init(address=cluster.address, logging_level=logging.ERROR)
    except Exception as error:  # a plain one where Ray takes too long to start
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise FptError(
            f"Ray does not start on this machine ({reason}); run again when it has more free cores "
            "and memory, or without --executor ray."
            if cluster.address is None
            else f"There is no Ray cluster at {cluster.address!r} ({reason}); {NAMED}"
        ) from error
    finally:  # Ray takes SIGTERM for itself; here it ends as Ctrl-C does
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ended)
    return ray


def start_here(ray: Any, workers: int | None) -> None:
    """A cluster on this machine alone: "local", not the one that an earlier process may have left
    its address of. Raises what Ray did where it does not start, not for the first time either."""
    for again in reversed(range(STARTS)):
        try:
            ray.init(
                "local", num_cpus=workers, include_dashboard=False, logging_level=logging.ERROR
            )
        except Exception:
            ray.shutdown()
            if not again:
                raise
        else:
            return


def check_answers(address: str) -> None:
    """FptError where nothing listens at HOST:PORT, or something that does not answer as Ray does:
    Ray itself would try for minutes, and then end the process."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return  # such as "auto", of which Ray itself has a word to say
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as there:
            there.sendall(HELLO)
            answer = there.recv(4)
        if os.environ.get("RAY_USE_TLS", "0") == "0" and answer[3:] != b"\4":
            raise OSError("what listens there is no Ray")
    except (OSError, OverflowError, UnicodeError) as error:  # of a name too long for a host
        raise FptError(f"There is no Ray cluster at {address!r} ({error}); {NAMED}") from error


def asked_for(ray: Any, cluster: Cluster, device: str) -> str:
    """What a pack asks of the cluster: `auto` is CUDA where it has a GPU now, else the CPU."""
    if cluster.address is None:
        return devices.choose(device).type
    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "cuda" and not gpus:
        warnings.warn(
            f"The Ray cluster at {cluster.address!r} has no GPU yet; the packs wait for one.",
            stacklevel=2,
        )
    return ("cuda" if gpus else "cpu") if device == "auto" else device


def keeper_here(ray: Any, folder: Path, budget: float) -> Any:
    """The keeper, as an actor on this machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": here}
    return ray.remote(**options)(Keeper).remote(str(folder), budget)


def files_of(store: Store, pack: Pack) -> dict[str, bytes]:
    """What the store has of a pack's runs: records and kept parameters, by file name."""
    paths = [
        path for spec in pack for path in (store.path(spec.key), store.parameters_path(spec.key))
    ]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def take(store: Store, files: Mapping[str, bytes]) -> int:
    """Write what a worker sent into the store, checked; returns the number of new records."""
    if not files:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / Path(name).name).write_bytes(content)
        return store.merge(Path(folder))[0]
