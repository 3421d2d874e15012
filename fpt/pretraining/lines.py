"""What a synthetic language is, and what all generators share: draws and lines of tokens.

Draws come from the raw stream of PCG64, the part of NumPy's generators that no release changes; so
a corpus is the same bytes everywhere. Entropies are in nats per token, the `END` of each line
included, and those of an observer who knows the generator and all that came before: windows that
begin inside a line can only do worse.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..tasks.rng import fold

END_ID = 0  # of every vocabulary: it ends a document, or here a line
LINES = 4096  # generated at a time


@dataclass(frozen=True)
class Language:
    """A generator: `chunks` yields its endless stream in parts, as uint16 ids."""

    chunks: Callable[[np.random.PCG64], Iterator[np.ndarray]]
    entropy: float  # nats per token
    exact: bool = True  # False: `entropy` is a proven lower bound

    def sample(self, tokens: int, *key: int | str) -> np.ndarray:
        """The first `tokens` ids (uint16) of the stream named by `key`."""
        parts: list[np.ndarray] = []
        left = tokens
        for part in self.chunks(np.random.PCG64(fold("synthetic", *key))):
            parts.append(part[:left])
            left -= len(parts[-1])
            if left == 0:
                break
        return np.concatenate(parts)


def doubles(bits: np.random.PCG64, *shape: int) -> np.ndarray:
    """Uniform in [0, 1), float64."""
    raw = np.asarray(bits.random_raw(int(np.prod(shape))), dtype=np.uint64)
    return ((raw >> np.uint64(11)) * 2.0**-53).reshape(shape)


def whole(bits: np.random.PCG64, low: int, high: int, *shape: int) -> np.ndarray:
    """Uniform whole numbers in [low, high), int64."""
    return low + (doubles(bits, *shape) * (high - low)).astype(np.int64)


def symbols(bits: np.random.PCG64, chances: np.ndarray, *shape: int) -> np.ndarray:
    """Independent indices of `chances`, which sum to one, int64."""
    edges = np.cumsum(chances)
    last = int(np.flatnonzero(chances)[-1])  # rounding may leave the edges a little below one
    drawn = np.searchsorted(edges, doubles(bits, *shape), side="right")
    return np.minimum(drawn, last).astype(np.int64)


def ended(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Lines of `lengths`, one after the other in `tokens`, each ended by `END`; uint16."""
    return np.insert(tokens.astype(np.uint16), np.cumsum(lengths), END_ID)


def packed(table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The first `lengths` tokens of each row of `table` (lines, most), ended and joined."""
    return ended(table[np.arange(table.shape[1]) < lengths[:, None]], lengths)


def independent_lines(
    lines: Callable[[np.random.PCG64], tuple[np.ndarray, np.ndarray]],
) -> Callable[[np.random.PCG64], Iterator[np.ndarray]]:
    """The chunks of a language whose lines do not hang together; `lines` draws `LINES` of them, a
    table and their lengths."""

    def chunks(bits: np.random.PCG64) -> Iterator[np.ndarray]:
        while True:
            yield packed(*lines(bits))

    return chunks


def entropy(chances: np.ndarray) -> float:
    """Of one draw, in nats."""
    some = chances[chances > 0]
    return float(-(some * np.log(some)).sum())
