"""Bit tasks, generated while training: bit-memory and bit-xor (paper section 2.2, code
C)."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FptError
from .base import Batch, Device, Example, Kind, Task, resolve
from .datasets import arrays_digest
from .rng import generator, numpy_generator

GENERATOR_VERSION = 1
EVALUATED = ("valid", "test")
# Bits of a string from which on inputs of bit-xor are held out: shorter ones have too few
# of them.
SHORTEST_HELD_OUT = 10
# Up to so many inputs, bit-xor evaluates on every one.
MAX_COUNTED_INPUTS = 4096
# Inputs drawn for each training example. 14 of 16 inputs belong to training, so that once
# in 10^7 none of these does.
CANDIDATES = 8


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BitTask(Task):
    """Shared by both bit tasks: fixed evaluation sets of strings of bits."""

    kind: Kind = "vector"
    classes: int = 2
    zero: int  # value of a bit that is 0; that of a bit that is 1 is always 1

    def source(self) -> dict[str, Any]:
        return {"generator": GENERATOR_VERSION}

    def train_batch(
        self,
        seeds: Sequence[int],
        step: int,
        size: int,
        device: Device,
        augment: bool = False,
    ) -> Batch:
        draws = [generator(device, seed, "data", step) for seed in seeds]
        inputs, targets = zip(*(self.drawn(draw, size) for draw in draws), strict=True)
        return self.batch(torch.stack(inputs), torch.stack(targets))

    @abstractmethod
    def drawn(self, draw: torch.Generator, size: int) -> tuple[Tensor, Tensor]:
        """The inputs (size, strings, n) and target bits (size, n) of one run's batch."""

    @abstractmethod
    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        """Inputs (N, strings, n) int8, the strings in the order in which they are read, and
        target bits (N, n)."""

    def batch(self, inputs: Tensor, targets: Tensor) -> Batch:
        """Inputs (K, B, strings, n) and target bits (K, B, n) as a batch of tokens."""
        tokens = inputs.float().flatten(-2).unflatten(-1, (-1, self.dim))
        return Batch(tokens, targets.long())

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        inputs, targets = self.eval_set(split)
        return self.batch(inputs[rows].to(device), targets[rows].to(device))

    def digest(self) -> str:
        return arrays_digest(
            {split: self.eval_set(split)[0].numpy() for split in EVALUATED}
        )

    def example(self, split: str, index: int) -> Example:
        inputs, targets = self.eval_set(split)
        answer = "".join(map(str, targets[index].tolist()))
        image = (inputs[index].float() - self.zero) / (1 - self.zero)
        return Example(answer, image[..., None])


class BitMemory(BitTask):
    """Several strings in {-1, 1}, then one of them with about half of its bits set to 0."""

    def drawn(self, draw: torch.Generator, size: int) -> tuple[Tensor, Tensor]:
        integers = partial(torch.randint, generator=draw, device=draw.device)
        return _memory_examples(integers, size, self.options["patterns"], self.options["n"])

    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        n = self.options["n"]
        patterns = self.options["patterns"]
        return _memory_set(n, patterns, self.sizes[split], split)

    def pattern(self, batch: Batch) -> Tensor:
        """(K, B) int64: which of the strings the query was made from (the best match)."""
        strings = batch.inputs.flatten(-2).unflatten(-1, (-1, self.options["n"]))
        memory = strings[..., :-1, :]
        query = strings[..., -1:, :]
        return (memory * query).sum(-1).argmax(-1)

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """`masked`: accuracy on the bits that are not shown, of which guessing gets half
        right."""
        is_hidden = batch.inputs[..., -self.reads :, :].flatten(-2) == 0
        return {"masked": self.correct(logits, batch.targets).where(is_hidden, torch.nan)}

    def floors(self) -> dict[str, float]:
        return {"copy visible bits": 0.75, "masked bits: guess": 0.5}


def _memory_examples(
    draw: Callable[[int, tuple[int, ...]], Tensor],
    count: int,
    patterns: int,
    n: int,
) -> tuple[Tensor, Tensor]:
    """Inputs (count, patterns + 1, n) and targets (count, n); `draw` gives integers below a
    number in a shape."""
    strings = draw(2, (count, patterns, n))
    source = draw(patterns, (count,))
    hidden = draw(2, (count, n))
    targets = strings[torch.arange(count, device=source.device), source]
    query = (2 * targets - 1) * (1 - hidden)
    return torch.cat([2 * strings - 1, query[:, None]], 1), targets


@cache
def _memory_set(
    n: int,
    patterns: int,
    count: int,
    split: str,
) -> tuple[Tensor, Tensor]:
    """Inputs (count, patterns + 1, n) and targets (count, n), int8."""
    rng = numpy_generator("bit-memory", n, patterns, split)

    def draw(high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.integers(0, high, shape, dtype=np.int64))

    inputs, targets = _memory_examples(draw, count, patterns, n)
    return inputs.to(torch.int8), targets.to(torch.int8)


class BitXor(BitTask):
    """Two strings of bits; the answer is their element-wise XOR, read at the second string.

    Below n = 10 there are too few inputs to hold any out: training sees all of them. From n
    = 10, a hash of the input decides whether it belongs to training, validation or test.
    """

    def drawn(self, draw: torch.Generator, size: int) -> tuple[Tensor, Tensor]:
        shape = (size, 1 if self.fitting else CANDIDATES, 2, self.options["n"])
        bits = torch.randint(2, shape, generator=draw, device=draw.device)
        inputs = bits[:, 0] if self.fitting else _first_training_input(bits)
        return inputs, _xor(inputs)

    def eval_set(self, split: str) -> tuple[Tensor, Tensor]:
        bits = _xor_set(self.options["n"], self.sizes[split], split)
        return bits, _xor(bits)

    def floors(self) -> dict[str, float]:
        return {"majority": 0.5}


def _xor(bits: Tensor) -> Tensor:
    return bits[..., 0, :] ^ bits[..., 1, :]


def membership(bits: Tensor) -> Tensor:
    """(..., 2, n) bits -> (...) int64: 0 training (14 of 16 inputs), 1 validation, 2
    test."""
    flat = bits.long().flatten(-2)
    value = (flat * _hash_weights(flat.shape[-1], bits.device)).sum(-1)
    # int64 wraps around on every device.
    for _ in range(2):
        value = (value ^ ((value >> 29) & 0x7FFFFFFFF)) * -0x40A7B892E31B1A47
    bucket = (value >> 40) & 15
    return torch.where(bucket < 2, bucket + 1, 0)


@cache
def _hash_weights(bits: int, device: torch.device) -> Tensor:
    rng = numpy_generator("bit-xor", "hash", bits)
    weights = rng.integers(-(2**63), 2**63 - 1, bits, dtype=np.int64)
    return torch.from_numpy(weights).to(device)


def _first_training_input(bits: Tensor) -> Tensor:
    """(B, candidates, 2, n) -> (B, 2, n): of each example the first candidate that
    belongs to training; if none does (once in 10^7), a fixed training input, so that the
    host never waits for the values."""
    n = bits.shape[-1]
    allowed = membership(bits) == 0
    place = allowed.int().argmax(-1)[..., None, None, None]
    first = bits.gather(1, place.expand(-1, 1, 2, n))[:, 0]
    is_found = allowed.any(-1)[..., None, None]
    return first.where(is_found, _training_input(n, bits.device))


@cache
def _training_input(n: int, device: torch.device) -> Tensor:
    rng = numpy_generator("bit-xor", "fixed", n)
    bits = torch.from_numpy(rng.integers(0, 2, (64, 2, n)))
    return bits[membership(bits) == 0][0].to(device)


@cache
def _xor_set(n: int, count: int, split: str) -> Tensor:
    """(count, 2, n) int8, all different: every input, or a sample (held-out ones from n =
    10)."""
    if 4**n <= MAX_COUNTED_INPUTS:
        number = torch.arange(4**n)[:, None]
        bits = (number >> torch.arange(2 * n - 1, -1, -1)) & 1
        return bits.unflatten(-1, (2, n)).to(torch.int8)
    rng = numpy_generator("bit-xor", n, split)
    sample = np.empty((0, 2, n), np.int8)
    while len(sample) < count:
        drawn = rng.integers(0, 2, (4 * count, 2, n), dtype=np.int8)
        if n >= SHORTEST_HELD_OUT:
            drawn = drawn[membership(torch.from_numpy(drawn)) == 1 + EVALUATED.index(split)]
        sample = np.concatenate([sample, drawn])
        _, first = np.unique(sample, axis=0, return_index=True)
        sample = sample[np.sort(first)]
    return torch.from_numpy(sample[:count])


def _sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"train": 0, "valid": options["valid"], "test": options["test"]}


def bit_memory(**options: Any) -> BitMemory:
    """Options: n bits per string, patterns strings, patch bits per token; sizes of the
    splits."""
    defaults = {"n": 1000, "patterns": 5, "patch": 50, "valid": 1000, "test": 2000}
    options = resolve("bit-memory", options, defaults)
    n = options["n"]
    patch = options["patch"]
    if n % patch:
        raise FptError(
            f"option 'patch' of task 'bit-memory' must divide n = {n}, not {patch}."
        )
    return BitMemory(
        name="bit-memory",
        options=options,
        dim=patch,
        length=(options["patterns"] + 1) * n // patch,
        reads=n // patch,
        answers=patch,
        sizes=_sizes(options),
        random_order=EVALUATED,
        zero=-1,
    )


def bit_xor(**options: Any) -> BitXor:
    """Options: n bits per string; sizes of the splits if not all inputs fit, at most as
    many as there are different inputs (a 32nd of them if some are held out)."""
    options = resolve("bit-xor", options, {"n": 5, "valid": None, "test": None})
    n = options["n"]
    # More than any split may have, and no number of a million digits.
    inputs = 4 ** min(n, 32)
    # A split has about a sixteenth; half of those are found by chance in a few draws.
    most = inputs if n < SHORTEST_HELD_OUT else inputs // 32
    every_input = inputs <= MAX_COUNTED_INPUTS
    for split, usual in {"valid": 1000, "test": 2000}.items():
        size = options[split] or min(usual, most)
        if size > most:
            raise FptError(
                f"option {split!r} of task 'bit-xor' must be at most {most}, not {size}: "
                f"all inputs are different, and n = {n} has too few for more."
            )
        options[split] = most if every_input else size
    return BitXor(
        name="bit-xor",
        options=options,
        dim=1,
        length=2 * n,
        reads=n,
        sizes=_sizes(options),
        # If every input is evaluated, they are listed in order.
        random_order=() if every_input else EVALUATED,
        fitting=n < SHORTEST_HELD_OUT,
        zero=0,
    )
