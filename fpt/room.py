"""Whether a device has room for the step of a pack.

It is measured on one sequence a run, before the first step, so that a pack that is too large is
parted at once and not by running out of memory.
"""

import torch
from torch import Tensor

from .device import autocast, free_memory
from .loop import Loop
from .pack import losses

# Over what is kept for the backward pass: gradients on their way, and the allocator's waste.
MARGIN = 1.25


def step_bytes(loop: Loop) -> int:
    """Bytes that a training step of `loop` takes beside its parameters: masks, and what the forward
    pass keeps for the backward pass, counted on one sequence a run; all of it grows with the
    sequences."""
    model, task, seeds = loop.model.train(), loop.task, [loop.specs[i].seed for i in loop.alive]
    batch = task.train_batch(seeds, 0, 1, loop.device, loop.specs[0].augment)
    model.draws.begin(seeds, 0, (1, task.length, model.width), loop.rows.values)
    masks = 0 if model.draws.masks is None else model.draws.masks.nbytes
    there = {it.untyped_storage().data_ptr() for it in model.parameters()}
    if model.draws.masks is not None:
        there.add(model.draws.masks.untyped_storage().data_ptr())
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in there:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda it: it), autocast(loop.device):
        loss = losses(model(batch), batch.targets)  # holds what it keeps: no address comes twice
    del loss
    model.draws.noise.clear()  # of one sequence
    longest = task.length / batch.inputs.shape[2]
    return round(loop.batch * (masks + MARGIN * longest * sum(kept.values())))


def check_room(loop: Loop) -> None:
    """torch.OutOfMemoryError where the step of a pack will not fit; of one run, it has to show."""
    free = free_memory(loop.device)
    if len(loop.alive) < 2 or free == float("inf"):
        return
    if (needed := step_bytes(loop)) > free:
        raise torch.OutOfMemoryError(f"a step takes about {needed:,} bytes, {free:,} are free")
