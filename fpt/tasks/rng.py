"""Keyed randomness: every draw is named by what it is for.

A generator is seeded from a run's seed, a purpose, and a step or epoch. So a resumed run needs no
saved generator state, and a run draws the same numbers alone and in a pack.
"""

import hashlib

import numpy as np
import torch


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
