"""What a machine runs out of: disk, and memory of its device. And clocks that jump."""

import errno
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import check_said, refusal
from test_records import made as recorded
from tiny import pretrained, spec

from fpt import files
from fpt.files import PACKAGE, FptError
from fpt.records import Record, Store
from fpt.spec import RunSpec
from fpt.tasks import datasets as data
from fpt.training import checkpoint, device, sweep
from fpt.training.device import NO_MEMORY
from fpt.training.loop import Loop
from fpt.training.train import train

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "cache", tmp_path / "cache")
    return Store(tmp_path / "reports" / "smoke" / "records")


def trained(specs: list[RunSpec], store: Store, **options: Any) -> int:
    return sweep.run(specs, store, device="cpu", workers=1, **options)


def measured(specs: list[RunSpec], store: Store) -> dict[str, object]:
    found = store.read_all(run.key for run in specs)
    assert len(found) == len(specs)
    return {key: record.measured() for key, record in found.items()}


def undisturbed(specs: list[RunSpec], folder: Path) -> dict[str, object]:
    store = Store(folder / "undisturbed" / "records")
    trained(specs, store)
    return measured(specs, store)


# -------------------------------------------------------------------------------------------- disk


class HalfWritten:
    """A file on a disk with room for half of what is written."""

    def __init__(self, path: Path, mode: str) -> None:
        self.file = open(path, mode)  # noqa: SIM115

    def __enter__(self) -> "HalfWritten":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fails(number: int) -> Callable[..., Any]:
    def call(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


# Where a write can fail: the name in `fpt.files`, and what it does instead.
FAULTS: dict[str, tuple[str, Any, int]] = {
    "full": ("open", HalfWritten, errno.ENOSPC),
    "full when flushed": ("os.fsync", fails(errno.ENOSPC), errno.ENOSPC),
    "over quota": ("os.replace", fails(errno.EDQUOT), errno.EDQUOT),
    "read-only": ("open", fails(errno.EROFS), errno.EROFS),
}


def strike(monkeypatch: pytest.MonkeyPatch, how: str) -> str:
    """Let the disk fail; what is said of it."""
    name, instead, number = FAULTS[how]
    where, _, name = f"fpt.files.{name}".rpartition(".")
    monkeypatch.setattr(f"{where}.{name}", instead, raising=False)
    return re.escape(os.strerror(number))


def made(run: RunSpec, accuracy: float) -> Record:
    return replace(recorded(accuracy=accuracy), spec=run, pack=[run.key])


def write_record(folder: Path, value: int) -> None:
    Store(folder).write(made(spec(), value / 100))


def write_parameters(folder: Path, value: int) -> None:
    Store(folder).write(made(spec(), 0.5), bytes([value]) * 100)


def write_checkpoint(folder: Path, value: int) -> None:
    checkpoint.write(folder / "c.safetensors", {"a": torch.full((9,), value)}, {"keys": []})


def write_array(folder: Path, value: int) -> None:
    arrays = {"a": torch.full((9,), value).numpy()}
    dataset = data.Dataset(f"numbers-{value}", {}, lambda: arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "PREPARED", folder)
        data.load(dataset)


def contents(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, but for locks."""
    files = (path for path in folder.iterdir() if path.suffix != ".lock")
    return {path.name: path.read_bytes() for path in files}


WRITES = [write_record, write_parameters, write_checkpoint, write_array]


@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_is_one_sentence_and_changes_nothing(
    write: Callable[[Path, int], None], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "there"
    write(folder, 1)
    before = contents(folder)
    with monkeypatch.context() as broken:
        said = strike(broken, how)
        with pytest.raises(FptError, match=rf"^Cannot write {folder}/\S+: {said}; nothing was ch"):
            write(folder, 7)
    assert contents(folder) == before
    write(folder, 7)
    assert contents(folder) != before


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_sweep_goes_on_when_there_is_space_again(
    how: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The locks are there already, as on a disk that fills up on the way."""
    specs = [pretrained(), pretrained(seed=1), spec()]
    expected = undisturbed(specs, tmp_path)
    assert trained(specs, store, budget=0.0) == 0
    assert trained(specs[2:], store) == 1
    with monkeypatch.context() as broken:
        said = strike(broken, how)
        with pytest.raises(FptError, match=rf"Cannot write .*: {said}"):
            trained(specs, store)
        assert measured(specs[2:], store) == {specs[2].key: expected[specs[2].key]}
        assert trained(specs[2:], store) == 0  # reading needs no space
    assert trained(specs, store) == 2
    assert measured(specs, store) == expected


def test_a_damaged_record_on_a_read_only_disk_is_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(made(spec(), 0.5))
    path = store.path(spec().key)
    path.write_bytes(b"{")
    monkeypatch.setattr(files.os, "replace", fails(errno.EROFS))
    with pytest.raises(FptError, match=rf"^{path} is damaged and cannot be moved: Read-only"):
        store.read(spec().key)
    assert path.read_bytes() == b"{"


# ------------------------------------------------------------------------------------------ memory

EIGHT = [pretrained(seed=seed, lr=lr) for seed in range(4) for lr in (0.01, 0.02)]
TOO_MANY = r"A pack of \d runs .*does not fit into the memory of the device; its halves"


CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def device_holds(
    monkeypatch: pytest.MonkeyPatch, most: int, until: int = 0, error: RuntimeError = CUDA
) -> list[int]:
    """A device without memory for a step of more than `most` runs, from step `until` on; the runs
    of every step that it does."""
    steps: list[int] = []
    real = Loop.train_step

    def step(self: Loop) -> None:
        if len(self.alive) > most and self.step >= until:
            raise type(error)(*error.args)  # anew: a traceback holds on to the loop
        steps.append(len(self.alive))
        real(self)

    monkeypatch.setattr(Loop, "train_step", step)
    return steps


@pytest.mark.parametrize("reason", ["", *NO_MEMORY])
def test_a_pack_that_fits_no_device_is_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """It says how many runs to try instead; with so many, all are trained."""
    error = RuntimeError(f"[alloc_cpu.cpp:127] {reason}") if reason else CUDA
    device_holds(monkeypatch, 4, error=error)
    with pytest.raises(FptError, match=r"^A pack of 8 runs .*8 sequences.* use --max-runs 4 \("):
        trained(EIGHT, store)
    assert store.keys() == set()
    assert trained(EIGHT, store, max_runs=4) == len(EIGHT)


@pytest.mark.parametrize("exponent", [40, 62], ids=["too much", "more than can be counted"])
def test_a_cpu_without_memory_is_one_sentence(store: Store, exponent: int) -> None:
    huge = replace(EIGHT[0], batch=1 << exponent)
    said = refusal(lambda: trained([huge], store))
    check_said(said, ["A pack of 1 runs", "memory of the device", "a smaller batch"])
    assert store.keys() == set()


def test_any_other_error_of_torch_is_not_taken_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    device_holds(monkeypatch, 4, error=RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        trained(EIGHT, store)


# ------------------------------------------------------------------------------------------ clocks


def test_a_clock_that_is_set_back_changes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [replace(run, steps=6) for run in EIGHT[:2]]
    expected = undisturbed(specs, tmp_path)
    now = [time.time()]

    def back() -> float:
        now[0] -= 3600
        return now[0]

    monkeypatch.setattr(time, "time", back)
    monkeypatch.setattr(time, "time_ns", lambda: int(back() * 1e9))
    began = time.monotonic()
    assert trained(specs, store, budget=3600.0) == 2
    elapsed = time.monotonic() - began
    found = store.read_all(run.key for run in specs)
    assert measured(specs, store) == expected
    assert 0 < sum(record.cost["seconds"] for record in found.values()) <= elapsed


def test_no_duration_is_taken_from_a_clock_that_can_be_set() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.stem == "ray_executor":
            continue  # the machines of a cluster share no other clock
        assert not re.search(r"time\.time|datetime\.(now|today|utc)", path.read_text()), path


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux measures it anew")
def test_a_peak_of_memory_is_of_one_pack() -> None:
    cpu = torch.device("cpu")
    before = device.peak_memory(cpu)
    large = torch.ones(2**26)
    with_it = device.peak_memory(cpu)
    assert with_it > before
    del large
    device.reset_peak_memory(cpu)
    assert device.peak_memory(cpu) < with_it - 2**27
