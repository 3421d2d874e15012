"""Keyed randomness: every draw is named by what it is for.

A generator is seeded afresh from (run seed, purpose, step or epoch). So a resumed run needs no
saved generator state, and a run draws the same numbers alone and in a pack.
"""

import hashlib

import torch


def fold(*parts: int | str) -> int:
    """A 63-bit seed from `parts`; different parts give unrelated seeds."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(device: torch.device | str, *parts: int | str) -> torch.Generator:
    """A generator on `device`, seeded by `fold(*parts)`."""
    return torch.Generator(device=device).manual_seed(fold(*parts))
