"""The device and precision of a training, and how a record describes them."""

import ctypes
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..backbones.base import matrices
from ..errors import FptError, check_names
from ..records import Record

AUTO = "auto"  # fp32 on a CPU, bf16 on CUDA
PRECISIONS = (AUTO, "fp32", "bf16")


def choose(name: str = "auto") -> torch.device:
    """The device of this name; `auto` is CUDA if there is a GPU, else the CPU."""
    if re.fullmatch("cuda:[0-9]+", str(name)):
        raise FptError(
            "Of several GPUs, choose one in the environment: "
            f"CUDA_VISIBLE_DEVICES={str(name)[5:]} and device cuda."
        )
    check_names("device", [name], ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise FptError(
            "The device 'cuda' was asked for, but torch sees no GPU; use auto or cpu."
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def in_bf16(kind: str, precision: str = AUTO) -> bool:
    """Whether a training on a device of this kind (`cpu`, `cuda`) is in bf16 autocast over
    fp32 trained parameters, else in fp32. FptError if there is no such precision."""
    check_names("precision", [precision], PRECISIONS)
    # bf16 has the range of fp32, so that losses need no scaling.
    return precision == "bf16" or (precision == AUTO and kind == "cuda")


def arithmetic(kind: str, precision: str = AUTO) -> str:
    """What a record calls the precision of a training on a device of this kind."""
    return "bf16 autocast" if in_bf16(kind, precision) else "fp32"


def check_one_arithmetic(recorded: Iterable[Record], precision: str) -> None:
    """FptError if a run that is recorded would now be trained in another arithmetic on the
    kind of device that it was trained on: rounding is no treatment, so runs to compare
    share it."""
    for record in recorded:
        before = record.environment.get("precision")
        now = arithmetic(record.environment.get("kind", "cpu"), precision)
        if before not in (None, now):
            raise FptError(
                f"Run {record.key} is recorded in {before}, and the precision "
                f"{precision!r} would train it in {now}: the runs of an experiment share "
                "one. Choose the precision of its records, or move these away to train "
                "all of it again."
            )


def precision_like(environment: Mapping[str, Any], device: torch.device) -> str:
    """The precision in which to repeat, on `device`, a run recorded in this environment:
    its own if it ran on this kind of device, else the default here."""
    # On another kind of device its numbers cannot be reproduced, only ones as good.
    if environment.get("kind") != device.type:
        return AUTO
    return (
        "bf16"
        if environment.get("precision") == arithmetic(device.type, "bf16")
        else "fp32"
    )


def autocast(device: torch.device, precision: str = AUTO) -> torch.autocast:
    """The context of a forward pass in this precision (`in_bf16`)."""
    enabled = in_bf16(device.type, precision)
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


def round_frozen(module: nn.Module) -> None:
    """Store the frozen matrices and their biases in bfloat16. Autocast caches its casts of
    trained parameters only, so it would round frozen ones again at every use; the numbers
    are the same."""
    for path, _, _ in matrices(module):
        for parameter in module.get_submodule(path.removesuffix(".weight")).parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()


@cache
def keep_memory() -> None:
    """Ask glibc, if it is the C library, to keep freed memory for the next tensors.

    By default it hands blocks as large as a pack's activations (1 MB) back to the kernel
    when a step ends, and the next step pays for every page again. The setting is the whole
    process's: the pipeline, whose process it is, makes it; an estimator, a guest in another
    program, does not.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold = -1  # both as in malloc.h
        mmap_threshold = -3
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_threshold, 2**25)  # the largest that it takes


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """`count` threads compute in the block; None: as many as before it. Sums are split
    among them, so their number changes the last bits of a run."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def environment(device: torch.device, precision: str = AUTO) -> dict[str, Any]:
    """Hardware, precision and versions, for a record; for bf16 on a CPU, also the
    processor's instructions for it, since without them it is emulated and rounds
    otherwise."""
    cuda = device.type == "cuda"
    instructions = {}
    if not cuda and in_bf16("cpu", precision):
        instructions["instructions"] = bf16_instructions()
    return {
        "device": torch.cuda.get_device_name(device) if cuda else processor(),
        "kind": device.type,
        "precision": arithmetic(device.type, precision),
        **instructions,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "python": platform.python_version(),
    }


def cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""


def bf16_instructions() -> str:
    """The processor's instructions for products in bf16, such as "amx_bf16 avx512_bf16"."""
    flags = re.search(r"^(?:flags|Features)\s*: (.+)$", cpuinfo(), re.M)
    names = sorted(name for name in (flags[1].split() if flags else ()) if "bf16" in name)
    return " ".join(names) or "none"


def processor() -> str:
    """The name of the processor, for a record."""
    model_name = re.search(r"^model name\s*: (.+)$", cpuinfo(), re.M)
    return f"{model_name[1].strip() if model_name else platform.machine()} CPU"


# Parts of the errors that torch raises if a device has no memory for a tensor: one for
# CUDA, and those of the plain RuntimeError for a CPU.
NO_MEMORY = (
    "out of memory",
    "DefaultCPUAllocator",
    "not enough memory",
    "Storage size calculation overflowed",
)


def peak_memory(device: torch.device) -> int:
    """Bytes: the peak of the CUDA allocator since it was reset, or of the process with its
    libraries since it began; 0 on a system that does not tell, as Windows."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource  # of Unix
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
