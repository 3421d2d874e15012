"""Languages in which every token occurs again: side by side, shuffled, nested, or in a copy.

Chiang & Lee (2022, arXiv:2109.03537): Flat-2, Flat-4, Flat-6, Flat-128 (which they also call Flat)
and Nesting. Copies are this project's own. `chances` are those of each token, by id.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from .lines import LINES, Language, doubles, ended, entropy, independent_lines, symbols, whole


@dataclass(frozen=True)
class Flat:
    """How a line of drawn tokens is cut: groups of `sizes`, until `rest` or fewer are left, which
    are dropped. Each group is doubled and shuffled."""

    lengths: tuple[int, int]  # tokens drawn, from the first to below the second
    sizes: tuple[int, int]  # likewise
    rest: int


FLAT = {
    "flat-2": Flat((55, 60), (1, 2), 0),
    "flat-4": Flat((55, 62), (2, 3), 2),
    "flat-6": Flat((55, 62), (2, 4), 2),
    "flat-128": Flat((50, 62), (61, 62), 0),  # one group: the whole line
}

OPENING = 0.4  # chance that a step of Nesting opens, where there is something to close


def doubled_entropy(chances: np.ndarray, size: int) -> float:
    """Of `size` independent tokens, each doubled, in random order; in nats.

    The order says nothing but how often each token was drawn. With m of a token, `size` tokens have
    size!/prod(m!) orders and their doubles (2 size)!/prod((2m)!); the first entropy loses the
    logarithm of the one and gains that of the other, on average over binomial m.
    """
    some = chances[chances > 0][:, None]
    times = np.arange(size + 1)
    ways = gammaln(size + 1) - gammaln(times + 1) - gammaln(size - times + 1)
    share = np.exp(ways + xlogy(times, some) + xlog1py(size - times, -some))
    repeats = share * (gammaln(times + 1) - gammaln(2 * times + 1))
    orders = gammaln(2 * size + 1) - gammaln(size + 1)
    return float(size * entropy(chances) + orders + repeats.sum())


def flat(chances: np.ndarray, kind: Flat) -> Language:
    """Lines of doubled, shuffled groups.

    Exact entropy where groups have one size. With several, where they end cannot always be seen in
    the line; the entropy given the sizes, plus that of the line's length, is a lower bound.
    """
    low, high = kind.lengths
    least, above = kind.sizes

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        drawn = whole(bits, low, high, LINES, 1)
        tokens = symbols(bits, chances, LINES, high - 1)
        sizes = whole(bits, least, above, LINES, -(-(high - 1) // least))
        ends = np.cumsum(sizes, axis=1)
        starts = ends - sizes
        used = np.where(starts + kind.rest < drawn, ends, 0).max(axis=1, keepdims=True)
        used = np.minimum(used, drawn)
        places = np.arange(high - 1)
        groups = (places[None, :, None] >= ends[:, None, :]).sum(axis=2)
        # Sorting by group plus a fraction shuffles inside the groups; what is dropped comes last.
        group = np.where(places < used, groups, high)
        keys = np.concatenate([group, group], axis=1) + doubles(bits, LINES, 2 * (high - 1))
        order = np.argsort(keys, axis=1, kind="stable")
        both = np.concatenate([tokens, tokens], axis=1)
        return np.take_along_axis(both, order, axis=1), 2 * used[:, 0]

    @cache
    def group_entropy(size: int) -> float:
        return doubled_entropy(chances, size)

    @cache
    def expected(left: int) -> tuple[float, dict[int, float]]:
        """Entropy of the groups of the `left` tokens, and the chances of how many of them stay."""
        if left <= kind.rest:
            return 0.0, {0: 1.0}
        total, stay = 0.0, dict[int, float]()
        for size in range(least, above):
            taken = min(size, left)
            more, lengths = expected(left - taken)
            total += (group_entropy(taken) + more) / (above - least)
            for length, chance in lengths.items():
                stay[length + taken] = stay.get(length + taken, 0) + chance / (above - least)
        return total, stay

    cases = [expected(drawn) for drawn in range(low, high)]
    lengths = np.zeros(high)
    for _, stay in cases:
        for length, chance in stay.items():
            lengths[length] += chance / len(cases)
    line = float(np.mean([total for total, _ in cases])) + entropy(lengths)
    tokens = 2 * float(lengths @ np.arange(high)) + 1
    return Language(independent_lines(lines), line / tokens, exact=above - least == 1)


def copies(chances: np.ndarray) -> Language:
    """Lines of 100 to 119 tokens that repeat one segment of 16 to 31 independent tokens.

    The entropy is that of an observer who also knows the length of the segment: a lower bound.
    """
    low, high = 100, 120
    shortest, longest = 16, 32

    def lines(bits: np.random.PCG64) -> tuple[np.ndarray, np.ndarray]:
        lengths = whole(bits, low, high, LINES)
        segments = whole(bits, shortest, longest, LINES, 1)
        tokens = symbols(bits, chances, LINES, longest - 1)
        return np.take_along_axis(tokens, np.arange(high - 1) % segments, axis=1), lengths

    line = np.log(high - low) + (shortest + longest - 1) / 2 * entropy(chances)
    return Language(independent_lines(lines), line / ((low + high - 1) / 2 + 1), exact=False)


def nesting(chances: np.ndarray) -> Language:
    """One stream of nested pairs, cut into lines of 80 to 124 tokens; a line's end leaves the stack
    as it is. A step opens with chance `OPENING`, or if the stack is empty: it pushes a new token
    and emits it; else it pops one and emits that.

    The entropy is that of an observer who also sees the stack: a lower bound, because a token equal
    to the one on top may have been popped or pushed. The depth is a random walk held at zero, empty
    with chance (1 - 2 OPENING) / (2 (1 - OPENING)), and what is on top has chances `chances`.
    """
    low, high = 80, 125

    def chunks(bits: np.random.PCG64) -> Iterator[np.ndarray]:
        stack: list[int] = []
        while True:
            lengths = whole(bits, low, high, LINES)
            steps = int(lengths.sum())
            opens = (doubles(bits, steps) < OPENING).tolist()
            fresh = symbols(bits, chances, steps).tolist()
            tokens = []
            for push, token in zip(opens, fresh, strict=True):
                if push or not stack:
                    stack.append(token)
                    tokens.append(token)
                else:
                    tokens.append(stack.pop())
            yield ended(np.array(tokens), lengths)

    empty = (1 - 2 * OPENING) / (2 * (1 - OPENING))
    some = chances[chances > 0]
    pushed = OPENING * some
    either = pushed + 1 - OPENING  # of the token on top
    step = -(pushed * np.log(pushed)).sum() + pushed * np.log(pushed) - either * np.log(either)
    token = empty * entropy(chances) + (1 - empty) * float(some @ step)
    mean = (low + high - 1) / 2
    return Language(chunks, (mean * token + np.log(high - low)) / (mean + 1), exact=False)
