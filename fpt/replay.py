"""A training step on CUDA without the CPU in its way: captured as a graph, then replayed.

A step of a small pack is some thousand kernels of a few microseconds each; to launch them one by
one takes longer than to run them. A graph launches all of them at once. What it reads and writes
lies at fixed addresses: a batch is copied into tensors of its own, everything else (parameters,
gradients, moments, masks) stays where it is until the pack changes, and then a new `Replayed` is
made. Whatever chooses numbers on the CPU (seeds, lengths, corrections of Adam) is done before.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from .backbones import backbone
from .counts import flops_per_token
from .device import out_of_memory
from .spec import RunSpec
from .tasks import Batch, Task

WARM_UP = 3  # steps of a shape before its capture: libraries set themselves up in the first ones
WORTH_A_GRAPH = 100  # steps, for what a capture costs
SHAPES = 32  # captured at most; batches of other shapes go kernel by kernel

# What torch.compile is worth: a first compilation takes about a minute, and the fused kernels save
# about a quarter of a step that runs at the rate below. Assumed, until a GPU has been measured.
COMPILATION = 60.0  # seconds
SAVED = 0.25
RATE = 3e14  # FLOP/s of a step without it

Shape = tuple[torch.Size | None, ...]


def compiling_pays(specs: Sequence[RunSpec], task: Task, steps: int) -> bool:
    """Whether `steps` more steps of a pack are long enough for torch.compile. A function of the
    specs and not of the clock, so that a run is made in the same way every time. Never for an LSTM:
    the compiler would unroll its loop over the tokens."""
    flops = sum(flops_per_token(spec) for spec in specs) * specs[0].batch * task.length
    looped = backbone(specs[0].backbone).family.startswith("lstm")
    return not looped and SAVED * steps * flops / RATE > COMPILATION


class Replayed:
    """`step`, which reads a batch and returns nothing, with a graph per shape of the batch.

    `step` must not wait for the device, nor keep a tensor that it makes.
    """

    def __init__(self, step: Callable[[Batch], None], device: torch.device) -> None:
        self.step = step
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()  # graphs take turns, so they share their memory
        self.graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Batch]] = {}
        self.seen: Counter[Shape] = Counter()
        self.capturable = True

    def __call__(self, batch: Batch) -> None:
        shape = shape_of(batch)
        if self.capturable and shape not in self.graphs and len(self.graphs) < SHAPES:
            if self.seen[shape] == WARM_UP:
                self._capture(shape, batch)
            self.seen[shape] += 1
        if shape not in self.graphs:
            self._launch(batch)
            return
        graph, own = self.graphs[shape]
        for name, tensor in tensors(batch).items():
            getattr(own, name).copy_(tensor)
        graph.replay()

    def _launch(self, batch: Batch) -> None:
        """Kernel by kernel, on the stream of the captures: autograd remembers the stream on which
        it first met a parameter."""
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.step(batch)
        here.wait_stream(self.stream)

    def _capture(self, shape: Shape, batch: Batch) -> None:
        """Record a step without doing it."""
        own = replace(batch, **{name: it.clone() for name, it in tensors(batch).items()})
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                self.step(own)
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            self.capturable = False
            reason = str(error).splitlines()[0]
            warnings.warn(
                f"The training step cannot be captured as a CUDA graph, so it is slower: {reason}",
                stacklevel=2,
            )
        else:
            self.graphs[shape] = graph, own


def tensors(batch: Batch) -> dict[str, Tensor]:
    """The tensors of a batch by name."""
    named = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in named.items() if value is not None}


def shape_of(batch: Batch) -> Shape:
    found = tensors(batch)
    return tuple(
        found[field.name].shape if field.name in found else None for field in fields(batch)
    )
