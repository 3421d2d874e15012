"""English as a task: the next byte of a passage at every position. What does a backbone that
learned something else, or nothing, bring along for language (Papadimitriou and Jurafsky 2020)?

Training passages are of the third file of the English corpus and those for validation of the
fourth, which no backbone that is pretrained here on a few million tokens has reached; test
passages are of its held-out file. Losses are in nats per byte.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .base import Batch, Device, Example, FiniteTask, order, resolve
from .datasets import Arrays, Dataset, check_array, load
from .rng import fold
from .text import SYMBOLS
from .texts import ENGLISH, documents

PREPARATION = 1
LENGTH = 128  # bytes that are read; the next byte is predicted after each
FILES = {"train": ENGLISH.train[2:3], "valid": ENGLISH.train[3:], "test": ("english-valid.txt",)}
PASSAGES = {"train": 40_000, "valid": 1000, "test": 2000}


@dataclass(frozen=True, kw_only=True, eq=False)
class NextByteTask(FiniteTask):
    """Arrays per split: `<split>_text` (N, LENGTH + 1) uint8, in random order."""

    def train_batch(
        self, seeds: Sequence[int], step: int, size: int, device: Device, augment: bool = False
    ) -> Batch:
        rows = order(self.sizes["train"], seeds, step, size, device)
        return _batch(load(self.dataset, device)["train_text"][rows])

    def eval_batches(
        self, split: str, size: int, device: Device, count: int = 0
    ) -> Iterator[Batch]:
        chosen = load(self.dataset, device)[f"{split}_text"][self.subset(split, count).to(device)]
        for text in chosen.split(size):
            yield _batch(text[None])

    def in_random_order(self, split: str) -> bool:
        return True

    def measure_floors(self) -> dict[str, float]:
        """The most frequent byte, and the most frequent one after the byte before."""
        train, test = (load(self.dataset)[f"{split}_text"].long() for split in ("train", "test"))
        before, after = test[:, :-1], test[:, 1:]
        pairs = torch.bincount(
            (train[:, :-1] * SYMBOLS + train[:, 1:]).flatten(), minlength=SYMBOLS**2
        ).view(SYMBOLS, SYMBOLS)
        common = pairs.sum(0).argmax()
        return {
            "majority": (after == common).double().mean().item(),
            "byte before": (after == pairs.argmax(1)[before]).double().mean().item(),
        }

    def labels(self, split: str) -> Tensor:
        return load(self.dataset)[f"{split}_text"][:, -1].long()

    def example(self, split: str, index: int) -> Example:
        self.check_split(split)
        text = bytes(load(self.dataset)[f"{split}_text"][index].tolist())
        return Example(
            answer=text[-1:].decode("latin-1"), text=text[:-1].decode("utf-8", "replace")
        )


def _batch(text: Tensor) -> Batch:
    """Inputs and next bytes of passages (K, B, LENGTH + 1)."""
    return Batch(text[..., :-1].long(), text[..., 1:].long())


def _build() -> Arrays:
    arrays: Arrays = {}
    for split, files in FILES.items():
        found: list[np.ndarray] = []
        wanted = 4 * PASSAGES[split]  # of which some are drawn
        for book in documents(ENGLISH, files):
            text = np.frombuffer(" ".join(book.split()).encode(), np.uint8)
            rows = len(text) // (LENGTH + 1)
            found.append(text[: rows * (LENGTH + 1)].reshape(rows, LENGTH + 1))
            wanted -= rows
            if wanted <= 0:
                break
        rng = np.random.Generator(np.random.PCG64(fold("english", split)))
        cut = np.concatenate(found)
        arrays[f"{split}_text"] = cut[rng.permutation(len(cut))[: PASSAGES[split]]]
    return arrays


def _check(arrays: Arrays) -> None:
    for split, count in PASSAGES.items():
        check_array(arrays, f"{split}_text", "uint8", (count, LENGTH + 1))


def english(**given: Any) -> NextByteTask:
    """The next byte of English at each of 128 positions. Needs the corpus (FPT_CORPORA)."""
    return NextByteTask(
        name="english",
        options=resolve("english", given, {}),
        kind="token",
        dim=SYMBOLS,
        length=LENGTH,
        reads=LENGTH,
        classes=SYMBOLS,
        sizes=dict(PASSAGES),
        dataset=Dataset(
            f"english-v{PREPARATION}",
            {"source": "Project Gutenberg", "corpus": ENGLISH.name, "preparation": PREPARATION},
            _build,
            _check,
        ),
    )
