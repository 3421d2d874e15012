"""Independent tokens, and chains of token pairs at any distance.

Chiang & Lee (2022, arXiv:2109.03537): Uniform, Uni-gram and Bi-gram lines. Bi-grams at a lag above
one are this project's own.
"""

import numpy as np
from scipy.sparse import csr_array

from .lines import END_ID, LINES, Language, doubles, entropy, independent_lines, symbols, whole


def frequencies(ids: np.ndarray, vocabulary: int) -> np.ndarray:
    """How often each id occurs in a text (vocabulary,), `END` left out, summing to one."""
    counts = np.bincount(ids, minlength=vocabulary).astype(np.float64)
    counts[END_ID] = 0
    return counts / counts.sum()


def unigram(chances: np.ndarray) -> Language:
    """Lines of 100 to 119 independent tokens; uniform `chances` give Uniform. Exact entropy."""
    low, high = 100, 120
    mean = (low + high - 1) / 2

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        lengths = whole(bits, low, high, LINES)
        return symbols(bits, chances, LINES, high - 1), lengths

    line = np.log(high - low) + mean * entropy(chances)
    return Language(independent_lines(lines), line / (mean + 1))


def bigram(ids: np.ndarray, vocabulary: int, lag: int = 1) -> Language:
    """Lines of 99 to 118 tokens, each drawn from what follows, in the text `ids`, the token that
    stands `lag` places before it in the line; the first `lag` of them, and any after a token that
    nothing follows, by frequency.

    The entropy is exact: that of each step, at the chances of the tokens before it, step by step
    from the first.
    """
    low, high = 99, 119
    chances = frequencies(ids, vocabulary)
    pairs = ids[:-1].astype(np.int64) * vocabulary + ids[1:]
    keys, counts = np.unique(pairs[(ids[:-1] != END_ID) & (ids[1:] != END_ID)], return_counts=True)
    before, after = keys // vocabulary, keys % vocabulary
    totals = np.bincount(before, counts, vocabulary).astype(np.int64)
    edges, starts = np.cumsum(counts), np.cumsum(totals) - totals

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        lengths = whole(bits, low, high, LINES)
        table = np.empty((LINES, high - 1), dtype=np.int64)
        for place in range(lag):
            table[:, place] = symbols(bits, chances, LINES)
        for place in range(lag, high - 1):
            last, draw = table[:, place - lag], doubles(bits, LINES)
            pick = starts[last] + (draw * totals[last]).astype(np.int64)
            found = np.searchsorted(edges, pick, side="right").clip(max=len(after) - 1)
            table[:, place] = np.where(
                totals[last] > 0, after[found], symbols(bits, chances, LINES)
            )
        return table, lengths

    shares = counts / totals[before]
    step = csr_array((shares, (before, after)), shape=(vocabulary, vocabulary)).T
    surprise = np.bincount(before, -shares * np.log(shares), vocabulary)
    stuck = totals == 0
    surprise[stuck] = entropy(chances)
    line, here = np.log(high - low) + lag * entropy(chances), chances
    for place in range(lag, high - 1):
        reached = np.mean(np.arange(low, high) > place)  # share of lines with a token here
        line += reached * float(here @ surprise)
        if (place + 1) % lag == 0:  # each of the `lag` chains has made a step
            here = step @ here + here[stuck].sum() * chances
    return Language(independent_lines(lines), float(line) / ((low + high - 1) / 2 + 1))
