"""ListOps with Long Range Arena's sampling rule, as the paper's code read it and as it is meant.

*released*: the code's tokeniser drops brackets, so 15 symbols remain; sequences are
cut at 512, padded with 0 to 512, and position 512 is read. *intended*: 16 symbols, nothing is cut,
only expressions that fit the backbone's positions are drawn, and the last real token is read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Example, choice, resolve
from .datasets import Arrays, Dataset, load
from .expressions import CLOSE, OPERATOR, SYMBOLS, Expressions, generate
from .rng import fold
from .sequences import SequenceTask, check_sequences

PREPARATION = 1
RELEASED_LENGTH = 512
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class ListOps(SequenceTask):
    """Arrays per split as in SequenceTask, and `<split>_depths`: nested operators."""

    def groups(self, arrays: dict[str, Tensor], split: str, rows: Tensor) -> Tensor | None:
        return arrays[f"{split}_depths"][rows].long()

    def scores(self, logits: Tensor, batch: Batch) -> dict[str, Tensor]:
        """`depth d`: accuracy on expressions with d nested operators."""
        if batch.groups is None:
            return {}
        correct = (logits.argmax(-1) == batch.targets).float()
        return {
            f"depth {depth}": correct.where(batch.groups[..., None] == depth, torch.nan)
            for depth in range(1, self.options["max_depth"])
        }

    def measure_floors(self) -> dict[str, float]:
        """Adds `root operator`: the best class for each first token, counted on train."""
        arrays = load(self.dataset)
        roots = {s: arrays[f"{s}_tokens"][arrays[f"{s}_starts"][:-1]].long() for s in SPLITS}
        joint = roots["train"] * self.classes + arrays["train_labels"].long()
        counts = torch.bincount(joint, minlength=len(SYMBOLS) * self.classes)
        best = counts.view(-1, self.classes).argmax(1)
        correct = best[roots["test"]] == arrays["test_labels"]
        return super().measure_floors() | {"root operator": correct.double().mean().item()}

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        words = [("[" if OPERATOR <= t < CLOSE else "") + SYMBOLS[t] for t in tokens]
        return Example(answer=str(label), text=" ".join(words))


def _split(block: Expressions, split: str, released: bool) -> Arrays:
    tokens, starts = block.tokens, block.starts
    if released:
        kept = tokens != CLOSE
        ranks = np.concatenate([[0], kept.cumsum()])
        tokens, starts = tokens[kept], ranks[starts]
        inside = np.arange(len(tokens)) - np.repeat(starts[:-1], np.diff(starts))
        tokens = tokens[inside < RELEASED_LENGTH]
        starts = np.concatenate([[0], np.diff(starts).clip(max=RELEASED_LENGTH).cumsum()])
    return {
        f"{split}_tokens": tokens,
        f"{split}_starts": starts.astype(np.int64),
        f"{split}_labels": block.values,
        f"{split}_depths": block.depths,
    }


def _build(options: dict[str, Any], seed: int) -> Arrays:
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = [options[split] for split in SPLITS]
    window = [options[k] for k in ("max_depth", "max_args", "min_length", "max_length")]
    blocks = generate(rng, sum(counts), *window)
    lengths = np.concatenate([np.diff(block.starts) for block in blocks])
    every = Expressions(
        tokens=np.concatenate([block.tokens for block in blocks]),
        starts=np.concatenate([[0], lengths.cumsum()]),
        values=np.concatenate([block.values for block in blocks]),
        depths=np.concatenate([block.depths for block in blocks]),
    )
    arrays: Arrays = {}
    borders = np.cumsum([0, *counts])
    for split, first, last in zip(SPLITS, borders[:-1], borders[1:], strict=True):
        starts = every.starts[first : last + 1]
        part = Expressions(
            every.tokens[starts[0] : starts[-1]],
            starts - starts[0],
            every.values[first:last],
            every.depths[first:last],
        )
        arrays |= _split(part, split, options["variant"] == "released")
    return arrays


def listops(**given: Any) -> ListOps:
    """Options: variant ("intended" or "released"); max_depth, max_args; the length window
    min_length < tokens <= max_length, brackets included; sizes of the splits.

    Defaults are Long Range Arena's (501 to 1999 tokens), for the intended variant at most 1024.
    """
    name = "listops"
    defaults = {
        "variant": "intended",
        "max_depth": 10,
        "max_args": 10,
        "min_length": None,
        "max_length": None,
        "train": 96_000,
        "valid": 2_000,
        "test": 10_000,
    }
    options = resolve(name, given, defaults)
    choice(name, "variant", options["variant"], ("intended", "released"))
    released = options["variant"] == "released"
    if options["max_length"] is None:
        options["max_length"] = 1999 if released else 1024
    if options["min_length"] is None:
        options["min_length"] = min(500, options["max_length"] // 2)
    low, high = options["min_length"], options["max_length"]
    if options["max_args"] < 2 or options["max_depth"] < 2 or not 3 <= low < high:
        raise FptError(
            f"task {name!r} needs max_depth and max_args of at least 2 and 3 <= min_length < "
            f"max_length, not {options}."
        )
    values = [options[k] for k in ("min_length", "max_length", "max_depth", "max_args", *SPLITS)]
    key = "-".join(["listops", options["variant"], *map(str, values), f"v{PREPARATION}"])
    seed = fold(key)
    dim, length = (15, RELEASED_LENGTH) if released else (16, high)
    return ListOps(
        name=name,
        options=options,
        kind="token",
        dim=dim,
        length=length,
        classes=10,
        sizes={split: options[split] for split in SPLITS},
        masked=not released,
        dataset=Dataset(
            key,
            {"source": "generated", "preparation": PREPARATION},
            lambda: _build(options, seed),
            lambda arrays: check_sequences(arrays, SPLITS, dim, length, 10, others=["depths"]),
        ),
    )
