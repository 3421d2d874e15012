"""Keyed randomness: every draw is named by what it is for.

A generator is seeded from a run's seed, a purpose, and a step or epoch. So a resumed run
needs no saved generator state, and a run draws the same numbers alone and in a pack.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

ORDERS = ("given", "shuffled")  # of the tokens; the second is a control


def fold(*parts: int | str) -> int:
    """A 63-bit seed from `parts`; different parts give unrelated seeds."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(device: torch.device | str, *parts: int | str) -> torch.Generator:
    """A PyTorch generator on `device`, seeded by `fold(*parts)`."""
    return torch.Generator(device=device).manual_seed(fold(*parts))


def numpy_generator(*parts: int | str) -> np.random.Generator:
    """A NumPy generator, seeded by `fold(*parts)`."""
    return np.random.Generator(np.random.PCG64(fold(*parts)))


@lru_cache(maxsize=128)
def ranks(length: int, seed: int, device: torch.device | str) -> Tensor:
    """(length,) numbers in [0, 1), drawn on the CPU on every machine: places sorted by
    them."""
    draw = generator("cpu", seed, "order of tokens")
    return torch.rand(length, generator=draw, dtype=torch.float32).to(device)


def shuffled(
    inputs: Tensor, last: Tensor | None, reads: int, seeds: Sequence[int]
) -> Tensor:
    """`inputs` (K, B, T) or (K, B, T, dim) in another order, as a control: does a backbone
    use the order that tokens come in?

    The tokens before those that are read (the positions `last`, (K or 1, B), or else the
    last `reads`) change places among themselves, by one permutation per run, the same for
    every example. Tokens that are read, and padding, keep their places.
    """
    length = inputs.shape[2]
    place = torch.arange(length, device=inputs.device)
    drawn = torch.stack([ranks(length, seed, inputs.device) for seed in seeds])[:, None]
    # Drawn places lie below 1, so tokens that stay sort behind them, in their order.
    first = length - reads if last is None else last[..., None]
    order = torch.where(place >= first, 1.0 + place, drawn).argsort(-1)  # (K, B or 1, T)
    index = order.expand(inputs.shape[:3])
    if inputs.dim() == 4:
        index = index[..., None].expand(inputs.shape)
    return inputs.gather(2, index)
