"""Texts for a backbone without a tokenizer, a token per UTF-8 byte: `glue` and `english`.

**glue** (Wang et al. 2018, arXiv:1804.07461): English sentences and pairs of them. The test labels
of GLUE are kept back by its authors, so `test` is the official validation set, as in most of the
literature, and `valid` is drawn from the training set. Every score is accuracy; GLUE itself has
Matthews's correlation for CoLA and F1 beside accuracy for MRPC.

**english**: the next byte of a passage at every position. What does a backbone that learned
something else, or nothing, bring along for language (Papadimitriou and Jurafsky 2020)? Training
passages are of the third file of the English corpus and those for validation of the fourth, which
no backbone that is pretrained here on a few million tokens reaches; test passages are of its
held-out file. Losses are in nats per byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, FiniteTask, resolve
from .datasets import Arrays, Dataset, hub_dataset, load
from .hub import Repository, read_table
from .rng import fold
from .sequences import SequenceTask, end_to_end
from .texts import ENGLISH, documents

PREPARATION = 1
SYMBOLS = 256  # no text has byte 0: it pads, and stands between two texts


@dataclass(frozen=True, kw_only=True, eq=False)
class TextTask(SequenceTask):
    """Texts, or pairs of texts, as sequences of their bytes."""

    names: tuple[str, ...]  # of the classes

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        texts = [text.decode("utf-8", "replace") for text in bytes(tokens).split(b"\0")]
        return Example(answer=self.names[label], text=" | ".join(texts))


def encode(text: str, other: str | None, length: int) -> np.ndarray:
    """The bytes of `text`, or of it, byte 0 and `other`: uint8, 1 to `length` of them. Of two that
    are too long together, each is cut to its half or to what the other leaves."""
    first = _bytes(text)
    if other is None:
        return np.frombuffer(first[:length], np.uint8)
    second, room = _bytes(other), length - 1
    first = first[: max(room // 2, room - len(second))]
    return np.frombuffer(first + b"\0" + second[: room - len(first)], np.uint8)


def _bytes(text: str) -> bytes:
    return text.replace("\0", " ").encode() or b" "


GLUE_BYTES = 512  # bytes, of both texts of a pair together; what is longer is cut


@dataclass(frozen=True)
class Subset:
    """One of GLUE's tasks: its columns of text, its labels by number, and how many examples are in
    its training set, are taken from that for `valid`, and are in its validation set."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    train: int
    valid: int
    test: int


SUBSETS: Mapping[str, Subset] = {
    "sst2": Subset(("sentence",), ("negative", "positive"), 67_349, 1_000, 872),
    "cola": Subset(("sentence",), ("unacceptable", "acceptable"), 8_551, 500, 1_043),
    "mrpc": Subset(("sentence1", "sentence2"), ("different", "equivalent"), 3_668, 300, 408),
    "rte": Subset(("sentence1", "sentence2"), ("entailment", "no entailment"), 2_490, 200, 277),
    "qnli": Subset(("question", "sentence"), ("answered", "not answered"), 104_743, 2_000, 5_463),
}


def _glue_repository(subset: str) -> Repository:
    return Repository(
        "nyu-mll/glue",
        "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
        "differs by subset, see the data set's card",
        {
            split: f"{subset}/{name}-00000-of-00001.parquet"
            for split, name in {"train": "train", "test": "validation"}.items()
        },
    )


def _glue(name: str) -> Arrays:
    subset, repository = SUBSETS[name], _glue_repository(name)
    texts: dict[str, list[np.ndarray]] = {}
    labels: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        table = read_table(repository.fetch(split), *subset.columns, "label")
        columns = [table[column].to_pylist() for column in subset.columns]
        pairs = zip(columns[0], columns[1] if columns[1:] else [None] * len(table), strict=True)
        texts[split] = [encode(first, second, GLUE_BYTES) for first, second in pairs]
        labels[split] = table["label"].to_numpy().astype(np.uint8)
    rng = np.random.Generator(np.random.PCG64(fold("glue", name)))
    rows = rng.permutation(len(labels["train"]))
    arrays = end_to_end("test", texts["test"], labels["test"])
    for split, chosen in {"train": rows[subset.valid :], "valid": rows[: subset.valid]}.items():
        passages = [texts["train"][row] for row in chosen]
        arrays |= end_to_end(split, passages, labels["train"][chosen])
    return arrays


def glue(**given: Any) -> TextTask:
    """Option subset: "sst2" (sentiment), "cola" (grammar), "mrpc" (paraphrase), "rte" or "qnli"
    (inference), fetched from the hub on first use."""
    options = resolve("glue", given, {"subset": tuple(SUBSETS)})
    name = options["subset"]
    subset = SUBSETS[name]
    sizes = {"train": subset.train - subset.valid, "valid": subset.valid, "test": subset.test}
    return TextTask(
        name="glue",
        options=options,
        kind="token",
        dim=SYMBOLS,
        length=GLUE_BYTES,
        classes=len(subset.names),
        names=subset.names,
        sizes=sizes,
        dataset=hub_dataset(
            f"glue-{name}", PREPARATION, _glue_repository(name), lambda: _glue(name), subset=name
        ),
    )


LENGTH = 128  # bytes that are read; the next byte is predicted after each
FILES = {"train": ENGLISH.train[2:3], "valid": ENGLISH.train[3:], "test": ("english-valid.txt",)}
PASSAGES = {"train": 40_000, "valid": 1000, "test": 2000}


@dataclass(frozen=True, kw_only=True, eq=False)
class NextByteTask(FiniteTask):
    """Arrays per split: `<split>_text` (N, LENGTH + 1) uint8, in random order."""

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        text = load(self.dataset, device)[f"{split}_text"][rows.to(device, non_blocking=True)]
        return Batch(text[..., :-1].long(), text[..., 1:].long())

    def in_random_order(self, split: str) -> bool:
        return True

    def measure_floors(self) -> dict[str, float]:
        """The most frequent byte, and the most frequent one after the byte before."""
        train, test = (load(self.dataset)[f"{split}_text"].long() for split in ("train", "test"))
        before, after = test[:, :-1], test[:, 1:]
        numbers = (train[:, :-1] * SYMBOLS + train[:, 1:]).flatten()
        pairs = torch.bincount(numbers, minlength=SYMBOLS**2).view(SYMBOLS, SYMBOLS)
        common = pairs.sum(0).argmax()
        return {
            "majority": (after == common).double().mean().item(),
            "byte before": (after == pairs.argmax(1)[before]).double().mean().item(),
        }

    def example(self, split: str, index: int) -> Example:
        text = bytes(load(self.dataset)[f"{split}_text"][index].tolist())
        answer = text[-1:].decode("latin-1")
        return Example(answer=answer, text=text[:-1].decode("utf-8", "replace"))


def _english() -> Arrays:
    arrays: Arrays = {}
    for split, files in FILES.items():
        found = np.empty((0, LENGTH + 1), np.uint8)
        for book in documents(ENGLISH, files):
            text = np.frombuffer(" ".join(book.split()).encode(), np.uint8)
            whole = len(text) - len(text) % (LENGTH + 1)
            found = np.concatenate([found, text[:whole].reshape(-1, LENGTH + 1)])
            if len(found) >= 4 * PASSAGES[split]:  # enough to draw from
                break
        if len(found) < PASSAGES[split]:
            raise FptError(
                f"There are {len(found)} passages of {LENGTH + 1} bytes in {', '.join(files)} and "
                f"{PASSAGES[split]} are needed: this is not the English corpus."
            )
        rng = np.random.Generator(np.random.PCG64(fold("english", split)))
        arrays[f"{split}_text"] = found[rng.permutation(len(found))[: PASSAGES[split]]]
    return arrays


def english(**given: Any) -> NextByteTask:
    """The next byte of English at each of 128 positions. Needs the corpus (FPT_CORPORA)."""
    source = {"source": "Project Gutenberg", "corpus": ENGLISH.name, "preparation": PREPARATION}
    return NextByteTask(
        name="english",
        options=resolve("english", given, {}),
        kind="token",
        dim=SYMBOLS,
        length=LENGTH,
        reads=LENGTH,
        classes=SYMBOLS,
        sizes=dict(PASSAGES),
        dataset=Dataset(f"english-v{PREPARATION}", source, _english),
    )
