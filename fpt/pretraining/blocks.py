"""Shuffle-N: blocks of neighbouring ids in random order, dependencies as long as a block.

Chiang & Lee (2022, arXiv:2109.03537).
"""

import numpy as np
from scipy.special import gammaln

from .lines import LINES, Language, doubles, entropy, independent_lines, symbols, whole

# Size of a block -> blocks in a line, from the first number to below the second.
SHUFFLE = {4: (22, 30), 6: (18, 20), 8: (14, 15), 16: (7, 8), 32: (3, 5), 64: (2, 3)}


def shuffle(chances: np.ndarray, size: int, blocks: tuple[int, int]) -> Language:
    """Lines of blocks of `size` neighbouring ids in random order, the least of them drawn by its
    frequency; `blocks` of them, from the first number to below the second, at most 124 tokens.

    Exact entropy, except where a block is cut to the limit: its last tokens are dropped, the others
    leave a few candidates for its least id, and the logarithm of their number is taken off (a lower
    bound).
    """
    limit, (low, high) = 124, blocks
    least = chances[: len(chances) - size + 1]
    least = least / least.sum()

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.minimum(whole(bits, low, high, LINES) * size, limit)
        first = symbols(bits, least, LINES, high - 1, 1)
        order = np.argsort(doubles(bits, LINES, high - 1, size), axis=2, kind="stable")
        return (first + order).reshape(LINES, -1), lengths

    counts = np.arange(low, high)
    lengths = np.minimum(counts * size, limit)
    dropped = counts * size - lengths
    lost = np.where(dropped > 0, gammaln(dropped + 1) + np.log(dropped + 1), 0.0)
    block = entropy(least) + gammaln(size + 1)
    line = float((counts * block - lost).mean()) + np.log(high - low)
    return Language(independent_lines(lines), line / (lengths.mean() + 1), exact=not dropped.any())
