"""What a machine runs out of: disk, and memory of its device."""

import errno
import os
from dataclasses import replace

import pytest
import torch
from refusals import refuses
from tiny import pretrained, swept

from fpt import files
from fpt.errors import FptError
from fpt.files import write_json
from fpt.training.device import NO_MEMORY
from fpt.training.loop import Loop

pytestmark = pytest.mark.usefixtures("tiny")


# Where a write can fail: the name in `fpt.files.os`, and why.
FAULTS = {"fsync": errno.ENOSPC, "replace": errno.EDQUOT}


@pytest.mark.parametrize("call", FAULTS)
def test_a_write_that_fails_is_one_sentence_and_changes_nothing(call, tmp_path, monkeypatch):
    """What a sweep makes of a full disk is in test_faults.py."""
    path, reason = tmp_path / "folder" / "file.json", os.strerror(FAULTS[call])
    write_json(path, 1)

    def fail(*arguments):
        raise OSError(FAULTS[call], reason)

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(FptError, match=rf"^Cannot write {path}: {reason}; nothing was changed"):
        write_json(path, 2)
    assert {file.name: file.read_text() for file in path.parent.iterdir()} == {"file.json": "1\n"}


EIGHT = [pretrained(seed=seed, lr=lr) for seed in range(4) for lr in (0.01, 0.02)]
ON_GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
ON_CPU = [RuntimeError(f"[alloc_cpu.cpp:127] {reason}") for reason in NO_MEMORY]


def fail_above(monkeypatch, most, error):
    """Let a step of more than `most` runs end in `error`."""
    real = Loop.train_step

    def step(self):
        if len(self.alive) > most:
            raise type(error)(*error.args)  # anew: a traceback holds on to the loop
        real(self)

    monkeypatch.setattr(Loop, "train_step", step)


# Torch has another error for each kind of device.
@pytest.mark.parametrize("error", [ON_GPU, *ON_CPU])
def test_a_pack_that_fits_no_device_is_one_sentence(store, monkeypatch, error):
    """It says how many runs to try instead; with so many, all are trained."""
    fail_above(monkeypatch, 4, error)
    with pytest.raises(
        FptError, match=r"^A pack of 8 runs .*8 sequences.* use --max-runs 4, or a smaller batch \("
    ):
        swept(EIGHT, store)
    assert store.keys() == set()
    assert swept(EIGHT, store, max_runs=4) == len(EIGHT)


@pytest.mark.parametrize("exponent", [40, 62], ids=["too much", "more than can be counted"])
def test_a_cpu_without_memory_is_one_sentence(store, exponent):
    refuses(
        lambda: swept([replace(EIGHT[0], batch=1 << exponent)], store),
        "A pack of 1 runs",
        "memory of the device",
        "a smaller batch",
    )
    assert store.keys() == set()


def test_any_other_error_of_torch_is_not_taken_for_it(store, monkeypatch):
    fail_above(monkeypatch, 4, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        swept(EIGHT, store)
