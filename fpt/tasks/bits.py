"""Bit tasks, generated while training: bit-memory and bit-xor (paper section 2.2, code C)."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, Kind, Task, resolve
from .datasets import arrays_digest
from .rng import generator, numpy_generator

GENERATOR_VERSION = 1
HELD_OUT_FROM = 10  # shortest bit-xor strings of which inputs are held out
ALL_INPUTS = 4096  # up to this many inputs, bit-xor evaluates on every one
CANDIDATES = 8
EVALUATED = ("valid", "test")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BitTask(Task):
    """What both bit tasks share: fixed evaluation sets of strings of bits."""

    kind: Kind = "vector"
    classes: int = 2
    zero: int  # value of a bit that is 0; that of a bit that is 1 is always 1

    def source(self) -> dict[str, Any]:
        return {"generator": GENERATOR_VERSION}

    @abstractmethod
    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        """Inputs (N, strings, n) int8, the strings in the order in which they are read, and target
        bits (N, n)."""

    def batch(self, inputs: Tensor, targets: Tensor) -> Batch:
        """Inputs (K, B, strings, n) and target bits (K, B, n) as a batch of tokens."""
        tokens = inputs.float().flatten(-2).unflatten(-1, (-1, self.dim))
        return Batch(tokens, targets.long())

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        inputs, targets = self.eval_set(split)
        return self.batch(inputs[rows].to(device), targets[rows].to(device))

    def digest(self) -> str:
        return arrays_digest({split: self.eval_set(split)[0].numpy() for split in EVALUATED})

    def example(self, split: str, index: int) -> Example:
        inputs, targets = self.eval_set(split)
        image = (inputs[index].float() - self.zero) / (1 - self.zero)
        return Example(answer="".join(map(str, targets[index].tolist())), image=image[..., None])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
        return self.batch(*_recall(*map(torch.stack, zip(*drawn, strict=True))))

    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        return _memory_set(self.options["n"], self.options["patterns"], self.sizes[split], split)

    def hidden(self, batch: Batch) -> Tensor:
        """(K, B, n) bool: the bits of the query that are not shown."""
        return batch.inputs[..., -self.reads :, :].flatten(-2) == 0

    def pattern(self, batch: Batch) -> Tensor:
        """(K, B) int64: which of the strings the query was made from (the best match)."""
        strings = batch.inputs.flatten(-2).unflatten(-1, (-1, self.options["n"]))
        return (strings[..., :-1, :] * strings[..., -1:, :]).sum(-1).argmax(-1)

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """`masked`: accuracy on the bits that are not shown, of which guessing gets half right."""
        correct = (logits.argmax(-1) == batch.targets).float()
        return {"masked": correct.where(self.hidden(batch), torch.nan)}

    def floors(self) -> dict[str, float]:
        return {"copy visible bits": 0.75, "masked bits: guess": 0.5}


def _recall(strings: Tensor, source: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Strings (..., patterns, n) of 0 and 1, source (...), hidden (..., n) -> inputs, targets."""
    index = source[..., None, None].expand(*source.shape, 1, strings.shape[-1])
    targets = strings.gather(-2, index)[..., 0, :]
    query = (2 * targets - 1) * (1 - hidden)
    return torch.cat([2 * strings - 1, query[..., None, :]], -2), targets


@cache
def _memory_set(n: int, patterns: int, count: int, split: str) -> tuple[Tensor, Tensor]:
    """Inputs (count, patterns + 1, n) and targets (count, n), int8."""
    rng = numpy_generator("bit-memory", n, patterns, split)
    draws = [
        torch.from_numpy(rng.integers(0, high, size, dtype=np.int64))
        for high, size in [(2, (count, patterns, n)), (patterns, (count,)), (2, (count, n))]
    ]
    inputs, targets = _recall(*draws)
    return inputs.to(torch.int8), targets.to(torch.int8)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BitXor(BitTask):
    """Two strings of bits; the answer is their element-wise XOR, read at the second string.

    Below n = 10 there are too few inputs to hold any out: training sees all of them. From n = 10, a
    hash of the input decides whether it belongs to training, validation or test.
    """

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        n = self.options["n"]
        shape = (size, 1 if self.fitting else CANDIDATES, 2, n)
        keyed = (generator(device, seed, "data", step) for seed in seeds)
        bits = torch.stack([torch.randint(0, 2, shape, generator=g, device=device) for g in keyed])
        if self.fitting:
            chosen = bits[:, :, 0]
        else:
            # The first candidate that belongs to training; if none does (once in 10^7), a fixed
            # training input, so that the host never waits for the values.
            allowed = membership(bits) == 0
            first = allowed.int().argmax(-1)[..., None, None, None].expand(-1, -1, 1, 2, n)
            fixed = _training_input(n, bits.device)
            found = allowed.any(-1)[..., None, None]
            chosen = torch.where(found, bits.gather(2, first)[:, :, 0], fixed)
        return self.batch(chosen, _xor(chosen))

    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        bits = _xor_set(self.options["n"], self.sizes[split], split)
        return bits, _xor(bits)

    def floors(self) -> dict[str, float]:
        return {"majority": 0.5}


def _xor(bits: Tensor) -> Tensor:
    return bits[..., 0, :] ^ bits[..., 1, :]


@cache
def _hash_weights(bits: int, device: torch.device) -> Tensor:
    rng = numpy_generator("bit-xor", "hash", bits)
    return torch.from_numpy(rng.integers(-(2**63), 2**63 - 1, bits, dtype=np.int64)).to(device)


def membership(bits: Tensor) -> Tensor:
    """(..., 2, n) bits -> (...) int64: 0 training (14 of 16 inputs), 1 validation, 2 test."""
    flat = bits.long().flatten(-2)
    value = (flat * _hash_weights(flat.shape[-1], bits.device)).sum(-1)
    for _ in range(2):  # int64 wraps around on every device
        value = (value ^ ((value >> 29) & 0x7FFFFFFFF)) * -0x40A7B892E31B1A47
    bucket = (value >> 40) & 15
    return torch.where(bucket < 2, bucket + 1, 0)


@cache
def _training_input(n: int, device: torch.device) -> Tensor:
    bits = torch.from_numpy(numpy_generator("bit-xor", "fixed", n).integers(0, 2, (64, 2, n)))
    return bits[membership(bits) == 0][0].to(device)


@cache
def _xor_set(n: int, count: int, split: str) -> Tensor:
    """(count, 2, n) int8, all different: every input, or a sample (held-out ones from n = 10)."""
    if 4**n <= ALL_INPUTS:
        number = torch.arange(4**n)[:, None]
        bits = (number >> torch.arange(2 * n - 1, -1, -1)) & 1
        return bits.unflatten(-1, (2, n)).to(torch.int8)
    rng, found = numpy_generator("bit-xor", n, split), np.empty((0, 2, n), np.int8)
    while len(found) < count:
        drawn = rng.integers(0, 2, (4 * count, 2, n), dtype=np.int8)
        if n >= HELD_OUT_FROM:
            drawn = drawn[membership(torch.from_numpy(drawn)) == 1 + EVALUATED.index(split)]
        found = np.concatenate([found, drawn])
        _, first = np.unique(found, axis=0, return_index=True)
        found = found[np.sort(first)]
    return torch.from_numpy(found[:count])


def bit_memory(**given: Any) -> BitMemory:
    """Options: n bits per string, patterns strings, patch bits per token; sizes of the splits."""
    defaults = {"n": 1000, "patterns": 5, "patch": 50, "valid": 1000, "test": 2000}
    options = resolve("bit-memory", given, defaults)
    n, patch = options["n"], options["patch"]
    if n % patch:
        raise FptError(f"option 'patch' of task 'bit-memory' must divide n = {n}, not {patch}.")
    return BitMemory(
        name="bit-memory",
        options=options,
        dim=patch,
        length=(options["patterns"] + 1) * n // patch,
        reads=n // patch,
        answers=patch,
        sizes={"train": 0} | {split: options[split] for split in EVALUATED},
        random_order=EVALUATED,
        zero=-1,
    )


def bit_xor(**given: Any) -> BitXor:
    """Options: n bits per string; sizes of the splits if not all inputs fit."""
    options = resolve("bit-xor", given, {"n": 5, "valid": 1000, "test": 2000})
    n = options["n"]
    every_input = 4**n <= ALL_INPUTS
    if every_input:
        options |= dict.fromkeys(EVALUATED, 4**n)
    return BitXor(
        name="bit-xor",
        options=options,
        dim=1,
        length=2 * n,
        reads=n,
        sizes={"train": 0} | {split: options[split] for split in EVALUATED},
        random_order=() if every_input else EVALUATED,  # every input is listed in order
        fitting=n < HELD_OUT_FROM,
        zero=0,
    )
