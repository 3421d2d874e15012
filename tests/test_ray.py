"""Packs on Ray: the records of one process, whatever is lost on the way."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import until
from refusals import check_said, refusal
from tiny import spec

from fpt.files import FptError, lock
from fpt.records import Store
from fpt.spec import RunSpec
from fpt.training import checkpoint, sweep
from fpt.training.keeper import Keeper
from fpt.training.ray_executor import STARTS, Cluster, Courier, keeper_here, take, train_there
from fpt.training.train import pack_id, train

pytest.importorskip("ray")
# Of a start of Ray that came too late and was repeated: it leaves processes, which end with this.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# A body that every worker knows and has at once, without transformers.
BODY = "attention-pico"
TESTS = Path(__file__).parent
SHORT = [spec(backbone=BODY, seed=seed, lr=lr) for seed in range(4) for lr in (0.01, 0.02)]
# Long enough to be killed on the way.
PATIENCE = 120  # seconds, so that a test that fails ends
LONG = [spec(backbone=BODY, steps=2400, eval_every=60, lr=lr) for lr in (0.01, 0.02)]

DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_ray
from fpt import sweep
from fpt.records import Store

folder = Path({folder!r})
place = test_ray.cluster(folder, {address!r})
sweep.run(test_ray.LONG, Store(folder / "ray" / "records"), device="cpu", cluster=place)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tmp_path / "alone")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    return tmp_path


def in_one_process(specs: list[RunSpec], folder: Path) -> dict[str, object]:
    store = Store(folder / "alone" / "records")
    sweep.run(specs, store, device="cpu", workers=1)
    return measured(specs, store)


def measured(specs: list[RunSpec], store: Store) -> dict[str, object]:
    found = store.read_all(run.key for run in specs)
    assert len(found) == len(specs)
    return {key: record.measured() for key, record in found.items()}


def cluster(folder: Path, address: str | None = None) -> Cluster:
    return Cluster(address, 4, checkpoint_seconds=0.0, cache=folder / "cache")


@pytest.fixture(scope="module")
def two_machines() -> Iterator[str]:
    """The address of a Ray cluster of two nodes, each with processes of its own."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster as Machines

    head = {"num_cpus": 1, "include_dashboard": False, "no_monitor": True}
    for left in reversed(range(STARTS)):  # as `fpt.training.ray_executor.start_here`
        try:
            machines = Machines(initialize_head=True, head_node_args=head)
            machines.add_node(num_cpus=1)
            break
        except Exception:
            if not left:
                raise
    try:
        yield machines.address
    finally:
        machines.shutdown()


def when(there: Callable[[], bool], then: Callable[[], None]) -> threading.Thread:
    """Does `then` once `there` holds, beside the test; gives up where that does not come."""
    end = time.monotonic() + PATIENCE

    def wait() -> None:
        while not there():
            if time.monotonic() > end:
                return
            time.sleep(0.02)
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def workers() -> list[int]:
    """Process ids of Ray's workers that train a pack now."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::train_there"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_four_workers_give_the_records_of_one_process(folder: Path) -> None:
    store, ended = Store(folder / "ray" / "records"), signal.getsignal(signal.SIGTERM)
    assert sweep.run(SHORT, store, device="cpu", cluster=cluster(folder)) == len(SHORT)
    assert signal.getsignal(signal.SIGTERM) is ended  # not Ray's
    assert measured(SHORT, store) == in_one_process(SHORT, folder)
    assert sweep.run(SHORT, store, device="cpu", cluster=cluster(folder)) == 0


def test_what_was_stopped_or_killed_goes_on_from_its_checkpoint(
    folder: Path, two_machines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by its budget, then by Ctrl-C, which leaves no worker on the cluster, then with its
    driver killed, which leaves none either, then with its worker killed: the record has the seconds
    of all."""

    class Brief(Keeper):
        def left(self) -> float:
            return 0.001

    store, place = Store(folder / "ray" / "records"), cluster(folder, two_machines)
    with monkeypatch.context() as brief:
        brief.setattr("fpt.training.ray_executor.Keeper", Brief)
        assert sweep.run(LONG, store, device="cpu", cluster=place) == 0
    (begun,) = (folder / "cache" / "checkpoints").iterdir()
    tensors, history = checkpoint.read(begun) or pytest.fail("no checkpoint")
    for progress in history["progress"]:
        progress["seconds"] += 1000.0
    checkpoint.write(begun, tensors, history)
    before = begun.read_bytes()
    # What starts this in the background may have Ctrl-C ignored.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = when(
        lambda: begun.read_bytes() != before, partial(os.kill, os.getpid(), signal.SIGINT)
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            sweep.run(LONG, store, device="cpu", cluster=place)
    finally:
        signal.signal(signal.SIGINT, previous)
    thread.join()
    until(lambda: not workers())
    before = begun.read_bytes()
    script = folder / "driver.py"
    script.write_text(DRIVER.format(tests=str(TESTS), folder=str(folder), address=two_machines))
    env = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    driver = subprocess.Popen([sys.executable, str(script)], env=env)
    until(lambda: begun.read_bytes() != before or driver.poll() is not None)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    until(lambda: not workers())
    assert not store.keys()
    before = begun.read_bytes()
    killed: list[int] = []

    def kill() -> None:
        killed.extend(workers())
        for process in killed:
            os.kill(process, signal.SIGKILL)

    thread = when(lambda: bool(workers()) and begun.read_bytes() != before, kill)
    assert sweep.run(LONG, store, device="cpu", cluster=place) == len(LONG)
    thread.join()
    assert killed
    assert measured(LONG, store) == in_one_process(LONG, folder)
    assert all(store.read(run.key).cost["seconds"] > 1000.0 for run in LONG)
    assert not begun.exists()


def test_what_cannot_be_trained_does_not_stop_the_others(
    folder: Path, two_machines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack without its weights, one whose records find no space, one that another sweep trains,
    and one of which another sweep trains a run. By a driver that would refuse any device of its
    own: the device is one of the cluster."""
    monkeypatch.setattr(
        "fpt.training.device.choose", lambda name: pytest.fail("chosen by the driver")
    )
    store, place = Store(folder / "ray" / "records"), cluster(folder, two_machines)
    locks = place.cache / "locks" / store.folder.parent.name
    lost = spec(backbone="pico", init="pretrained", weights="pico-nowhere-0")
    mine, theirs, shared, large = sweep.packs(SHORT)
    real = take

    def no_space(store: Store, files: Mapping[str, bytes]) -> int:
        if any(run.key in name for name in files for run in large):
            raise FptError("No space left.")
        return real(store, files)

    monkeypatch.setattr("fpt.training.ray_executor.take", no_space)
    with (
        lock(locks / pack_id(theirs), wait=False),
        lock(locks / shared[0].key, wait=False),
        pytest.warns(UserWarning, match="training 3 of the runs that are missing"),
        pytest.raises(FptError, match=r"(pico-nowhere-0|No space left).*2 packs failed"),
    ):
        sweep.run([lost, *SHORT], store, device="auto", cluster=place)
    assert store.keys() == {run.key for run in (*mine, *shared[1:])}


def test_without_its_keeper_one_sentence(
    folder: Path, two_machines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def killed(*given: Any) -> Any:
        keeper = keeper_here(*given)
        ray.kill(keeper)
        return keeper

    monkeypatch.setattr("fpt.training.ray_executor.keeper_here", killed)
    store, place = Store(folder / "ray" / "records"), cluster(folder, two_machines)
    said = refusal(lambda: sweep.run(SHORT[:2], store, device="cpu", cluster=place))
    check_said(said, ["keeps the checkpoints", "died", "run again"])


def test_a_pack_that_comes_after_the_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.get", lambda value: value)
    monkeypatch.setattr(
        "fpt.training.ray_executor.train", lambda *given, **options: pytest.fail("begun")
    )
    late = SimpleNamespace(
        left=SimpleNamespace(remote=lambda: -1.0), latest=SimpleNamespace(remote=lambda name: None)
    )
    assert train_there(tuple(LONG), {}, "cpu", (), (), late, 0.0) == {}


def test_a_courier_goes_on_after_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def get(name: str) -> None:
        sent.append(name)
        if len(sent) == 1:
            raise FptError("No space left.")

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr("fpt.training.ray_executor.POLL", 0.001)
    keeper = SimpleNamespace(put=SimpleNamespace(remote=lambda name, content: name))
    (folder / "pack.safetensors").write_bytes(b"begun")
    with Courier(folder, keeper):
        until(lambda: len(sent) == 2, 10.0)
    assert sent == ["pack.safetensors"] * 2


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999", 70 * "a" + ":1"]
)
def test_where_no_cluster_answers_one_sentence(folder: Path, address: str) -> None:
    store = Store(folder / "ray" / "records")
    with pytest.raises(FptError, match=f"There is no Ray cluster at '{address}'"):
        sweep.run(SHORT, store, device="cuda", cluster=cluster(folder, address))


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad request\r\n\r\n", b"", None])
def test_where_something_else_answers_one_sentence(
    folder: Path, address: str, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the web, what hangs up at once, or (None) what listens and says nothing."""
    monkeypatch.setattr("fpt.training.ray_executor.PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            caller, _ = server.accept()
            caller.sendall(answer or b"")
            caller.close()

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        place = cluster(folder, address.format(server.getsockname()[1]))
        said = refusal(lambda: sweep.run(SHORT, Store(folder / "r"), device="cpu", cluster=place))
    check_said(said, [f"There is no Ray cluster at {place.address!r} (", "'ray start --head'"])


def test_a_ray_that_does_not_start_is_tried_again_and_then_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[object] = []

    def late(*given: object, **options: object) -> None:
        tries.append(given)
        raise Exception("The current node timed out during startup. Why?")  # as Ray does

    monkeypatch.setattr("ray.init", late)
    place = cluster(folder)
    said = refusal(lambda: sweep.run(SHORT, Store(folder / "r"), device="cpu", cluster=place))
    check_said(said, ["Ray does not start on this machine (The current node timed out"])
    assert len(tries) == STARTS


def test_without_ray_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    store = Store(folder / "ray" / "records")
    with pytest.raises(FptError, match=r"pip install 'fpt\[ray\]'"):
        sweep.run(SHORT, store, device="cpu", cluster=cluster(folder))
