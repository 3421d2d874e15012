"""Bit tasks, generated without end: bit-memory and bit-xor (paper section 2.2, code C)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, Task, resolve, tensors_digest
from .rng import fold, generator

GENERATOR_VERSION = 1
HELD_OUT_FROM = 10  # shortest bit-xor strings of which inputs are held out
ALL_INPUTS = 4096  # up to this many inputs, bit-xor evaluates on every one
CANDIDATES = 8


def _numpy(*parts: int | str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(fold(*parts)))


@dataclass(frozen=True, kw_only=True, eq=False)
class BitTask(Task):
    """What both bit tasks share: fixed evaluation sets of bits (N, strings, n) int8."""

    def source(self) -> dict[str, Any]:
        return {"generator": GENERATOR_VERSION}

    def eval_bits(self, split: str) -> Tensor:
        """(N, strings, n) int8, the strings in the order in which they are read."""
        raise NotImplementedError

    def targets(self, bits: Tensor) -> Tensor:
        raise NotImplementedError

    def in_random_order(self, split: str) -> bool:
        return True

    def tokens(self, bits: Tensor) -> Tensor:
        """(..., strings, n) -> (..., T, patch) float32."""
        return bits.float().flatten(-2).unflatten(-1, (-1, self.dim))

    def digest(self) -> str:
        return tensors_digest({split: self.eval_bits(split) for split in ("valid", "test")})


@dataclass(frozen=True, kw_only=True, eq=False)
class BitMemory(BitTask):
    """Several strings in {-1, 1}, then one of them with about half of its bits set to 0."""

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        n, patterns = self.options["n"], self.options["patterns"]
        drawn = []
        for seed in seeds:
            g = generator(device, seed, "data", step)
            strings = torch.randint(0, 2, (size, patterns, n), generator=g, device=device)
            source = torch.randint(0, patterns, (size,), generator=g, device=device)
            hidden = torch.randint(0, 2, (size, n), generator=g, device=device)
            drawn.append((strings, source, hidden))
        strings, source, hidden = (torch.stack(parts) for parts in zip(*drawn, strict=True))
        inputs, targets = _recall(strings, source, hidden)
        return Batch(self.tokens(inputs), targets)

    def eval_bits(self, split: str) -> Tensor:
        self.check_split(split)
        return _memory_set(self.options["n"], self.options["patterns"], self.sizes[split], split)[0]

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        self.check_split(split)
        bits, targets = _memory_set(
            self.options["n"], self.options["patterns"], self.sizes[split], split
        )
        for rows in self.subset(split, count).split(size):
            yield Batch(
                self.tokens(bits[rows].to(device))[None], targets[rows].to(device).long()[None]
            )

    def hidden(self, batch: Batch) -> Tensor:
        """(K, B, n) bool: the bits of the query that are not shown."""
        return batch.inputs[..., -self.reads :, :].flatten(-2) == 0

    def pattern(self, batch: Batch) -> Tensor:
        """(K, B) int64: which of the strings the query was made from (the best match)."""
        strings = batch.inputs.flatten(-2).unflatten(-1, (-1, self.options["n"]))
        return (strings[..., :-1, :] * strings[..., -1:, :]).sum(-1).argmax(-1)

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """`masked`: accuracy on the bits that are not shown, where guessing gives a half."""
        correct = (logits.argmax(-1) == batch.targets).float()
        return {"masked": correct.where(self.hidden(batch), torch.nan)}

    def floors(self) -> dict[str, float]:
        return {"copy visible bits": 0.75, "masked bits: guess": 0.5}

    def example(self, split: str, index: int) -> Example:
        bits, targets = _memory_set(
            self.options["n"], self.options["patterns"], self.sizes[split], split
        )
        answer = "".join(map(str, targets[index].tolist()))
        return Example(answer=answer, image=((bits[index].float() + 1) / 2)[..., None])


def _recall(strings: Tensor, source: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Strings (..., patterns, n) of 0 and 1, source (...), hidden (..., n) -> inputs, targets."""
    index = source[..., None, None].expand(*source.shape, 1, strings.shape[-1])
    targets = strings.gather(-2, index)[..., 0, :]
    query = (2 * targets - 1) * (1 - hidden)
    return torch.cat([2 * strings - 1, query[..., None, :]], -2), targets


@cache
def _memory_set(n: int, patterns: int, count: int, split: str) -> tuple[Tensor, Tensor]:
    """Inputs (count, patterns + 1, n) and targets (count, n), int8."""
    rng = _numpy("bit-memory", n, patterns, split)
    draws = [
        torch.from_numpy(rng.integers(0, high, size, dtype=np.int64))
        for high, size in [(2, (count, patterns, n)), (patterns, (count,)), (2, (count, n))]
    ]
    inputs, targets = _recall(*draws)
    return inputs.to(torch.int8), targets.to(torch.int8)


@dataclass(frozen=True, kw_only=True, eq=False)
class BitXor(BitTask):
    """Two strings of bits; the answer is their element-wise XOR, read at the second string.

    Below n = 10 there are too few inputs to hold any out: training sees all of them, and the test
    measures fitting, not generalisation. From n = 10, a hash of the input decides whether it
    belongs to training, validation or test, and training never sees the others.
    """

    @property
    def holds_out(self) -> bool:
        return bool(self.options["n"] >= HELD_OUT_FROM)

    @property
    def fitting(self) -> bool:
        return not self.holds_out

    def in_random_order(self, split: str) -> bool:
        return 4 ** self.options["n"] > ALL_INPUTS  # else they are counted through

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        n = self.options["n"]
        shape = (size, CANDIDATES if self.holds_out else 1, 2, n)
        bits = torch.stack(
            [
                torch.randint(
                    0, 2, shape, generator=generator(device, seed, "data", step), device=device
                )
                for seed in seeds
            ]
        )
        if not self.holds_out:
            return self._batch(bits[:, :, 0])
        # The first candidate that belongs to training; where none does (once in 10^7), a fixed
        # training input: never a held-out one, and no look at the values from the host.
        allowed = membership(bits) == 0
        first = allowed.int().argmax(-1)[..., None, None, None].expand(-1, -1, 1, 2, n)
        chosen = bits.gather(2, first)[:, :, 0]
        fixed = _training_input(n, bits.device)
        return self._batch(torch.where(allowed.any(-1)[..., None, None], chosen, fixed))

    def _batch(self, bits: Tensor) -> Batch:
        return Batch(self.tokens(bits), (bits[..., 0, :] ^ bits[..., 1, :]).long())

    def eval_bits(self, split: str) -> Tensor:
        self.check_split(split)
        return _xor_set(self.options["n"], self.sizes[split], split)

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        for bits in self.eval_bits(split)[self.subset(split, count)].split(size):
            yield self._batch(bits.to(device)[None])

    def floors(self) -> dict[str, float]:
        return {"majority": 0.5}

    def example(self, split: str, index: int) -> Example:
        bits = self.eval_bits(split)[index].long()
        answer = "".join(map(str, (bits[0] ^ bits[1]).tolist()))
        return Example(answer=answer, image=bits.float()[..., None])


@cache
def _hash_weights(bits: int, device: torch.device) -> Tensor:
    rng = _numpy("bit-xor", "hash", bits)
    return torch.from_numpy(rng.integers(-(2**63), 2**63 - 1, bits, dtype=np.int64)).to(device)


def membership(bits: Tensor) -> Tensor:
    """(..., 2, n) bits -> (...) int64: 0 training (14 of 16 inputs), 1 validation, 2 test."""
    flat = bits.long().flatten(-2)
    value = (flat * _hash_weights(flat.shape[-1], bits.device)).sum(-1)
    for _ in range(2):  # int64 wraps around, on every device alike
        value = (value ^ ((value >> 29) & 0x7FFFFFFFF)) * -0x40A7B892E31B1A47
    bucket = (value >> 40) & 15
    return torch.where(bucket < 2, bucket + 1, 0)


@cache
def _training_input(n: int, device: torch.device) -> Tensor:
    bits = torch.from_numpy(_numpy("bit-xor", "fixed", n).integers(0, 2, (64, 2, n)))
    return bits[membership(bits) == 0][0].to(device)


@cache
def _xor_set(n: int, count: int, split: str) -> Tensor:
    """(count, 2, n) int8, all different: every input, or a sample (held-out ones from n = 10)."""
    if 4**n <= ALL_INPUTS:
        number = torch.arange(4**n)[:, None]
        bits = (number >> torch.arange(2 * n - 1, -1, -1)) & 1
        return bits.unflatten(-1, (2, n)).to(torch.int8)
    rng, found = _numpy("bit-xor", n, split), torch.empty(0, 2, n, dtype=torch.int8)
    bucket = {"valid": 1, "test": 2}[split]
    while len(found) < count:
        bits = torch.from_numpy(rng.integers(0, 2, (4 * count, 2, n), dtype=np.int8))
        if n >= HELD_OUT_FROM:
            bits = bits[membership(bits) == bucket]
        merged = torch.cat([found, bits])
        _, inverse = torch.unique(merged, dim=0, return_inverse=True)
        first = torch.full((len(merged),), len(merged)).scatter_reduce(
            0, inverse, torch.arange(len(merged)), "amin"
        )
        found = merged[first[first < len(merged)].sort().values]
    return found[:count].contiguous()


def bit_memory(**given: Any) -> BitMemory:
    """Options: n bits per string, patterns strings, patch bits per token; sizes of the splits."""
    name = "bit-memory"
    options = resolve(
        name, given, {"n": 1000, "patterns": 5, "patch": 50, "valid": 1000, "test": 2000}
    )
    n, patch = options["n"], options["patch"]
    if n % patch:
        raise FptError(f"option 'patch' of task {name!r} must divide n = {n}, not {patch}.")
    return BitMemory(
        name=name,
        options=options,
        kind="vector",
        dim=patch,
        length=(options["patterns"] + 1) * n // patch,
        reads=n // patch,
        answers=patch,
        classes=2,
        sizes={"train": 0, "valid": options["valid"], "test": options["test"]},
    )


def bit_xor(**given: Any) -> BitXor:
    """Options: n bits per string (at most 256); sizes of the splits where not all inputs fit."""
    name = "bit-xor"
    options = resolve(name, given, {"n": 5, "valid": 1000, "test": 2000})
    n = options["n"]
    if n > 256:
        raise FptError(f"option 'n' of task {name!r} must be at most 256, not {n}.")
    if 4**n <= ALL_INPUTS:
        options |= {"valid": 4**n, "test": 4**n}
    return BitXor(
        name=name,
        options=options,
        kind="vector",
        dim=1,
        length=2 * n,
        reads=n,
        classes=2,
        sizes={"train": 0, "valid": options["valid"], "test": options["test"]},
    )
