"""Texts for a backbone without a tokenizer, a token per UTF-8 byte: `glue`, `english`, `authors`.

**glue** (Wang et al. 2018, arXiv:1804.07461): English sentences and pairs of them. GLUE's authors
keep the test labels, so `test` is the official validation set, as in most of the literature, and
`valid` is drawn from the training set. Every score is accuracy; GLUE itself reports Matthews's
correlation for CoLA, and F1 beside accuracy for MRPC.

**english**: the next byte of a passage at every position; losses are in nats per byte. What does a
backbone that learned something else, or nothing, bring to language (Papadimitriou and Jurafsky
2020)? Training passages come from the third file of the English corpus and validation passages from
the fourth, which no backbone reaches that is pretrained here on a few million tokens; test passages
come from its held-out file.

**authors**: which of ten authors wrote a passage of a book that no training passage comes from? The
books are those of the English corpus whose title page names one of AUTHORS: its first two files
train, the third validates, the fourth tests. Three rules remove what identifies a book or a print
instead of its author: passages come from the middle of a book and do not name the author; only
ASCII is left, with one kind of quotation marks and dashes; and a passage is dropped if it has eight
words in a row in common with a book that is held out from it, since collections share stories.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, AnyStr, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..files import FptError
from .base import Batch, Device, Example, FiniteTask, Kind, resolve
from .datasets import Arrays, Dataset, hub_dataset, load
from .rng import numpy_generator
from .sequences import SYMBOLS, TextTask, encode, end_to_end
from .sources import ENGLISH, ENGLISH_HELD_OUT, Repository, documents

PREPARATION = 1
GLUE_LENGTH = 512  # bytes of a text or of both texts of a pair; longer ones are cut


class Subset(NamedTuple):
    """One of GLUE's tasks: its columns of text, its labels by number, and the examples in train,
    valid and test."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, int, int]


SUBSETS: Mapping[str, Subset] = {
    "sst2": Subset(("sentence",), ("negative", "positive"), (66_349, 1_000, 872)),
    "cola": Subset(("sentence",), ("unacceptable", "acceptable"), (8_051, 500, 1_043)),
    "mrpc": Subset(("sentence1", "sentence2"), ("different", "equivalent"), (3_368, 300, 408)),
    "rte": Subset(("sentence1", "sentence2"), ("entailment", "no entailment"), (2_290, 200, 277)),
}


def _glue_data(name: str) -> Dataset:
    subset = SUBSETS[name]
    files = {split: f"{name}/{split}-00000-of-00001.parquet" for split in ("train", "validation")}
    repository = Repository("nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c", files)

    def read(split: str) -> tuple[list[np.ndarray], np.ndarray]:
        *columns, labels = repository.columns(split, *subset.columns, "label")
        texts = [encode(GLUE_LENGTH, *row) for row in zip(*columns, strict=True)]
        return texts, np.array(labels, np.uint8)

    def build() -> Arrays:
        texts, labels = read("train")
        arrays = end_to_end("test", *read("validation"))
        order, count = numpy_generator("glue", name).permutation(len(labels)), subset.sizes[1]
        for split, rows in {"train": order[count:], "valid": order[:count]}.items():
            arrays |= end_to_end(split, [texts[row] for row in rows], labels[rows])
        return arrays

    return hub_dataset(f"glue-{name}", PREPARATION, repository, build, subset=name)


def glue(**given: Any) -> TextTask:
    """Option subset: "sst2" (sentiment), "cola" (grammar), "mrpc" (paraphrase) or "rte"
    (inference), fetched from the hub on first use."""
    options = resolve("glue", given, {"subset": tuple(SUBSETS)})
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


ENGLISH_LENGTH = 128  # bytes that are read; the next byte is predicted after each
ENGLISH_FILES = {"train": ENGLISH[2:3], "valid": ENGLISH[3:], "test": (ENGLISH_HELD_OUT,)}
ENGLISH_PASSAGES = {"train": 40_000, "valid": 1000, "test": 2000}


def _from_corpus(name: str, build: Callable[[], Arrays]) -> Dataset:
    source = {"source": "Project Gutenberg", "corpus": "english", "preparation": PREPARATION}
    return Dataset(f"{name}-v{PREPARATION}", source, build)


def _check_count(what: str, found: int, wanted: int, files: tuple[str, ...]) -> None:
    if found < wanted:
        raise FptError(
            f"There are {found} passages {what} in {', '.join(files)} and {wanted} are needed: "
            "this is not the English corpus."
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NextByteTask(FiniteTask):
    """Arrays per split: `<split>_text` (N, length + 1) uint8, in random order."""

    kind: Kind = "token"
    dim: int = SYMBOLS
    classes: int = SYMBOLS

    def examples(self, split: str, rows: Tensor, device: Device) -> Batch:
        text = load(self.dataset, device)[f"{split}_text"][rows.to(device, non_blocking=True)]
        return Batch(text[..., :-1].long(), text[..., 1:].long())

    def measure_floors(self) -> dict[str, float]:
        """Answering the most frequent byte, or the one that most often follows the byte before."""
        train, test = (load(self.dataset)[f"{split}_text"].long() for split in ("train", "test"))
        before, after = test[:, :-1], test[:, 1:]
        numbers = (train[:, :-1] * SYMBOLS + train[:, 1:]).flatten()
        pairs = torch.bincount(numbers, minlength=SYMBOLS**2).view(SYMBOLS, SYMBOLS)
        return {
            "majority": (after == pairs.sum(0).argmax()).double().mean().item(),
            "byte before": (after == pairs.argmax(1)[before]).double().mean().item(),
        }

    def example(self, split: str, index: int) -> Example:
        text = bytes(load(self.dataset)[f"{split}_text"][index].tolist())
        answer = text[-1:].decode("latin-1")
        return Example(answer=answer, text=text[:-1].decode("utf-8", "replace"))


def cut(text: AnyStr, size: int) -> list[AnyStr]:
    """The whole pieces of `size` characters or bytes, without what is left at the end."""
    return [text[i : i + size] for i in range(0, len(text) - size + 1, size)]


def _english() -> Arrays:
    arrays: Arrays = {}
    for split, files in ENGLISH_FILES.items():
        found: list[bytes] = []
        wanted, size = ENGLISH_PASSAGES[split], ENGLISH_LENGTH + 1
        for book in documents(files):
            found += cut(" ".join(book.split()).encode(), size)
            if len(found) >= 4 * wanted:  # enough to draw from
                break
        _check_count(f"of {size} bytes", len(found), wanted, files)
        rows = numpy_generator("english", split).permutation(len(found))[:wanted]
        text = np.frombuffer(b"".join(found[row] for row in rows), np.uint8)
        arrays[f"{split}_text"] = text.reshape(-1, size)
    return arrays


def english(**given: Any) -> NextByteTask:
    """The next byte of English at each of 128 positions. Needs the English corpus."""
    return NextByteTask(
        name="english",
        options=resolve("english", given, {}),
        length=ENGLISH_LENGTH,
        reads=ENGLISH_LENGTH,
        sizes=dict(ENGLISH_PASSAGES),
        random_order=tuple(ENGLISH_PASSAGES),
        dataset=_from_corpus("english", _english),
    )


AUTHORS: Mapping[str, tuple[str, ...]] = {  # surname -> letters of the names on title pages
    "Burroughs": ("edgarriceburroughs",),
    "Haggard": ("hriderhaggard",),
    "Harte": ("bretharte",),
    "Hawthorne": ("nathanielhawthorne",),
    "Henry": ("ohenry",),
    "Howells": ("williamdeanhowells", "wdhowells"),
    "James": ("henryjames",),
    "Trollope": ("anthonytrollope",),
    "Wells": ("hgwells",),
    "Wodehouse": ("pgwodehouse",),
}
AUTHORS_LENGTH = 256  # bytes of a passage
AUTHORS_FILES = {"test": ENGLISH[3:], "valid": ENGLISH[2:3], "train": ENGLISH[:2]}
AUTHORS_PASSAGES = {"train": 1200, "valid": 100, "test": 200}  # per author
TITLE_PAGE = 30  # lines
SHARED_WORDS = 8
PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "_": ""})


def author_of(book: str) -> str | None:
    """The author among AUTHORS whom the title page names after its first `by`, or in the line below
    it; None if there is none."""
    lines = (line.strip() for line in book.split("\n", TITLE_PAGE)[:TITLE_PAGE])
    for line, following in pairwise([*filter(None, lines), ""]):
        found = re.match(r"[\W_]*by(?![^\W_])(.*)", line, re.IGNORECASE)
        if found:
            named, below = (re.sub(r"[^a-z]", "", it.lower()) for it in (found[1], following))
            name = named or below
            return next((author for author, names in AUTHORS.items() if name in names), None)
    return None


def plain(book: str) -> str:
    """The middle of a book, without title page, contents and notes, in ASCII with single spaces."""
    text = book[int(0.1 * len(book)) : int(0.9 * len(book))].translate(PLAIN)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return " ".join(text.split())


def runs_of_words(text: str) -> Iterator[bytes]:
    """A hash of each `SHARED_WORDS` words in a row, whatever stands between them."""
    words = re.findall(r"[a-z]+", text.lower())
    for i in range(len(words) - SHARED_WORDS + 1):
        run = " ".join(words[i : i + SHARED_WORDS])
        yield hashlib.blake2b(run.encode(), digest_size=8).digest()


def passages(
    texts: list[str], author: str, taken: Set[bytes], rng: np.random.Generator
) -> Iterator[str]:
    """The passages of an author's books that neither name the author nor have a run of words in
    `taken`, in random order."""
    found = [passage for text in texts for passage in cut(text, AUTHORS_LENGTH)]
    for row in rng.permutation(len(found)):
        passage = found[row]
        if author.lower() not in passage.lower() and taken.isdisjoint(runs_of_words(passage)):
            yield passage


def _authors() -> Arrays:
    taken: set[bytes] = set()  # runs of words of the books that are held out
    arrays: Arrays = {}
    for split, files in AUTHORS_FILES.items():
        count, rng = AUTHORS_PASSAGES[split], numpy_generator("authors", split)
        books: dict[str, list[str]] = {author: [] for author in AUTHORS}
        for book in documents(files):
            if (author := author_of(book)) is not None:
                books[author].append(plain(book))
        chosen: list[np.ndarray] = []
        for author, texts in books.items():
            found = list(islice(passages(texts, author, taken, rng), count))
            _check_count(f"by {author}", len(found), count, files)
            chosen += [encode(AUTHORS_LENGTH, passage) for passage in found]
        labels = np.repeat(np.arange(len(AUTHORS), dtype=np.uint8), count)
        arrays |= end_to_end(split, chosen, labels)
        if split != "train":
            taken |= {run for texts in books.values() for t in texts for run in runs_of_words(t)}
    return arrays


def authors(**given: Any) -> TextTask:
    """Ten authors by passages of 256 bytes. Needs the English corpus."""
    return TextTask(
        name="authors",
        options=resolve("authors", given, {}),
        length=AUTHORS_LENGTH,
        classes=len(AUTHORS),
        names=tuple(AUTHORS),
        sizes={split: count * len(AUTHORS) for split, count in AUTHORS_PASSAGES.items()},
        dataset=_from_corpus("authors", _authors),
    )
