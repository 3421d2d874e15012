"""What a synthetic language is, how its lines are drawn, and languages without more
structure than frequencies and pairs: Uniform, Uni-gram and Bi-gram of Chiang & Lee (2022,
arXiv:2109.03537).

Draws come from the raw stream of PCG64, the part of NumPy's generators that no release
changes; so a corpus is the same bytes everywhere. Entropies are in nats per token, the
`END` of each line included, and those of an observer who knows the generator and all that
came before: windows that begin inside a line can only do worse.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..tasks.rng import fold

# Rows of the token embeddings of every language model; no corpus has more ids.
VOCABULARY = 4096
# In every vocabulary the id that ends a document or an image, or here a line.
END_ID = 0
# Lines that are generated at a time.
LINES = 4096

Bits = np.random.PCG64
Chunks = Callable[[Bits], Iterator[np.ndarray]]


@dataclass(frozen=True)
class Language:
    """A generator: `chunks` yields its endless stream in parts, as uint16 ids."""

    chunks: Chunks
    entropy: float  # nats per token
    exact: bool = True  # False: `entropy` is a proven lower bound

    def sample(self, tokens: int, *key: int | str) -> np.ndarray:
        """The first `tokens` ids (uint16) of the stream named by `key`."""
        parts: list[np.ndarray] = []
        chunks = self.chunks(Bits(fold("synthetic", *key)))
        while sum(map(len, parts)) < tokens:
            parts.append(next(chunks))
        return np.concatenate(parts)[:tokens]


def doubles(bits: Bits, *shape: int) -> np.ndarray:
    """Uniform in [0, 1), float64."""
    raw = np.asarray(bits.random_raw(int(np.prod(shape))), dtype=np.uint64)
    return ((raw >> np.uint64(11)) * 2.0**-53).reshape(shape)


def integers(bits: Bits, low: int, high: int, *shape: int) -> np.ndarray:
    """Uniform integers in [low, high), int64."""
    return low + (doubles(bits, *shape) * (high - low)).astype(np.int64)


def symbols(bits: Bits, probabilities: np.ndarray, *shape: int) -> np.ndarray:
    """Independent indices of `probabilities`, which sum to one, int64."""
    edges = np.cumsum(probabilities)
    # Rounding may leave the edges a little below one.
    last = int(np.flatnonzero(probabilities)[-1])
    drawn = np.searchsorted(edges, doubles(bits, *shape), side="right")
    return np.minimum(drawn, last).astype(np.int64)


def ended(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Lines of `lengths`, one after the other in `tokens`, each ended by `END`; uint16."""
    return np.insert(tokens.astype(np.uint16), np.cumsum(lengths), END_ID)


def per_token(
    line: float,
    low: int,
    high: int,
    unit: int = 1,
) -> float:
    """Nats per token, `END` included, of lines that say `line` nats beside their length.
    That is `unit` times a number from `low` to below `high`, each equally likely."""
    return float(line + np.log(high - low)) / (unit * (low + high - 1) / 2 + 1)


def independent_lines(
    low: int,
    high: int,
    draw: Callable[[Bits, np.ndarray], np.ndarray],
    line: float,
    unit: int = 1,
    exact: bool = True,
) -> Language:
    """A language of independent lines, whose lengths and entropies are as in `per_token`.
    `draw` makes a table (LINES, longest) of lines, given those numbers, (LINES, 1)."""

    def chunks(bits: Bits) -> Iterator[np.ndarray]:
        while True:
            numbers = integers(bits, low, high, LINES, 1)
            table = draw(bits, numbers)
            lengths = unit * numbers
            yield ended(table[np.arange(table.shape[1]) < lengths], lengths)

    return Language(chunks, per_token(line, low, high, unit), exact)


def entropy(probabilities: np.ndarray) -> float:
    """Of one draw, in nats."""
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def frequencies(ids: np.ndarray) -> np.ndarray:
    """How often each id occurs in a text (VOCABULARY,), `END` left out, summing to one."""
    counts = np.bincount(ids, minlength=VOCABULARY).astype(np.float64)
    counts[END_ID] = 0
    return counts / counts.sum()


def uniform() -> np.ndarray:
    """The same probability for each token but `END`."""
    return np.r_[0.0, np.full(VOCABULARY - 1, 1 / (VOCABULARY - 1))]


def relabelled(ids: np.ndarray) -> np.ndarray:
    """The text `ids` with its tokens' identities exchanged at random, `END` kept."""
    bits = Bits(fold("synthetic", "bigram", "identities"))
    order = 1 + np.argsort(bits.random_raw(VOCABULARY - 1), kind="stable")
    return np.r_[0, order].astype(ids.dtype)[ids]


def unigram(probabilities: np.ndarray) -> Language:
    """Lines of 100 to 119 independent tokens; uniform `probabilities` give Uniform. Exact
    entropy."""
    low = 100
    high = 120

    def draw(bits: Bits, lengths: np.ndarray) -> np.ndarray:
        return symbols(bits, probabilities, LINES, high - 1)

    return independent_lines(low, high, draw, (low + high - 1) / 2 * entropy(probabilities))


def bigram(ids: np.ndarray, lag: int = 1) -> Language:
    """Lines of 99 to 118 tokens, each drawn from what follows, in the text `ids`, the token
    that stands `lag` places before it in the line; the first `lag` of them, and any after a
    token that nothing follows, by frequency. A lag above one is this project's own.

    The entropy is exact: that of each step, given the distribution of the tokens before it,
    step by step from the first.
    """
    low = 99
    high = 119
    common = frequencies(ids)
    pairs = ids[:-1].astype(np.int64) * VOCABULARY + ids[1:]
    inside = (ids[:-1] != END_ID) & (ids[1:] != END_ID)
    keys, counts = np.unique(pairs[inside], return_counts=True)
    before, after = np.divmod(keys, VOCABULARY)
    totals = np.bincount(before, counts, VOCABULARY).astype(np.int64)
    starts = np.cumsum(totals) - totals
    edges = np.cumsum(counts)

    def draw(bits: Bits, lengths: np.ndarray) -> np.ndarray:
        table = np.empty((LINES, high - 1), dtype=np.int64)
        for place in range(lag):
            table[:, place] = symbols(bits, common, LINES)
        for place in range(lag, high - 1):
            last = table[:, place - lag]
            pick = starts[last] + (doubles(bits, LINES) * totals[last]).astype(np.int64)
            pair = np.searchsorted(edges, pick, side="right").clip(max=len(after) - 1)
            fresh = symbols(bits, common, LINES)
            table[:, place] = np.where(totals[last] > 0, after[pair], fresh)
        return table

    shares = counts / totals[before]
    step = csr_array((shares, (before, after)), shape=(VOCABULARY, VOCABULARY)).T
    step_entropy = np.bincount(before, -shares * np.log(shares), VOCABULARY)
    stuck = totals == 0
    step_entropy[stuck] = entropy(common)
    line = lag * entropy(common)
    tokens = common
    for place in range(lag, high - 1):
        # The share of lines that have a token at this place.
        reached = np.mean(np.arange(low, high) > place)
        line += float(reached * (tokens @ step_entropy))
        if (place + 1) % lag == 0:
            # Each of the `lag` chains has made a step.
            tokens = step @ tokens + tokens[stuck].sum() * common
    return independent_lines(low, high, draw, line)
