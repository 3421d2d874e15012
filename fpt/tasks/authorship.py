"""Authorship: who of ten wrote a passage of a book that the trained model has not seen.

The books are those of the English corpus whose title page names one of AUTHORS. A split has books
of its own: the corpus's first two files train, the third validates, the fourth tests. No backbone
that is pretrained here on 21M tokens of English reaches the third. Three rules remove what tells an
author apart from his books, or one print from another:

* passages are of the middle of a book, and none has the name of its author in it;
* letters, digits and plain punctuation are all there is: quotation marks, dashes and accents are of
  one kind, and no underscore is left;
* a training passage with eight words in a row that stand in a held-out book is left out, and so is
  one for validation with a test book, since stories are printed in more than one collection.

Subjects and characters remain: an author's are part of what is learned.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Set
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ..files import FptError
from .base import resolve
from .datasets import Arrays, Dataset
from .rng import fold
from .sequences import end_to_end
from .text import SYMBOLS, TextTask, encode
from .texts import ENGLISH, documents

PREPARATION = 1
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
FILES = {
    "train": ENGLISH.train[:2],
    "valid": ENGLISH.train[2:3],
    "test": ENGLISH.train[3:],
}
PASSAGES = {"train": 1200, "valid": 100, "test": 200}  # per author
LENGTH = 256  # bytes of a passage
TITLE_PAGE = 30  # lines
MIDDLE = (0.1, 0.9)  # of a book: without title page, contents, notes and other printed matter
SHARED = 8  # words
PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "_": ""})


def author_of(book: str) -> str | None:
    """Which of AUTHORS stands behind the first `by` of the title page, or in the line below it."""
    lines = (line.strip() for line in book.split("\n", TITLE_PAGE)[:TITLE_PAGE])
    for line, following in pairwise([*filter(None, lines), ""]):
        found = re.match(r"[\W_]*by(?![^\W_])(.*)", line, re.IGNORECASE)
        if found:
            name = _letters(found[1]) or _letters(following)
            return next((author for author, names in AUTHORS.items() if name in names), None)
    return None


def _letters(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


def plain(book: str) -> str:
    """The middle of a book in ASCII, with single spaces."""
    text = book[int(MIDDLE[0] * len(book)) : int(MIDDLE[1] * len(book))].translate(PLAIN)
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return " ".join(text.split())


def runs_of_words(text: str) -> Iterator[bytes]:
    """A hash of each `SHARED` words in a row, whatever stands between them."""
    words = re.findall(r"[a-z]+", text.lower())
    for i in range(len(words) - SHARED + 1):
        yield hashlib.blake2b(" ".join(words[i : i + SHARED]).encode(), digest_size=8).digest()


def passages(
    texts: list[str], author: str, taken: Set[bytes], rng: np.random.Generator
) -> Iterator[str]:
    """Of an author's books, cut end to end, the passages without his name and without a run of
    words in `taken`, in random order."""
    cut = [text[i : i + LENGTH] for text in texts for i in range(0, len(text) - LENGTH + 1, LENGTH)]
    for row in rng.permutation(len(cut)):
        passage = cut[row]
        if author.lower() not in passage.lower() and taken.isdisjoint(runs_of_words(passage)):
            yield passage


def _build() -> Arrays:
    taken: set[bytes] = set()  # runs of words of the books that are held out
    arrays: Arrays = {}
    for split in ("test", "valid", "train"):
        count, files = PASSAGES[split], FILES[split]
        books: dict[str, list[str]] = {author: [] for author in AUTHORS}
        for book in documents(ENGLISH, files):
            if (author := author_of(book)) is not None:
                books[author].append(plain(book))
        rng = np.random.Generator(np.random.PCG64(fold("authors", split)))
        chosen: list[np.ndarray] = []
        for author, texts in books.items():
            found = list(islice(passages(texts, author, taken, rng), count))
            if len(found) < count:
                raise FptError(
                    f"There are {len(found)} passages by {author} in {', '.join(files)} and "
                    f"{count} are needed: this is not the English corpus."
                )
            chosen += [encode(passage, None, LENGTH) for passage in found]
        labels = np.repeat(np.arange(len(AUTHORS), dtype=np.uint8), count)
        arrays |= end_to_end(split, chosen, labels)
        if split != "train":
            taken |= {run for texts in books.values() for t in texts for run in runs_of_words(t)}
    return arrays


def authors(**given: Any) -> TextTask:
    """Ten authors by passages of 256 bytes. Needs the English corpus (FPT_CORPORA)."""
    source = {"source": "Project Gutenberg", "corpus": ENGLISH.name, "preparation": PREPARATION}
    return TextTask(
        name="authors",
        options=resolve("authors", given, {}),
        kind="token",
        dim=SYMBOLS,
        length=LENGTH,
        classes=len(AUTHORS),
        names=tuple(AUTHORS),
        sizes={split: count * len(AUTHORS) for split, count in PASSAGES.items()},
        dataset=Dataset(f"authors-v{PREPARATION}", source, _build),
    )
