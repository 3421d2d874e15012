"""ListOps with Long Range Arena's sampling rule, as the paper's code read it and as it is
meant.

*released*: the code's tokeniser drops brackets, so 15 symbols remain; sequences are cut at
512, padded with 0 to 512, and position 512 is read. *intended*: 16 symbols, nothing is cut,
only expressions that fit the backbone's positions are drawn, and the last real token is
read.

The rule: a node above the maximum depth is an operator with probability 1/4, else a digit,
each of the ten equally likely; an operator is one of MIN, MAX, MED, SM and has 2 to
`max_args` arguments, each number equally likely; a tree is kept if its token count lies in
the window. Many trees are drawn at once, one level after the other, in integers only, so
every machine draws the same.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import FptError
from .base import Example, resolve
from .datasets import Arrays, Dataset, load
from .rng import numpy_generator
from .sequences import SequenceTask, end_to_end

PREPARATION = 1
RELEASED_LENGTH = 512
SPLITS = ("train", "valid", "test")
SYMBOLS = ("pad", *"0123456789", "MIN", "MAX", "MED", "SM", "]")
# The tokens of the digit 0, of MIN, and of the closing bracket.
DIGIT, OPERATOR, CLOSE = 1, 11, 15
# Trees that are drawn at a time.
ROOTS = 20_000
# The search ends after so many in a row without a new tree.
MAX_DRAWS_IN_VAIN = 200


class ListOps(SequenceTask):
    """Arrays per split as in SequenceTask; `<split>_depths` are the nested operators."""

    def measure_floors(self) -> dict[str, float]:
        """Adds `root operator`: the most frequent training label for each first token."""
        arrays = load(self.dataset)

        def roots(split: str) -> Tensor:
            return arrays[f"{split}_tokens"][arrays[f"{split}_starts"][:-1]].long()

        pairs = roots("train") * self.classes + self.labels("train")
        counts = torch.bincount(pairs, minlength=len(SYMBOLS) * self.classes)
        answers = counts.view(-1, self.classes).argmax(1)
        correct = answers[roots("test")] == self.labels("test")
        return super().measure_floors() | {"root operator": correct.double().mean().item()}

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        words = [("[" if OPERATOR <= t < CLOSE else "") + SYMBOLS[t] for t in tokens]
        return Example(str(label), text=" ".join(words))


def listops(**options: Any) -> ListOps:
    """Options: variant ("intended" or "released"); max_depth, max_args; the length window
    min_length < tokens <= max_length, brackets included; sizes of the splits.

    Defaults are Long Range Arena's (501 to 1999 tokens), for the intended variant at most
    1024.
    """
    defaults = {
        "variant": ("intended", "released"),
        "max_depth": 10,
        "max_args": 10,
        "min_length": None,
        "max_length": None,
        "train": 96_000,
        "valid": 2_000,
        "test": 10_000,
    }
    options = resolve("listops", options, defaults)
    released = options["variant"] == "released"
    high = options["max_length"] or (1999 if released else 1024)
    low = options["min_length"] or min(500, high // 2)
    options |= {"min_length": low, "max_length": high}
    if options["max_args"] < 2 or options["max_depth"] < 2 or not 3 <= low < high:
        raise FptError(
            "task 'listops' needs max_depth and max_args of at least 2 and 3 <= "
            f"min_length < max_length, not {options}."
        )
    identity = ("variant", "min_length", "max_length", "max_depth", "max_args", *SPLITS)
    values = "-".join(str(options[name]) for name in identity)
    key = f"listops-{values}-v{PREPARATION}"
    source = {"source": "generated", "preparation": PREPARATION}
    return ListOps(
        name="listops",
        options=options,
        dim=15 if released else 16,
        length=RELEASED_LENGTH if released else high,
        classes=10,
        sizes={split: options[split] for split in SPLITS},
        masked=not released,
        dataset=Dataset(
            key,
            source,
            lambda: _build(options, numpy_generator(key)),
        ),
    )


def _build(options: dict[str, Any], rng: np.random.Generator) -> Arrays:
    # All splits at once, because no expression may be in two of them.
    sequences, values, depths = generate(
        rng,
        count=sum(options[split] for split in SPLITS),
        max_depth=options["max_depth"],
        max_args=options["max_args"],
        window=(options["min_length"], options["max_length"]),
    )
    if options["variant"] == "released":
        # The released tokeniser splits at white space and drops what it does not know.
        sequences = [tokens[tokens != CLOSE][:RELEASED_LENGTH] for tokens in sequences]
    arrays: Arrays = {}
    first = 0
    for split in SPLITS:
        rows = slice(first, first + options[split])
        arrays |= end_to_end(split, sequences[rows], values[rows])
        arrays[f"{split}_depths"] = depths[rows]
        first = rows.stop
    return arrays


def generate(
    rng: np.random.Generator,
    count: int,
    max_depth: int,
    max_args: int,
    window: tuple[int, int],
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """`count` or more different expressions with window[0] < tokens <= window[1], closing
    brackets included: their tokens (uint8), their values (N,) and their depths (N,), uint8.

    FptError if there are not so many, or too few to be found by chance.
    """
    min_length, max_length = window
    # Tokens -> value and depth.
    expressions: dict[bytes, tuple[int, int]] = {}
    draws_in_vain = 0
    while len(expressions) < count:
        before = len(expressions)
        levels, sizes = _grow(rng, max_depth, max_args, max_length)
        fits = (sizes > min_length) & (sizes <= max_length)
        for root in np.flatnonzero(fits).tolist():
            tokens, value, depth = _expression(levels, root)
            expressions.setdefault(tokens, (value, depth))
        draws_in_vain = draws_in_vain + 1 if len(expressions) == before else 0
        if draws_in_vain == MAX_DRAWS_IN_VAIN:
            raise FptError(
                f"Only {len(expressions)} of {count} different ListOps expressions with "
                f"{min_length} < tokens <= {max_length} were found; widen that window, "
                "allow more depth or arguments, or ask for fewer examples."
            )
    values, depths = np.array(list(expressions.values()), np.uint8).T
    return [np.frombuffer(tokens, np.uint8) for tokens in expressions], values, depths


class _Level(NamedTuple):
    """The nodes of many trees at one depth, the arguments of one operator side by side."""

    operator: list[int]  # 0 to 3, or -1 for a digit
    digit: list[int]
    args: list[int]  # number of arguments, 0 for a digit
    first: list[int]  # place of the first argument in the next level


def _grow(
    rng: np.random.Generator, max_depth: int, max_args: int, max_length: int
) -> tuple[list[_Level], np.ndarray]:
    """The levels of `ROOTS` random trees and their token counts (ROOTS,); a tree that is
    too long stops growing."""
    # The tree of each node of the level.
    tree = np.arange(ROOTS)
    sizes = np.zeros(ROOTS, dtype=np.int64)
    levels = []
    for depth in range(1, max_depth + 1):
        count = len(tree)
        is_operator = np.zeros(count, bool)
        if depth < max_depth:
            is_operator = rng.integers(0, 4, count) == 0
        operator = np.where(is_operator, rng.integers(0, 4, count), -1)
        digit = rng.integers(0, 10, count)
        args = np.where(is_operator, rng.integers(2, max_args + 1, count), 0)
        # An operator is two tokens, one that opens and one that closes.
        sizes += np.bincount(tree, 1 + is_operator, ROOTS).astype(np.int64)
        # A tree that is too long is not kept, so nothing more is drawn for it.
        args[sizes[tree] > max_length] = 0
        first = args.cumsum() - args
        levels.append(
            _Level(operator.tolist(), digit.tolist(), args.tolist(), first.tolist())
        )
        tree = np.repeat(tree, args)
        if not len(tree):
            break
    return levels, sizes


def _expression(levels: list[_Level], node: int) -> tuple[bytes, int, int]:
    """Tokens, value and depth of the expression at `node` of the first of `levels`."""
    level, *below = levels
    operator = level.operator[node]
    if operator < 0:
        digit = level.digit[node]
        return bytes([DIGIT + digit]), digit, 0
    first = level.first[node]
    places = range(first, first + level.args[node])
    arguments = [_expression(below, place) for place in places]
    tokens, values, depths = zip(*arguments, strict=True)
    opening = bytes([OPERATOR + operator])
    expression = opening + b"".join(tokens) + bytes([CLOSE])
    return expression, apply(operator, sorted(values)), 1 + max(depths)


def apply(operator: int, values: list[int]) -> int:
    """The value of MIN, MAX, MED (the median of an even count is rounded down) or SM, by
    number, of ascending `values`."""
    if operator == 0:
        return values[0]
    if operator == 1:
        return values[-1]
    if operator == 2:
        middle = len(values) // 2
        return (values[~middle] + values[middle]) // 2
    return sum(values) % 10
