"""Corpora by name: a name -> its stream of token ids.

Texts, images (`streams`) and synthetic languages (`languages`) have names of their own; besides,

* NAME, if the corpora folder has NAME.txt or NAME.txt.xz, is that text;
* A+B is a mixture of corpora with equal tokens of each;
* A@5M, A@500k or A@20480 is the first so many tokens of A;
* A-last is A with one loss per sequence, at its last token, instead of one at every token.

All at once, in this order: english+nesting@5M-last.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..files import FptError, write_atomic
from ..tasks import TASKS
from ..tasks.sources import END, corpora_folder, fetch, read_lines, read_table
from .languages import ALONE, FROM_ENGLISH, LANGUAGES
from .streams import (
    PIXELS,
    TEXT_NAME,
    TEXTS,
    VALID_TOKENS,
    Stream,
    own_text,
    pixel_stream,
    text_stream,
)

NAMES = (*TEXTS, *LANGUAGES, *PIXELS)
FORM = re.compile(r"(?P<parts>[^@]+?)(@(?P<count>[1-9]\d*)(?P<unit>[kM]?))?(?P<last>-last)?")
FORMS = (
    "Different corpora can be joined (english+nesting), cut (english@5M) and given one loss per "
    "sequence (english-last); a text's name has letters, digits, '.', '_' and '-'."
)
UNITS = {"M": 1_000_000, "k": 1000, "": 1}
TURN = 1024  # tokens of one part of a mixture before the next: no sequence is longer
ENGLISH_TOKENS = 4_000_000  # of English, whose frequencies synthetic languages have


@dataclass(frozen=True)
class CorpusName:
    """The parts of a corpus's name."""

    parts: tuple[str, ...]
    most: int | None  # training tokens; None: no limit
    sparse: bool


def amount(tokens: int) -> str:
    """A number of tokens as names have it: 5M, 500k, 20480."""
    unit = next(unit for unit, size in UNITS.items() if tokens % size == 0)
    return f"{tokens // UNITS[unit]}{unit}"


def known(name: str, tasks: Collection[str] = ()) -> CorpusName | None:
    """The parts of the name of a corpus, or of one of `tasks`, which take no `+` and no `-last`;
    None if there is no such corpus or task. Reads no data. A reader's own text is looked up by the
    whole name first, because its name may end in -last."""
    if name not in NAMES and own_text(name) is not None:
        return CorpusName((name,), None, False)
    form = FORM.fullmatch(name)
    if form is None:
        return None
    most = int(form["count"]) * UNITS[form["unit"]] if form["count"] else None
    found = CorpusName(tuple(form["parts"].split("+")), most, form["last"] is not None)
    if len(found.parts) == 1 and found.parts[0] in tasks:
        return None if found.sparse else found
    there = all(part in NAMES or own_text(part) is not None for part in found.parts)
    return found if there and len(set(found.parts)) == len(found.parts) else None


def synthetic_stream(name: str, tokens: int, valid_tokens: int) -> Stream:
    """The synthetic language `name`; FptError if it needs English and that is not here."""
    if name in ALONE:
        language = ALONE[name]()
    else:
        try:
            english = text_stream("english", ENGLISH_TOKENS).train
        except FptError as error:
            raise FptError(
                f"The synthetic corpus {name!r} has the frequencies of English tokens, and English "
                f"is not here ({str(error).rstrip('.')}); {', '.join(ALONE)} need no text."
            ) from error
        language = FROM_ENGLISH[name](english)
    train = language.sample(tokens, name, "train")
    valid = language.sample(valid_tokens, name, "valid")
    return Stream(train, valid, entropy=float(language.entropy), exact=language.exact)


def single(name: str, tokens: int, valid_tokens: int) -> Stream:
    """A corpus that is no mixture."""
    if name in LANGUAGES:
        return synthetic_stream(name, tokens, valid_tokens)
    return (pixel_stream if name in PIXELS else text_stream)(name, tokens, valid_tokens)


def mixture(name: str, parts: tuple[str, ...], tokens: int, valid_tokens: int) -> Stream:
    """Equal shares of `parts`, `TURN` tokens of each in turn until one ends. Ids of different parts
    share nothing but the token embeddings. The entropy is the mean of the parts': a lower bound,
    because it is that of an observer who knows which part a token belongs to."""
    each, each_valid = (-(-count // (TURN * len(parts))) * TURN for count in (tokens, valid_tokens))
    streams = [single(part, each, each_valid) for part in parts]
    for part, stream in zip(parts, streams, strict=True):
        least = min(len(stream.train), len(stream.valid))
        if least < TURN:
            raise FptError(
                f"{part!r} is too short for the mixture {name!r}: it has {least} tokens to train "
                f"on or held out; {TURN} of each are the least."
            )

    def interleaved(columns: list[np.ndarray]) -> np.ndarray:
        turns = min(map(len, columns)) // TURN
        rows = [column[: turns * TURN].reshape(turns, TURN) for column in columns]
        return np.stack(rows, axis=1).reshape(-1)

    entropies = [stream.entropy for stream in streams if stream.entropy is not None]
    return Stream(
        interleaved([stream.train for stream in streams])[:tokens],
        interleaved([stream.valid for stream in streams])[:valid_tokens],
        entropy=float(np.mean(entropies)) if len(entropies) == len(streams) else None,
    )


def open_stream(name: str, tokens: int, valid_tokens: int = VALID_TOKENS) -> Stream:
    """The first `tokens` training tokens of corpus `name`, or all it has, and held-out ones.
    FptError if there is no such corpus, or a file of it is missing or damaged."""
    found = known(name)
    if found is None:
        raise FptError(
            f"There is no corpus {name!r}; choose from {', '.join(NAMES)} or put {name}.txt into "
            f"the corpora folder (FPT_CORPORA). {FORMS}"
        )
    tokens = min(tokens, found.most or tokens)
    if len(found.parts) == 1:
        stream = single(found.parts[0], tokens, valid_tokens)
    else:
        stream = mixture(name, found.parts, tokens, valid_tokens)
    return replace(stream, sparse=found.sparse)


def text_of(path: Path, column: str, by_line: bool) -> Iterator[str]:
    """One file of a data set as a text: a text as it is, or the rows of a parquet file, each a
    document, in a line of its own or before a line `END`."""
    if path.suffix != ".parquet":
        yield from read_lines(path)
        return
    texts = read_table(path, column)[column].to_pylist()
    if not all(isinstance(text, str) for text in texts):
        raise FptError(f"{path}: column {column!r} has values that are no text.")
    for text in texts:
        yield " ".join(text.split()) + "\n" if by_line else text.rstrip("\n") + f"\n{END}\n"


def take(name: str, repo: str, revision: str, files: Sequence[str], column: str) -> Path:
    """Write the text NAME.txt into the corpora folder from `files` (.parquet, .txt or .txt.xz) of
    the data set `repo` on the hub. FptError if the name is taken or the hub lacks a file."""
    if not TEXT_NAME.fullmatch(name):
        raise FptError(f"{name!r} is no name for a corpus; use letters, digits, '.', '_' and '-'.")
    text = TEXTS.get(name)
    if name in (*NAMES, *TASKS) and (text is None or text.train != (f"{name}.txt",)):
        raise FptError(f"{name!r} is the name of another corpus or of a task; choose another.")
    out = corpora_folder() / f"{name}.txt"
    if out.exists() or out.with_suffix(".txt.xz").exists():
        raise FptError(f"{out} (or .xz) is there already; remove it, or choose another name.")
    if wrong := [file for file in files if not file.endswith((".parquet", ".txt", ".txt.xz"))]:
        raise FptError(f"{wrong[0]} is no text: name files that end in .parquet, .txt or .txt.xz.")
    paths = [fetch(repo, file, revision, "dataset") for file in files]
    by_line = text is not None and text.by_line
    parts = [part for path in paths for part in text_of(path, column, by_line)]
    write_atomic(out, "".join(parts).encode())
    return out
