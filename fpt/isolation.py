"""What is computed depends on its inputs alone, not on the settings of the program around
it.

A program may have changed PyTorch's default type or device, its random state or gradient
mode, or let NumPy raise. None of that may change a result, and other threads compute under
the same settings. So whatever is set here holds in the thread that sets it alone, and ends
with its block, however that ends.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# The first import of transformers fails if a second thread begins another. While one of its
# models is built, functions of `torch.nn.init` are changed, and a default device changes a
# global of PyTorch.
BUILDING = RLock()
FLOATING = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye}
BY_VALUES = {torch.tensor, torch.full, torch.arange, torch.linspace, torch.scalar_tensor}


class Float32(TorchFunctionMode):
    """Gives new tensors the type float32 where they would have the default type."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in FLOATING and options.get("dtype") is None:
            options["dtype"] = torch.float32
        result = func(*args, **options)
        if func in BY_VALUES and options.get("dtype") is None:
            typed = any(hasattr(value, "dtype") for value in (*args, *options.values()))
            if result.dtype == torch.get_default_dtype() and not typed:
                return func(*args, **{**options, "dtype": torch.float32})
        return result


class DrawnFrom(TorchDispatchMode):
    """Draws from `generator` what would be drawn from PyTorch's global one, which other
    threads draw from too."""

    generator: torch.Generator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        options = dict(kwargs or {})
        overload = f"{func._overloadname}_generator".removeprefix("default_")
        func = getattr(func.overloadpacket, overload, func)
        if any(argument.name == "generator" for argument in func._schema.arguments):
            options.setdefault("generator", self.generator)
        return func(*args, **options)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """No other thread builds a model or imports transformers meanwhile."""
    with BUILDING:
        yield


@contextmanager
def float32() -> Iterator[None]:
    """New tensors are float32 on the CPU by default."""
    with ExitStack() as modes:
        if torch.get_default_device().type != "cpu":
            modes.enter_context(BUILDING)
            modes.enter_context(torch.device("cpu"))
        if torch.get_default_dtype() != torch.float32:
            modes.enter_context(Float32())
        yield


@contextmanager
def on_meta() -> Iterator[None]:
    """Modules are built without values, in float32."""
    with BUILDING, float32(), torch.device("meta"):
        yield


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """What would be drawn from PyTorch's global generator of the CPU, as transformers'
    models are, is drawn from one with this seed."""
    mode = DrawnFrom()
    mode.generator = torch.Generator().manual_seed(seed)
    with (
        BUILDING,
        torch.inference_mode(False),  # such tensors could never be trained
        float32(),
        torch.device("cpu"),
        mode,
    ):
        yield


@contextmanager
def usual_settings(gradients: bool = False) -> Iterator[None]:
    """PyTorch's and NumPy's usual settings, with or without gradients."""
    with (
        np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"),
        torch.inference_mode(False),  # before gradients, which it switches on
        torch.set_grad_enabled(gradients),
        torch.autocast("cpu", enabled=False),
        float32(),
    ):
        yield
