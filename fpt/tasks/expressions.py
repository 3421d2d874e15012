"""ListOps expressions: random trees by Long Range Arena's sampling rule, and their values.

The rule: a node above the maximum depth is an operator with probability 1/4, else a digit, each
of the ten as likely; an operator is one of MIN, MAX, MED, SM and has 2 to `max_args` arguments,
each count as likely; a tree is kept if its token count lies in the window. Trees are drawn for many
roots at once, one level at a time, in integers only, so every machine draws the same.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..files import FptError

SYMBOLS = ("pad", *"0123456789", "MIN", "MAX", "MED", "SM", "]")
DIGIT, OPERATOR, CLOSE = 1, 11, 15  # token of the digit 0, of MIN, of the closing bracket
MIN, MAX, MED, SM = range(4)
ROOTS = 20_000  # trees begun at a time
IN_VAIN = 200  # times that nothing new was found before the search ends


@dataclass(frozen=True)
class Expressions:
    """Trees written as tokens end to end: expression i is tokens[starts[i]:starts[i + 1]]."""

    tokens: np.ndarray  # uint8, closing brackets included
    starts: np.ndarray  # (N + 1,) int64
    values: np.ndarray  # (N,) uint8
    depths: np.ndarray  # (N,) uint8, nested operators

    def __len__(self) -> int:
        return len(self.values)


@dataclass
class _Level:
    tree: np.ndarray  # which root a node belongs to
    parent: np.ndarray  # index of its parent one level up
    op: np.ndarray  # MIN..SM, or -1 for a digit
    digit: np.ndarray
    args: np.ndarray  # number of arguments, 0 for a digit

    def keep(self, nodes: np.ndarray) -> "_Level":
        return _Level(*(a[nodes] for a in (self.tree, self.parent, self.op, self.digit, self.args)))


def _grow(
    rng: np.random.Generator, roots: int, max_depth: int, max_args: int, max_length: int
) -> tuple[list[_Level], np.ndarray]:
    """The levels of `roots` random trees and their token counts; too long a tree stops growing."""
    tree, parent = np.arange(roots), np.full(roots, -1)
    sizes, levels = np.zeros(roots, dtype=np.int64), []
    for depth in range(1, max_depth + 1):
        count = len(tree)
        inner = rng.integers(0, 4, count) == 0 if depth < max_depth else np.zeros(count, bool)
        op = np.where(inner, rng.integers(0, 4, count), -1)
        digit = rng.integers(0, 10, count)
        args = np.where(inner, rng.integers(2, max_args + 1, count), 0)
        sizes += np.bincount(tree, 1 + inner, roots).astype(np.int64)
        args[sizes[tree] > max_length] = 0
        levels.append(_Level(tree, parent, op, digit, args))
        parent = np.repeat(np.arange(count), args)
        tree = tree[parent]
        if not len(tree):
            break
    return levels, sizes


def _select(levels: list[_Level], kept: np.ndarray) -> list[_Level]:
    """The same levels with only the trees `kept` (bool per root), renumbered."""
    number, above = kept.cumsum() - 1, np.zeros(0, dtype=np.int64)
    selected: list[_Level] = []
    for level in levels:
        nodes = kept[level.tree]
        part = level.keep(nodes)
        part.tree = number[part.tree]
        if selected:
            part.parent = above[part.parent]
        above = nodes.cumsum() - 1
        if len(part.tree):
            selected.append(part)
    return selected


def _reduce(op: np.ndarray, args: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values of operators from those of their arguments, which follow one another in `values`."""
    starts = args.cumsum() - args
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(args)), args)))]
    low, high = ordered[starts + (args - 1) // 2], ordered[starts + args // 2]
    results = [
        np.minimum.reduceat(values, starts),
        np.maximum.reduceat(values, starts),
        (low + high) // 2,  # the median of an even count is rounded down
        np.add.reduceat(values, starts) % 10,
    ]
    return np.choose(op, results)


def _write(levels: list[_Level]) -> Expressions:
    sizes, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for level in reversed(levels):
        inner = level.op >= 0
        size, value = np.ones(len(inner), np.int64), level.digit.copy()
        if inner.any():
            args = level.args[inner]
            size[inner] = 2 + np.add.reduceat(sizes[-1], args.cumsum() - args)
            value[inner] = _reduce(level.op[inner], args, values[-1])
        sizes.append(size)
        values.append(value)
    starts = np.concatenate([[0], sizes[-1].cumsum()])
    tokens = np.zeros(starts[-1], np.uint8)
    depths = np.zeros(len(starts) - 1, np.uint8)
    begin = starts[:-1]
    for level, size, below in zip(levels, sizes[:0:-1], sizes[-2::-1], strict=True):
        inner = level.op >= 0
        tokens[begin] = np.where(inner, OPERATOR + level.op, DIGIT + level.digit)
        tokens[(begin + size - 1)[inner]] = CLOSE
        if inner.any():
            depths[np.unique(level.tree[inner])] += 1
            args = level.args[inner]
            # A child begins after its parent's operator and the siblings before it.
            offset = below.cumsum() - below
            offset -= np.repeat(offset[args.cumsum() - args], args)
            begin = np.repeat(begin[inner] + 1, args) + offset
    return Expressions(tokens, starts, values[-1].astype(np.uint8), depths)


def generate(
    rng: np.random.Generator,
    count: int,
    max_depth: int,
    max_args: int,
    min_length: int,
    max_length: int,
) -> list[Expressions]:
    """At least `count` expressions with min_length < tokens <= max_length, in blocks.

    Lengths count digits, operators and closing brackets. No expression occurs twice. FptError where
    there are not so many, or too few to be found by chance.
    """
    blocks: list[Expressions] = []
    seen: set[bytes] = set()
    total = in_vain = 0
    while total < count:
        if in_vain == IN_VAIN:
            raise FptError(
                f"Only {total} of {count} different ListOps expressions with {min_length} < tokens "
                f"<= {max_length} were found; widen that window, allow more depth or arguments, or "
                "ask for fewer examples."
            )
        in_vain += 1
        levels, sizes = _grow(rng, ROOTS, max_depth, max_args, max_length)
        kept = (sizes > min_length) & (sizes <= max_length)
        if not kept.any():
            continue
        block = _write(_select(levels, kept))
        new = []
        for i in range(len(block)):
            text = block.tokens[block.starts[i] : block.starts[i + 1]].tobytes()
            name = blake2b(text, digest_size=16).digest()
            if name not in seen:
                seen.add(name)
                new.append(i)
        blocks.append(block if len(new) == len(block) else take(block, np.array(new, np.int64)))
        total += len(new)
        if new:
            in_vain = 0
    return blocks


def take(block: Expressions, rows: np.ndarray) -> Expressions:
    """The expressions `rows` of `block`."""
    parts = [block.tokens[block.starts[i] : block.starts[i + 1]] for i in rows]
    starts = np.array([0, *map(len, parts)], dtype=np.int64).cumsum()
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return Expressions(tokens, starts, block.values[rows], block.depths[rows])


def evaluate(tokens: list[int]) -> int:
    """The value of one expression, by a stack: the definition that the generator is tested on."""
    stack: list[list[int]] = [[]]
    operators: list[int] = []
    for token in tokens:
        if token >= CLOSE:
            values, op = sorted(stack.pop()), operators.pop()
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            stack[-1].append([values[0], values[-1], middle, sum(values) % 10][op])
        elif token >= OPERATOR:
            operators.append(token - OPERATOR)
            stack.append([])
        else:
            stack[-1].append(token - DIGIT)
    ((value,),) = stack
    return value
