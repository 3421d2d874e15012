"""ListOps with Long Range Arena's sampling rule, as the paper's code read it and as it is meant.

*released*: the code's tokeniser drops brackets, so 15 symbols remain; sequences are cut at 512,
padded with 0 to 512, and position 512 is read. *intended*: 16 symbols, nothing is cut, only
expressions that fit the backbone's positions are drawn, and the last real token is read.

The rule: a node above the maximum depth is an operator with probability 1/4, else a digit, each of
the ten as likely; an operator is one of MIN, MAX, MED, SM and has 2 to `max_args` arguments, each
count as likely; a tree is kept if its token count lies in the window. Trees are drawn for many
roots at once, one level at a time, in integers only, so every machine draws the same.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Example, resolve
from .datasets import Arrays, Dataset, load
from .rng import fold
from .sequences import SequenceTask, end_to_end

PREPARATION = 1
RELEASED_LENGTH = 512
SPLITS = ("train", "valid", "test")
SYMBOLS = ("pad", *"0123456789", "MIN", "MAX", "MED", "SM", "]")
DIGIT, OPERATOR, CLOSE = 1, 11, 15  # token of the digit 0, of MIN, of the closing bracket
ROOTS = 20_000  # trees begun at a time
IN_VAIN = 200  # times in a row that nothing new is found before the search ends


@dataclass(frozen=True, kw_only=True, eq=False)
class ListOps(SequenceTask):
    """Arrays per split as in SequenceTask; `<split>_depths` are the nested operators."""

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """`depth d`: accuracy on expressions with d nested operators."""
        assert batch.groups is not None
        correct = (logits.argmax(-1) == batch.targets).float()
        return {
            f"depth {depth}": correct.where(batch.groups[..., None] == depth, torch.nan)
            for depth in range(1, self.options["max_depth"])
        }

    def measure_floors(self) -> dict[str, float]:
        """Adds `root operator`: the best class for each first token, counted on train."""
        arrays = load(self.dataset)
        roots = {s: arrays[f"{s}_tokens"][arrays[f"{s}_starts"][:-1]].long() for s in SPLITS}
        joint = roots["train"] * self.classes + self.labels("train")
        counts = torch.bincount(joint, minlength=len(SYMBOLS) * self.classes)
        best = counts.view(-1, self.classes).argmax(1)
        correct = best[roots["test"]] == self.labels("test")
        return super().measure_floors() | {"root operator": correct.double().mean().item()}

    def linear_problem(self, split: str) -> None:
        return None

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        words = [("[" if OPERATOR <= t < CLOSE else "") + SYMBOLS[t] for t in tokens]
        return Example(answer=str(label), text=" ".join(words))


def listops(**given: Any) -> ListOps:
    """Options: variant ("intended" or "released"); max_depth, max_args; the length window
    min_length < tokens <= max_length, brackets included; sizes of the splits.

    Defaults are Long Range Arena's (501 to 1999 tokens), for the intended variant at most 1024.
    """
    sizes = {"train": 96_000, "valid": 2_000, "test": 10_000}
    window = {"max_depth": 10, "max_args": 10, "min_length": None, "max_length": None}
    variants = {"variant": ("intended", "released")}
    options = resolve("listops", given, {**variants, **window, **sizes})
    released = options["variant"] == "released"
    high = options["max_length"] = options["max_length"] or (1999 if released else 1024)
    low = options["min_length"] = options["min_length"] or min(500, high // 2)
    if options["max_args"] < 2 or options["max_depth"] < 2 or not 3 <= low < high:
        raise FptError(
            f"task 'listops' needs max_depth and max_args of at least 2 and 3 <= min_length < "
            f"max_length, not {options}."
        )
    values = [low, high, *(options[name] for name in ("max_depth", "max_args", *SPLITS))]
    key = "-".join(["listops", options["variant"], *map(str, values), f"v{PREPARATION}"])
    return ListOps(
        name="listops",
        options=options,
        kind="token",
        dim=15 if released else 16,
        length=RELEASED_LENGTH if released else high,
        classes=10,
        sizes={split: options[split] for split in SPLITS},
        masked=not released,
        dataset=Dataset(
            key,
            {"source": "generated", "preparation": PREPARATION},
            lambda: _build(options, fold(key)),
        ),
    )


def _build(options: dict[str, Any], seed: int) -> Arrays:
    rng = np.random.Generator(np.random.PCG64(seed))
    count, window = sum(options[s] for s in SPLITS), (options["min_length"], options["max_length"])
    depth, args = options["max_depth"], options["max_args"]
    sequences, values, depths = generate(rng, count, depth, args, window)
    if options["variant"] == "released":
        sequences = [tokens[tokens != CLOSE][:RELEASED_LENGTH] for tokens in sequences]
    arrays: Arrays = {}
    first = 0
    for split in SPLITS:
        part = slice(first, first + options[split])
        arrays |= end_to_end(split, sequences[part], values[part])
        arrays[f"{split}_depths"] = depths[part]
        first = part.stop
    return arrays


def generate(
    rng: np.random.Generator, count: int, max_depth: int, max_args: int, window: tuple[int, int]
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """`count` or more different expressions with window[0] < tokens <= window[1], closing brackets
    included: their tokens (uint8), their values (N,) and their depths (N,), uint8.

    FptError if there are not so many, or too few to be found by chance.
    """
    min_length, max_length = window
    seen: dict[bytes, tuple[np.ndarray, int, int]] = {}
    in_vain = 0
    while len(seen) < count:
        before = len(seen)
        levels, sizes = _grow(rng, max_depth, max_args, max_length)
        kept = (sizes > min_length) & (sizes <= max_length)
        if kept.any():
            for tokens, value, depth in _write(_select(levels, kept)):
                name = blake2b(tokens.tobytes(), digest_size=16).digest()
                seen.setdefault(name, (tokens, value, depth))
        in_vain = in_vain + 1 if len(seen) == before else 0
        if in_vain == IN_VAIN:
            raise FptError(
                f"Only {len(seen)} of {count} different ListOps expressions with {min_length} < "
                f"tokens <= {max_length} were found; widen that window, allow more depth or "
                "arguments, or ask for fewer examples."
            )
    sequences, values, depths = zip(*seen.values(), strict=True)
    return list(sequences), np.array(values, np.uint8), np.array(depths, np.uint8)


class _Level(NamedTuple):
    """The nodes of many trees at one depth, those of one parent side by side, each (nodes,)."""

    tree: np.ndarray  # which root a node belongs to
    operator: np.ndarray  # 0 to 3, or -1 for a digit
    digit: np.ndarray
    args: np.ndarray  # number of arguments, 0 for a digit


def _grow(
    rng: np.random.Generator, max_depth: int, max_args: int, max_length: int
) -> tuple[list[_Level], np.ndarray]:
    """The levels of `ROOTS` random trees and their token counts; too long a tree stops growing."""
    tree = np.arange(ROOTS)
    sizes, levels = np.zeros(ROOTS, dtype=np.int64), []
    for depth in range(1, max_depth + 1):
        count = len(tree)
        inner = rng.integers(0, 4, count) == 0 if depth < max_depth else np.zeros(count, bool)
        operator = np.where(inner, rng.integers(0, 4, count), -1)
        digit = rng.integers(0, 10, count)
        args = np.where(inner, rng.integers(2, max_args + 1, count), 0)
        sizes += np.bincount(tree, 1 + inner, ROOTS).astype(np.int64)
        args[sizes[tree] > max_length] = 0
        levels.append(_Level(tree, operator, digit, args))
        tree = np.repeat(tree, args)
        if not len(tree):
            break
    return levels, sizes


def _select(levels: list[_Level], kept: np.ndarray) -> list[_Level]:
    """The same levels with only the trees `kept` (bool per root), renumbered."""
    number = kept.cumsum() - 1
    parts = (_Level(*(values[kept[level.tree]] for values in level)) for level in levels)
    return [part._replace(tree=number[part.tree]) for part in parts if len(part.tree)]


def _reduce(operator: np.ndarray, args: np.ndarray, values: np.ndarray) -> np.ndarray:
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
    return np.choose(operator, results)


def _write(levels: list[_Level]) -> list[tuple[np.ndarray, int, int]]:
    """Tokens, value and depth of each tree: values and sizes bottom-up, then tokens top-down."""
    sizes, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for level in reversed(levels):
        inner = level.operator >= 0
        size, value = np.ones(len(inner), np.int64), level.digit.copy()
        if inner.any():
            args = level.args[inner]
            size[inner] = 2 + np.add.reduceat(sizes[-1], args.cumsum() - args)
            value[inner] = _reduce(level.operator[inner], args, values[-1])
        sizes.append(size)
        values.append(value)
    ends = sizes[-1].cumsum()
    begin = ends - sizes[-1]  # of each node of the level, in the tokens of all trees
    tokens = np.zeros(ends[-1], np.uint8)
    depths = np.zeros(len(ends), np.uint8)
    for level, size, below in zip(levels, sizes[:0:-1], sizes[-2::-1], strict=True):
        inner = level.operator >= 0
        tokens[begin] = np.where(inner, OPERATOR + level.operator, DIGIT + level.digit)
        tokens[(begin + size - 1)[inner]] = CLOSE
        if inner.any():
            depths[np.unique(level.tree[inner])] += 1
            args = level.args[inner]
            # A child begins after its parent's operator and the siblings before it.
            offset = below.cumsum() - below
            offset -= np.repeat(offset[args.cumsum() - args], args)
            begin = np.repeat(begin[inner] + 1, args) + offset
    return list(zip(np.split(tokens, ends[:-1]), values[-1], depths, strict=True))
