"""Texts on this disk: corpora of several files, cut into documents.

A corpus is one or more text files in `FPT_CORPORA` (default `data/corpora`), plain or `.xz`, in
which a line `<|endoftext|>` (or, for corpora of sentences, every line end) separates documents. A
NAME.txt of the reader's own there is a corpus too; if it has no `<|endoftext|>`, each of its lines
is a document.
"""

import lzma
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..files import DATA, FptError

END = "<|endoftext|>"
VOCABULARY = 4096  # words in the table of every language model; no corpus has more
OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Corpus:
    """Where a corpus comes from, and how its documents are told apart."""

    name: str
    train: tuple[str, ...]
    valid: str | None  # None: every 50th document is held out
    by_line: bool  # every line is a document
    vocabulary: int = VOCABULARY


ENGLISH_FILES = tuple(f"english-train-{part}.txt" for part in range(4))
ENGLISH = Corpus("english", ENGLISH_FILES, "english-valid.txt", by_line=False)
CORPORA = {
    corpus.name: corpus
    for corpus in (
        ENGLISH,
        Corpus("kannada", ("kannada.txt",), None, by_line=True),
        Corpus("javascript", ("javascript.txt",), None, by_line=False),
        Corpus("amino-acids", ("amino-acids.txt",), None, by_line=True),
        # The same text in shorter words: its 256 bytes and `END`, and the commonest pairs of them.
        replace(ENGLISH, name="english-bytes", vocabulary=257),
        replace(ENGLISH, name="english-512", vocabulary=512),
    )
}


def own_text(name: str) -> Path | None:
    """The reader's own text NAME.txt or NAME.txt.xz in the corpora folder, if it is there."""
    return _find(f"{name}.txt") if OWN_NAME.fullmatch(name) else None


def _find(file: str) -> Path | None:
    paths = (corpora_folder() / f"{file}{end}" for end in ("", ".xz"))
    return next((path for path in paths if path.is_file()), None)


def corpus(name: str) -> Corpus:
    """The corpus of this name; FptError if there is none."""
    if name in CORPORA:
        return CORPORA[name]
    path = own_text(name)
    if path is None:
        raise FptError(
            f"There is no corpus {name!r}; choose one of {', '.join(CORPORA)}, or put {name}.txt "
            f"into {corpora_folder()}."
        )
    by_line = all(line.strip() != END for line in lines_of(path))
    return Corpus(name, (f"{name}.txt",), None, by_line)


def corpora_folder() -> Path:
    return Path(os.environ.get("FPT_CORPORA", DATA / "corpora"))


def corpus_file(name: str) -> Path:
    """The file `name` or `name.xz` in the corpora folder; FptError if neither is there."""
    path = _find(name)
    if path is None:
        raise FptError(
            f"The corpus file {name!r} (or {name}.xz) is not in {corpora_folder()}: put it there, "
            "set FPT_CORPORA to the folder that has it, or make one like it (docs/corpora.md says "
            "how)."
        )
    return path


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file, packed or not; FptError if it is damaged or not UTF-8."""
    try:
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
            yield from file
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise FptError(
            f"The corpus file {path} is no whole text in UTF-8 ({error}); put it there again."
        ) from error


def documents(source: Corpus, files: tuple[str, ...]) -> Iterator[str]:
    """The documents of `files`, one string each."""
    for name in files:
        lines = lines_of(corpus_file(name))
        if source.by_line:
            yield from (line.rstrip("\n") for line in lines if line.strip())
            continue
        part: list[str] = []
        for line in lines:
            if line.strip() == END:
                yield "".join(part)
                part = []
            else:
                part.append(line)
        if part:
            yield "".join(part)
