"""Two languages of this project's own, in which a token follows from far back or from a procedure.

Neither needs a text. `dyck`: brackets of several types, open and close told apart, every line
balanced; unlike Nesting's, its dependencies are as long as a line lets them be. `automaton`: the
rows of an elementary cellular automaton (Wolfram 1983), each a function of the row before it.
"""

import numpy as np
from scipy.special import gammaln

from .lines import LINES, Language, doubles, independent_lines, whole

CELLS = 32  # of a row, a ring
GROUP = 4  # cells in a token


def dyck(types: int) -> Language:
    """Lines of 50 to 61 pairs, uniform among all balanced lines of their length; ids 1 to `types`
    open, the next `types` close. Exact entropy: n pairs have Catalan(n) * types^n lines."""
    low, high = 50, 62

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        pairs = whole(bits, low, high, LINES, 1)
        places, width = np.arange(2 * high - 1), 2 * high - 2
        # By the cycle lemma exactly one rotation of n steps up and n + 1 down stays at or above
        # zero until the last step: the one that begins after the first lowest point.
        keys = np.where(places <= 2 * pairs, doubles(bits, LINES, len(places)), 2.0)
        shuffled = np.argsort(keys, axis=1, kind="stable")
        steps = np.where(shuffled < pairs, 1, -1)
        heights = np.where(places <= 2 * pairs, np.cumsum(steps, axis=1), high)
        turn = heights.argmin(axis=1, keepdims=True) + 1
        rows = (turn + places[:width]) % (2 * pairs + 1)
        opens = np.take_along_axis(steps, rows, axis=1) > 0
        inside = places[:width] < 2 * pairs
        depth = np.cumsum(np.where(opens, 1, -1), axis=1) - opens
        # Among brackets of one depth, in order, each that opens is followed by its own close.
        partners = np.argsort(np.where(inside, depth, high), axis=1, kind="stable")
        kinds = np.repeat(whole(bits, 1, types + 1, LINES, width // 2), 2, axis=1)
        table = np.empty((LINES, width), dtype=np.int64)
        np.put_along_axis(table, partners, kinds, axis=1)
        return np.where(opens, table, table + types), 2 * pairs[:, 0]

    pairs = np.arange(low, high)
    catalan = gammaln(2 * pairs + 1) - gammaln(pairs + 1) - gammaln(pairs + 2)
    line = float((catalan + pairs * np.log(types)).mean()) + np.log(high - low)
    return Language(independent_lines(lines), line / (2 * pairs.mean() + 1))


def automaton(rule: int, steps: int) -> Language:
    """Lines of 13 to 15 rows of 32 cells on a ring, each row `steps` applications of `rule` after
    the one before it, the first one random; four cells are one token, ids 1 to 16.

    A cell is a function of 2 steps + 1 cells of the row above it. Exact entropy: the first row and
    the number of rows say all.
    """
    low, high = 13, 16
    width = CELLS // GROUP

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        row = whole(bits, 0, 2, LINES, CELLS)
        rows = [row]
        for _ in range(1, high - 1):
            for _ in range(steps):
                around = 4 * np.roll(row, 1, axis=1) + 2 * row + np.roll(row, -1, axis=1)
                row = (rule >> around) & 1
            rows.append(row)
        cells = np.stack(rows, axis=1).reshape(LINES, -1, GROUP)
        tokens = 1 + cells @ (1 << np.arange(GROUP)[::-1])
        return tokens, width * whole(bits, low, high, LINES)

    tokens = width * (low + high - 1) / 2 + 1
    return Language(independent_lines(lines), (CELLS * np.log(2) + np.log(high - low)) / tokens)
