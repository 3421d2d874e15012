"""Texts for a backbone without a tokenizer, a token per UTF-8 byte: `glue` and `english`.

**glue** (Wang et al. 2018, arXiv:1804.07461): English sentences and pairs of them. GLUE's
authors keep the test labels, so `test` is the official validation set, as in most of the
literature, and `valid` is drawn from the training set. Every score is accuracy; GLUE itself
reports Matthews's correlation for CoLA, and F1 beside accuracy for MRPC.

**english**: the next byte of a passage at every position; losses are in nats per byte. What
does a backbone that learned something else, or nothing, bring to language (Papadimitriou
and Jurafsky 2020)? Training passages come from the third file of the English corpus and
validation passages from the fourth, which no backbone reaches that is pretrained here on a
few million tokens; test passages come from its held-out file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import FptError
from .base import Batch, Device, Example, FiniteTask, Kind, resolve
from .datasets import Arrays, Dataset, hub_dataset, load
from .rng import numpy_generator
from .sequences import SequenceTask, end_to_end
from .sources import ENGLISH, ENGLISH_HELD_OUT, Repository, documents

PREPARATION = 1
# A text is its bytes; none is 0, which pads and separates the texts of a pair.
SYMBOLS = 256
# Bytes of a text or of both texts of a pair; longer ones are cut.
GLUE_LENGTH = 512


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TextTask(SequenceTask):
    """Texts, or pairs of texts, as sequences of their bytes."""

    dim: int = SYMBOLS
    names: tuple[str, ...]  # of the classes

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        texts = [text.decode("utf-8", "replace") for text in bytes(tokens).split(b"\0")]
        return Example(self.names[label], text=" | ".join(texts))


def encode(length: int, text: str, second: str | None = None) -> np.ndarray:
    """The bytes of `text`, or of `text`, byte 0 and `second`: uint8, 1 to `length` of them.
    Of two texts that are too long together, each is cut to half, or to what the other
    leaves."""
    content = _bytes(text)
    if second is None:
        return np.frombuffer(content[:length], np.uint8)
    second_content = _bytes(second)
    # Byte 0 separates the two.
    left = length - 1
    content = content[: max(left // 2, left - len(second_content))]
    content += b"\0" + second_content[: left - len(content)]
    return np.frombuffer(content, np.uint8)


def _bytes(text: str) -> bytes:
    return text.replace("\0", " ").encode() or b" "


class Subset(NamedTuple):
    """One of GLUE's tasks: its columns of text, its labels by number, and the examples in
    train, valid and test."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, int, int]


PAIR = ("sentence1", "sentence2")
SUBSETS: Mapping[str, Subset] = {
    "sst2": Subset(
        ("sentence",),
        ("negative", "positive"),
        (66_349, 1_000, 872),
    ),
    "cola": Subset(
        ("sentence",),
        ("unacceptable", "acceptable"),
        (8_051, 500, 1_043),
    ),
    "mrpc": Subset(
        PAIR,
        ("different", "equivalent"),
        (3_368, 300, 408),
    ),
    "rte": Subset(
        PAIR,
        ("entailment", "no entailment"),
        (2_290, 200, 277),
    ),
}


def _glue_data(name: str) -> Dataset:
    subset = SUBSETS[name]
    files = {
        split: f"{name}/{split}-00000-of-00001.parquet" for split in ("train", "validation")
    }
    repository = Repository(
        "nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c", files
    )

    def read(split: str) -> tuple[list[np.ndarray], np.ndarray]:
        *columns, labels = repository.columns(split, *subset.columns, "label")
        texts = [encode(GLUE_LENGTH, *row) for row in zip(*columns, strict=True)]
        return texts, np.array(labels, np.uint8)

    def build() -> Arrays:
        texts, labels = read("train")
        # GLUE's authors keep the test labels.
        arrays = end_to_end("test", *read("validation"))
        order = numpy_generator("glue", name).permutation(len(labels))
        # GLUE's validation set is the test here, so training examples are held out in its
        # place.
        valid, train = np.split(order, [subset.sizes[1]])
        for split, rows in {"train": train, "valid": valid}.items():
            arrays |= end_to_end(split, [texts[row] for row in rows], labels[rows])
        return arrays

    return hub_dataset(f"glue-{name}", PREPARATION, repository, build, subset=name)


def glue(**options: Any) -> TextTask:
    """Option subset: "sst2" (sentiment), "cola" (grammar), "mrpc" (paraphrase) or "rte"
    (inference), fetched from the hub on first use."""
    options = resolve("glue", options, {"subset": tuple(SUBSETS)})
    subset = SUBSETS[options["subset"]]
    return TextTask(
        name="glue",
        options=options,
        length=GLUE_LENGTH,
        classes=len(subset.names),
        names=subset.names,
        sizes=dict(zip(("train", "valid", "test"), subset.sizes, strict=True)),
        dataset=_glue_data(options["subset"]),
    )


# Bytes that are read; the next byte is predicted after each.
ENGLISH_LENGTH = 128
ENGLISH_FILES = {"train": ENGLISH[2], "valid": ENGLISH[3], "test": ENGLISH_HELD_OUT}
ENGLISH_PASSAGES = {"train": 40_000, "valid": 1000, "test": 2000}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NextByteTask(FiniteTask):
    """Arrays per split: `<split>_text` (N, length + 1) uint8, in random order."""

    kind: Kind = "token"
    dim: int = SYMBOLS
    classes: int = SYMBOLS

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        rows = rows.to(device, non_blocking=True)
        text = load(self.dataset, device)[f"{split}_text"][rows].long()
        return Batch(text[..., :-1], text[..., 1:])

    def measure_floors(self) -> dict[str, float]:
        """Answering the most frequent byte, or the one that most often follows the byte
        before."""
        arrays = load(self.dataset)
        train = arrays["train_text"].long()
        test = arrays["test_text"].long()
        pairs = (train[:, :-1] * SYMBOLS + train[:, 1:]).flatten()
        counts = torch.bincount(pairs, minlength=SYMBOLS**2).view(SYMBOLS, SYMBOLS)
        answers = test[:, 1:]
        is_majority = answers == counts.sum(0).argmax()
        is_usual = answers == counts.argmax(1)[test[:, :-1]]
        return {
            "majority": is_majority.double().mean().item(),
            "byte before": is_usual.double().mean().item(),
        }

    def example(self, split: str, index: int) -> Example:
        text = bytes(load(self.dataset)[f"{split}_text"][index].tolist())
        answer = text[-1:].decode("latin-1")
        return Example(answer, text=text[:-1].decode("utf-8", "replace"))


def _english() -> Arrays:
    arrays: Arrays = {}
    size = ENGLISH_LENGTH + 1
    for split, file in ENGLISH_FILES.items():
        count = ENGLISH_PASSAGES[split]
        passages: list[bytes] = []
        for book in documents([file]):
            # The line breaks of print would be the easiest bytes to predict.
            text = " ".join(book.split()).encode()
            starts = range(0, len(text) - size + 1, size)
            passages += [text[start : start + size] for start in starts]
            if len(passages) >= 4 * count:
                # That is enough to draw from.
                break
        if len(passages) < count:
            raise FptError(
                f"There are {len(passages)} passages of {size} bytes in {file} and {count} "
                "are needed: this is not the English corpus."
            )
        rows = numpy_generator("english", split).permutation(len(passages))[:count]
        drawn = b"".join(passages[row] for row in rows)
        arrays[f"{split}_text"] = np.frombuffer(drawn, np.uint8).reshape(-1, size)
    return arrays


def english(**options: Any) -> NextByteTask:
    """The next byte of English at each of 128 positions. Needs the English corpus."""
    source = {
        "source": "Project Gutenberg",
        "corpus": "english",
        "preparation": PREPARATION,
    }
    return NextByteTask(
        name="english",
        options=resolve("english", options, {}),
        length=ENGLISH_LENGTH,
        reads=ENGLISH_LENGTH,
        sizes=dict(ENGLISH_PASSAGES),
        random_order=tuple(ENGLISH_PASSAGES),
        dataset=Dataset(f"english-v{PREPARATION}", source, _english),
    )
