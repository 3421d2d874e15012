"""The synthetic languages by name, and the generators of those with structure.

Those of Chiang & Lee (2022, arXiv:2109.03537) have this project's vocabulary: 4,095 tokens
and the `END` of a line instead of their 29,995. Copies, Dyck languages and cellular
automata (Wolfram 1983) are this project's own. "By frequency" means as often as the ids
occur in the first 4M tokens of the English corpus. `probabilities` are those of each token,
by id.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from .lines import (
    LINES,
    Bits,
    Language,
    bigram,
    doubles,
    ended,
    entropy,
    frequencies,
    independent_lines,
    integers,
    per_token,
    relabelled,
    symbols,
    uniform,
    unigram,
)

# Probability that a step of Nesting opens, if there is something to close.
OPENING = 0.4


def doubled_entropy(probabilities: np.ndarray, size: int) -> float:
    """Of `size` independent tokens, each doubled, in random order; in nats.

    The order says nothing but how often each token was drawn. With m of a token, `size`
    tokens have size!/prod(m!) orders and their doubles (2 size)!/prod((2m)!); the first
    entropy loses the logarithm of the one and gains that of the other, on average over
    binomial m.
    """
    chance = probabilities[probabilities > 0][:, None]
    times = np.arange(size + 1)
    ways = gammaln(size + 1) - gammaln(times + 1) - gammaln(size - times + 1)
    share = np.exp(ways + xlogy(times, chance) + xlog1py(size - times, -chance))
    repeats = share * (gammaln(times + 1) - gammaln(2 * times + 1))
    orders = gammaln(2 * size + 1) - gammaln(size + 1)
    return float(size * entropy(probabilities) + orders + repeats.sum())


def flat(
    probabilities: np.ndarray,
    low: int,
    high: int,
    size: int,
) -> Language:
    """Lines of `low` to below `high` drawn tokens, in groups of `size`, the last of which
    may be smaller. Each group is doubled and shuffled. Exact entropy."""

    def draw(bits: Bits, drawn: np.ndarray) -> np.ndarray:
        tokens = symbols(bits, probabilities, LINES, high - 1)
        # These draws are unused; committed corpora have this gap.
        bits.advance(LINES * -(-(high - 1) // size))
        places = np.arange(high - 1)
        # Sorting by group plus a fraction shuffles inside the groups; what is dropped comes
        # last.
        group = np.where(places < drawn, places // size, high)
        keys = np.tile(group, 2) + doubles(bits, LINES, 2 * (high - 1))
        order = np.argsort(keys, axis=1, kind="stable")
        return np.take_along_axis(np.tile(tokens, 2), order, axis=1)

    def line_entropy(drawn: int) -> float:
        groups, rest = divmod(drawn, size)
        of_groups = groups * doubled_entropy(probabilities, size)
        return of_groups + doubled_entropy(probabilities, rest)

    lines = [line_entropy(drawn) for drawn in range(low, high)]
    return independent_lines(low, high, draw, float(np.mean(lines)), unit=2)


def nesting(probabilities: np.ndarray) -> Language:
    """One stream of nested pairs, cut into lines of 80 to 124 tokens; a line's end leaves
    the stack as it is. A step opens with probability `OPENING`, or if the stack is empty:
    it pushes a new token and emits it; else it pops one and emits that.

    The entropy is that of an observer who also sees the stack: a lower bound, because a
    token equal to the one on top may have been popped or pushed. The depth is a random walk
    held at zero, empty with probability (1 - 2 OPENING) / (2 (1 - OPENING)); the token on
    top follows `probabilities`.
    """
    low = 80
    high = 125

    def chunks(bits: Bits) -> Iterator[np.ndarray]:
        stack: list[int] = []
        while True:
            lengths = integers(bits, low, high, LINES)
            steps = int(lengths.sum())
            opens = (doubles(bits, steps) < OPENING).tolist()
            fresh = symbols(bits, probabilities, steps).tolist()
            tokens = []
            for push, token in zip(opens, fresh, strict=True):
                if push or not stack:
                    stack.append(token)
                    tokens.append(token)
                else:
                    tokens.append(stack.pop())
            yield ended(np.array(tokens), lengths)

    empty = (1 - 2 * OPENING) / (2 * (1 - OPENING))
    # The probabilities of the token on top of the stack.
    top = probabilities[probabilities > 0]
    pushed = OPENING * top
    # That token comes next, pushed or popped.
    either = pushed + 1 - OPENING
    surprise = pushed * np.log(pushed)
    step = -surprise.sum() + surprise - either * np.log(either)
    token = empty * entropy(probabilities) + (1 - empty) * float(top @ step)
    line = (low + high - 1) / 2 * token
    return Language(chunks, per_token(line, low, high), exact=False)


def shuffle(probabilities: np.ndarray) -> Language:
    """Lines of two blocks of 64 neighbouring ids in random order, the least of each block
    drawn by its frequency; the last four tokens of a line are dropped.

    What is left of the second block leaves a few candidates for its least id: the logarithm
    of their number is taken off the entropy, which makes it a lower bound.
    """
    blocks = 2
    size = 64
    dropped = 4
    length = blocks * size - dropped
    least = probabilities[: len(probabilities) - size + 1]
    least = least / least.sum()

    def draw(bits: Bits, lengths: np.ndarray) -> np.ndarray:
        first = symbols(bits, least, LINES, blocks, 1)
        order = np.argsort(doubles(bits, LINES, blocks, size), axis=2, kind="stable")
        return (first + order).reshape(LINES, -1)

    lost = gammaln(dropped + 1) + np.log(dropped + 1)
    line = blocks * (entropy(least) + gammaln(size + 1)) - lost
    return independent_lines(length, length + 1, draw, line, exact=False)


def copies(probabilities: np.ndarray) -> Language:
    """Lines of 100 to 119 tokens that repeat one segment of 16 to 31 independent tokens.

    The entropy is that of an observer who also knows the length of the segment: a lower
    bound.
    """
    shortest = 16
    longest = 31

    def draw(bits: Bits, lengths: np.ndarray) -> np.ndarray:
        segments = integers(bits, shortest, longest + 1, LINES, 1)
        tokens = symbols(bits, probabilities, LINES, longest)
        return np.take_along_axis(tokens, np.arange(lengths.max()) % segments, axis=1)

    line = (shortest + longest) / 2 * entropy(probabilities)
    return independent_lines(100, 120, draw, line, exact=False)


def dyck(types: int) -> Language:
    """Lines of 50 to 61 pairs of brackets, uniform among all balanced lines of their
    length; ids 1 to `types` open, the next `types` close. Exact entropy: n pairs have
    Catalan(n) * types^n lines.
    """
    low = 50
    high = 62
    width = 2 * high - 2

    def draw(bits: Bits, pairs: np.ndarray) -> np.ndarray:
        places = np.arange(2 * high - 1)
        # By the cycle lemma exactly one rotation of n steps up and n + 1 down stays at or
        # above zero until the last step: the one that begins after the first lowest point.
        exists = places <= 2 * pairs
        keys = np.where(exists, doubles(bits, LINES, len(places)), 2.0)
        order = np.argsort(keys, axis=1, kind="stable")
        steps = np.where(order < pairs, 1, -1)
        heights = np.where(exists, np.cumsum(steps, axis=1), high)
        turn = heights.argmin(axis=1, keepdims=True) + 1
        rows = (turn + places[:width]) % (2 * pairs + 1)
        opens = np.take_along_axis(steps, rows, axis=1) > 0
        inside = places[:width] < 2 * pairs
        depth = np.cumsum(np.where(opens, 1, -1), axis=1) - opens
        # Among brackets of one depth, in order, each that opens is followed by its own
        # close.
        partners = np.argsort(np.where(inside, depth, high), axis=1, kind="stable")
        kinds = integers(bits, 1, types + 1, LINES, width // 2)
        table = np.empty((LINES, width), dtype=np.int64)
        np.put_along_axis(table, partners, np.repeat(kinds, 2, axis=1), axis=1)
        return np.where(opens, table, table + types)

    pairs = np.arange(low, high)
    catalan = gammaln(2 * pairs + 1) - gammaln(pairs + 1) - gammaln(pairs + 2)
    line = float((catalan + pairs * np.log(types)).mean())
    return independent_lines(low, high, draw, line, unit=2)


def automaton(rule: int) -> Language:
    """Lines of 13 to 15 rows of 32 cells on a ring, each row made from the one before it by
    the elementary cellular automaton `rule`, the first one random; four cells are one
    token, ids 1 to 16. Exact entropy: the first row and the number of rows say all.
    """
    low = 13
    high = 16
    cells = 32
    # Cells that make a token.
    group = 4
    width = cells // group

    def chunks(bits: Bits) -> Iterator[np.ndarray]:
        while True:
            row = integers(bits, 0, 2, LINES, cells)
            rows = [row]
            for _ in range(1, high - 1):
                left = np.roll(row, 1, axis=1)
                right = np.roll(row, -1, axis=1)
                row = (rule >> (4 * left + 2 * row + right)) & 1
                rows.append(row)
            grouped = np.stack(rows, axis=1).reshape(LINES, -1, group)
            tokens = 1 + grouped @ (1 << np.arange(group)[::-1])
            lengths = width * integers(bits, low, high, LINES, 1)
            yield ended(tokens[np.arange(tokens.shape[1]) < lengths], lengths)

    return Language(chunks, per_token(cells * np.log(2), low, high, width))


# Languages that need no text, and those made from the ids of English.
ALONE: Mapping[str, Callable[[], Language]] = {
    "uniform": lambda: unigram(uniform()),
    "dyck-64": lambda: dyck(64),
    "rule-110": lambda: automaton(110),
}
FROM_ENGLISH: Mapping[str, Callable[[np.ndarray], Language]] = {
    "unigram": lambda ids: unigram(frequencies(ids)),
    "bigram": lambda ids: bigram(relabelled(ids)),
    "bigram-16": lambda ids: bigram(relabelled(ids), lag=16),
    "copies": lambda ids: copies(frequencies(ids)),
    "flat-2": lambda ids: flat(frequencies(ids), 55, 60, 1),
    "flat-128": lambda ids: flat(frequencies(ids), 50, 62, 61),
    "nesting": lambda ids: nesting(frequencies(ids)),
    "shuffle-64": lambda ids: shuffle(frequencies(ids)),
}
LANGUAGES = (*ALONE, *FROM_ENGLISH)
