"""A text corpus taken from a data set on the hub, for readers whose corpora folder is empty."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..files import FptError, write_atomic
from ..tasks import hub
from ..tasks.texts import CORPORA, END, OWN_NAME, corpora_folder, lines_of
from .provide import OBJECTIVES


def text_of(path: Path, column: str, by_line: bool) -> Iterator[str]:
    """One file of a data set: a text as it is, or the rows of a parquet file, each a document, in a
    line of its own or before a line `END`."""
    if path.suffix != ".parquet":
        yield from lines_of(path)
        return
    texts = hub.read_table(path, column)[column].to_pylist()
    if not all(isinstance(text, str) for text in texts):
        raise FptError(f"{path}: column {column!r} has values that are no text.")
    for text in texts:
        yield " ".join(text.split()) + "\n" if by_line else text.rstrip("\n") + f"\n{END}\n"


def take(name: str, repo: str, revision: str, files: Sequence[str], column: str) -> Path:
    """Write NAME.txt into the corpora folder from `files` (.parquet, .txt or .txt.xz) of the data
    set `repo`. FptError where the text is there already or the hub is not.
    """
    if not OWN_NAME.fullmatch(name):
        raise FptError(f"{name!r} is no name for a corpus; use letters, digits, '.', '_' and '-'.")
    reads = CORPORA[name].train if name in CORPORA else ()
    if name in OBJECTIVES and reads != (f"{name}.txt",):
        raise FptError(f"{name!r} is the name of another corpus or of a task; choose another.")
    out = corpora_folder() / f"{name}.txt"
    there = [path for path in (out, out.with_suffix(".txt.xz")) if path.exists()]
    if there:
        raise FptError(f"{there[0]} is there already; remove it, or choose another name.")
    paths = []
    for file in files:
        if not file.endswith((".parquet", ".txt", ".txt.xz")):
            raise FptError(f"{file} is no text: name files that end in .parquet, .txt or .txt.xz.")
        paths.append(hub.fetch(repo, file, revision, "dataset"))
    by_line = name in CORPORA and CORPORA[name].by_line
    parts = [part for path in paths for part in text_of(path, column, by_line)]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, "".join(parts).encode())
    return out
