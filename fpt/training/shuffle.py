"""Tokens in another order, as a control: does a body use the order that they come in?

The tokens before those that are read change places among themselves, by one permutation per run,
the same for every example (of those that an example has, where lengths vary). What is read, and
padding, stay where they are.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ..tasks.base import Device
from ..tasks.rng import generator

ORDERS = ("given", "shuffled")


@lru_cache(maxsize=128)
def ranks(length: int, seed: int, device: Device) -> Tensor:
    """(length,) numbers in [0, 1), drawn on the CPU on every machine: places sorted by them."""
    return torch.rand(length, generator=generator("cpu", seed, "order of tokens")).to(device)


def shuffled(inputs: Tensor, last: Tensor | None, reads: int, seeds: Sequence[int]) -> Tensor:
    """`inputs` (K, B, T) or (K, B, T, dim) of the runs `seeds` in their orders.

    Read are the positions `last` (K or 1, B), or the last `reads` where that is None.
    """
    length = inputs.shape[2]
    place = torch.arange(length, device=inputs.device)
    drawn = torch.stack([ranks(length, seed, inputs.device) for seed in seeds])[:, None]
    first = length - reads if last is None else last[..., None]
    order = torch.where(place >= first, 1.0 + place, drawn).argsort(-1)  # (K, B or 1, T)
    index = order.expand(inputs.shape[:3])
    if inputs.dim() == 4:
        index = index[..., None].expand(inputs.shape)
    return inputs.gather(2, index)
