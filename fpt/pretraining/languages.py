"""The synthetic languages by name, and the generators of those with structure.

Those of Chiang & Lee (2022, arXiv:2109.03537; the small vocabularies: 2020, arXiv:2012.11995) have
this project's vocabulary: 4,095 tokens and the `END` of a line, where they had 29,995, so the
largest set of tokens that `nesting` can have is 4,095, and their 5,000 has no counterpart. Copies,
Dyck languages and cellular automata (Wolfram 1983) are this project's own. "By frequency" means as
often as the ids occur in the first 4M tokens of the English corpus. `probabilities` are those of
each token, by id.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from .lines import (
    LINES,
    Bits,
    Language,
    bigram,
    commonest,
    doubles,
    ended,
    entropy,
    frequencies,
    independent_lines,
    integers,
    relabelled,
    symbols,
    uniform,
    unigram,
)

OPENING = 0.4  # probability that a step of Nesting opens, if there is something to close


def doubled_entropy(probabilities: np.ndarray, size: int) -> float:
    """Of `size` independent tokens, each doubled, in random order; in nats.

    The order says nothing but how often each token was drawn. With m of a token, `size` tokens have
    size!/prod(m!) orders and their doubles (2 size)!/prod((2m)!); the first entropy loses the
    logarithm of the one and gains that of the other, on average over binomial m.
    """
    some = probabilities[probabilities > 0][:, None]
    times = np.arange(size + 1)
    ways = gammaln(size + 1) - gammaln(times + 1) - gammaln(size - times + 1)
    share = np.exp(ways + xlogy(times, some) + xlog1py(size - times, -some))
    repeats = share * (gammaln(times + 1) - gammaln(2 * times + 1))
    orders = gammaln(2 * size + 1) - gammaln(size + 1)
    return float(size * entropy(probabilities) + orders + repeats.sum())


def flat(
    probabilities: np.ndarray, lengths: tuple[int, int], sizes: tuple[int, int], rest: int
) -> Language:
    """Lines of `lengths` drawn tokens (from the first to below the second), which are cut into
    groups of `sizes` (likewise) until `rest` or fewer are left and dropped. Each group is doubled
    and shuffled.

    Exact entropy for groups of one size. With several, where they end cannot always be seen in the
    line; the entropy given the sizes, plus that of the line's length, is a lower bound.
    """
    low, high = lengths
    least, above = sizes

    def lines(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
        drawn = integers(bits, low, high, LINES, 1)
        tokens = symbols(bits, probabilities, LINES, high - 1)
        ends = np.cumsum(integers(bits, least, above, LINES, -(-(high - 1) // least)), axis=1)
        starts = np.pad(ends, ((0, 0), (1, 0)))[:, :-1]
        used = np.where(starts + rest < drawn, ends, 0).max(axis=1, keepdims=True)
        used = np.minimum(used, drawn)
        places = np.arange(high - 1)
        groups = (places[None, :, None] >= ends[:, None, :]).sum(axis=2)
        # Sorting by group plus a fraction shuffles inside the groups; what is dropped comes last.
        group = np.where(places < used, groups, high)
        keys = np.concatenate([group, group], axis=1) + doubles(bits, LINES, 2 * (high - 1))
        order = np.argsort(keys, axis=1, kind="stable")
        both = np.concatenate([tokens, tokens], axis=1)
        return np.take_along_axis(both, order, axis=1), 2 * used[:, 0]

    # Of the groups of so many tokens: their entropy, and how probable it is that 0, 1, ... stay.
    group_entropy = cache(partial(doubled_entropy, probabilities))
    total, stay = np.zeros(high), np.zeros((high, high))
    stay[: rest + 1, 0] = 1
    for left in range(rest + 1, high):
        for size in range(least, above):
            taken = min(size, left)
            total[left] += (group_entropy(taken) + total[left - taken]) / (above - least)
            stay[left, taken:] += stay[left - taken, : high - taken] / (above - least)
    staying = stay[low:].mean(axis=0)
    line = total[low:].mean() + entropy(staying)
    tokens = 2 * staying @ np.arange(high) + 1
    return Language(independent_lines(lines), line / tokens, exact=above - least == 1)


def nesting(probabilities: np.ndarray) -> Language:
    """One stream of nested pairs, cut into lines of 80 to 124 tokens; a line's end leaves the stack
    as it is. A step opens with probability `OPENING`, or if the stack is empty: it pushes a new
    token and emits it; else it pops one and emits that.

    The entropy is that of an observer who also sees the stack: a lower bound, because a token equal
    to the one on top may have been popped or pushed. The depth is a random walk held at zero, empty
    with probability (1 - 2 OPENING) / (2 (1 - OPENING)); the token on top follows `probabilities`.
    """
    low, high = 80, 125

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
    some = probabilities[probabilities > 0]
    pushed = OPENING * some
    either = pushed + 1 - OPENING  # of the token on top
    step = -(pushed * np.log(pushed)).sum() + pushed * np.log(pushed) - either * np.log(either)
    token = empty * entropy(probabilities) + (1 - empty) * float(some @ step)
    mean = (low + high - 1) / 2
    return Language(chunks, (mean * token + np.log(high - low)) / (mean + 1), exact=False)


def shuffle(probabilities: np.ndarray, size: int, blocks: tuple[int, int]) -> Language:
    """Lines of blocks of `size` neighbouring ids in random order, the least of them drawn by its
    frequency; `blocks` of them, from the first number to below the second, at most 124 tokens.

    Exact entropy, unless a block is cut to the limit: its last tokens are dropped, the others leave
    a few candidates for its least id, and the logarithm of their number is taken off (a lower
    bound).
    """
    limit, (low, high) = 124, blocks
    least = probabilities[: len(probabilities) - size + 1]
    least = least / least.sum()

    def lines(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.minimum(integers(bits, low, high, LINES) * size, limit)
        first = symbols(bits, least, LINES, high - 1, 1)
        order = np.argsort(doubles(bits, LINES, high - 1, size), axis=2, kind="stable")
        return (first + order).reshape(LINES, -1), lengths

    counts = np.arange(low, high)
    lengths = np.minimum(counts * size, limit)
    dropped = counts * size - lengths
    lost = np.where(dropped > 0, gammaln(dropped + 1) + np.log(dropped + 1), 0.0)
    line = (counts * (entropy(least) + gammaln(size + 1)) - lost).mean() + np.log(high - low)
    return Language(independent_lines(lines), line / (lengths.mean() + 1), exact=not dropped.any())


def copies(probabilities: np.ndarray) -> Language:
    """Lines of 100 to 119 tokens that repeat one segment of 16 to 31 independent tokens.

    The entropy is that of an observer who also knows the length of the segment: a lower bound.
    """
    low, high = 100, 120
    shortest, longest = 16, 32

    def lines(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
        lengths = integers(bits, low, high, LINES)
        segments = integers(bits, shortest, longest, LINES, 1)
        tokens = symbols(bits, probabilities, LINES, longest - 1)
        return np.take_along_axis(tokens, np.arange(high - 1) % segments, axis=1), lengths

    line = np.log(high - low) + (shortest + longest - 1) / 2 * entropy(probabilities)
    return Language(independent_lines(lines), line / ((low + high - 1) / 2 + 1), exact=False)


def dyck(types: int) -> Language:
    """Lines of 50 to 61 pairs of brackets, uniform among all balanced lines of their length; ids 1
    to `types` open, the next `types` close. Exact entropy: n pairs have Catalan(n) * types^n lines.
    """
    low, high = 50, 62

    def lines(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
        pairs = integers(bits, low, high, LINES, 1)
        places, width = np.arange(2 * high - 1), 2 * high - 2
        # By the cycle lemma exactly one rotation of n steps up and n + 1 down stays at or above
        # zero until the last step: the one that begins after the first lowest point.
        keys = np.where(places <= 2 * pairs, doubles(bits, LINES, len(places)), 2.0)
        steps = np.where(np.argsort(keys, axis=1, kind="stable") < pairs, 1, -1)
        heights = np.where(places <= 2 * pairs, np.cumsum(steps, axis=1), high)
        turn = heights.argmin(axis=1, keepdims=True) + 1
        rows = (turn + places[:width]) % (2 * pairs + 1)
        opens = np.take_along_axis(steps, rows, axis=1) > 0
        inside = places[:width] < 2 * pairs
        depth = np.cumsum(np.where(opens, 1, -1), axis=1) - opens
        # Among brackets of one depth, in order, each that opens is followed by its own close.
        partners = np.argsort(np.where(inside, depth, high), axis=1, kind="stable")
        kinds = np.repeat(integers(bits, 1, types + 1, LINES, width // 2), 2, axis=1)
        table = np.empty((LINES, width), dtype=np.int64)
        np.put_along_axis(table, partners, kinds, axis=1)
        return np.where(opens, table, table + types), 2 * pairs[:, 0]

    pairs = np.arange(low, high)
    catalan = gammaln(2 * pairs + 1) - gammaln(pairs + 1) - gammaln(pairs + 2)
    line = float((catalan + pairs * np.log(types)).mean()) + np.log(high - low)
    return Language(independent_lines(lines), line / (2 * pairs.mean() + 1))


def automaton(rule: int, steps: int) -> Language:
    """Lines of 13 to 15 rows of 32 cells on a ring, each row `steps` applications of the elementary
    cellular automaton `rule` after the one before it, the first one random; four cells are one
    token, ids 1 to 16.

    A cell is a function of 2 steps + 1 cells of the row above it. Exact entropy: the first row and
    the number of rows say all.
    """
    (low, high), cells, group = (13, 16), 32, 4
    width = cells // group

    def lines(bits: Bits) -> tuple[np.ndarray, np.ndarray]:
        row = integers(bits, 0, 2, LINES, cells)
        rows = [row]
        for _ in range(1, high - 1):
            for _ in range(steps):
                around = 4 * np.roll(row, 1, axis=1) + 2 * row + np.roll(row, -1, axis=1)
                row = (rule >> around) & 1
            rows.append(row)
        grouped = np.stack(rows, axis=1).reshape(LINES, -1, group)
        tokens = 1 + grouped @ (1 << np.arange(group)[::-1])
        return tokens, width * integers(bits, low, high, LINES)

    tokens = width * (low + high - 1) / 2 + 1
    return Language(independent_lines(lines), (cells * np.log(2) + np.log(high - low)) / tokens)


# Languages that need no text, and those made from the ids of English.
ALONE: Mapping[str, Callable[[], Language]] = {
    "uniform": lambda: unigram(uniform()),
    "nesting-uniform": lambda: nesting(uniform()),
    "dyck-64": lambda: dyck(64),
    "rule-110": lambda: automaton(110, 1),
    "rule-110-3": lambda: automaton(110, 3),
}
FROM_ENGLISH: Mapping[str, Callable[[np.ndarray], Language]] = {
    "unigram": lambda ids: unigram(frequencies(ids)),
    "bigram": lambda ids: bigram(relabelled(ids)),
    "bigram-16": lambda ids: bigram(relabelled(ids), lag=16),
    "copies": lambda ids: copies(frequencies(ids)),
    "flat-2": lambda ids: flat(frequencies(ids), (55, 60), (1, 2), 0),
    "flat-4": lambda ids: flat(frequencies(ids), (55, 62), (2, 3), 2),
    "flat-6": lambda ids: flat(frequencies(ids), (55, 62), (2, 4), 2),
    "flat-128": lambda ids: flat(frequencies(ids), (50, 62), (61, 62), 0),  # the whole line
    "nesting": lambda ids: nesting(frequencies(ids)),
    "nesting-50": lambda ids: nesting(commonest(frequencies(ids), 50)),
    "nesting-500": lambda ids: nesting(commonest(frequencies(ids), 500)),
    "shuffle-4": lambda ids: shuffle(frequencies(ids), 4, (22, 30)),
    "shuffle-6": lambda ids: shuffle(frequencies(ids), 6, (18, 20)),
    "shuffle-8": lambda ids: shuffle(frequencies(ids), 8, (14, 15)),
    "shuffle-16": lambda ids: shuffle(frequencies(ids), 16, (7, 8)),
    "shuffle-32": lambda ids: shuffle(frequencies(ids), 32, (3, 5)),
    "shuffle-64": lambda ids: shuffle(frequencies(ids), 64, (2, 3)),
}
LANGUAGES = (*ALONE, *FROM_ENGLISH)
