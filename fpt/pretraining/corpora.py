"""Corpora by name: a name -> its stream of token ids.

Texts, images (`streams`) and synthetic languages (`languages`) have names of their own;
besides,

* NAME, if the corpora folder has NAME.txt or NAME.txt.xz, is that text;
* A+B is a mixture of corpora with equal tokens of each;
* A@5M, A@500k or A@20480 is the first so many tokens of A;
* A-last is A with one loss per sequence, at its last token, instead of one at every token.

All at once, in this order: english+nesting@5M-last.
"""

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from ..errors import FptError
from .languages import ALONE, FROM_ENGLISH, LANGUAGES
from .streams import TEXTS, VALID_TOKENS, Stream, has_own_text, image_stream, text_stream

NAMES = (*TEXTS, *LANGUAGES, "images")
FORM = re.compile(
    r"(?P<parts>[^@]+?)(@(?P<count>[1-9][0-9]*)(?P<unit>[kM]?))?(?P<last>-last)?"
)
UNITS = {"M": 1_000_000, "k": 1000, "": 1}
# Tokens of one part of a mixture before the next begins: no sequence is longer.
TURN = 1024
# So many tokens of English give synthetic languages their frequencies.
ENGLISH_TOKENS = 4_000_000


@dataclass(frozen=True)
class CorpusName:
    """The parts of a corpus's name."""

    parts: tuple[str, ...]
    most: int | None = None  # training tokens; None: no limit
    sparse: bool = False


def parse(name: str) -> CorpusName:
    """The parts of the name of a corpus; FptError if there is no such corpus. Reads no
    data. A reader's own text is looked up by the whole name first, because its name may end
    in -last."""
    if name not in NAMES and has_own_text(name):
        return CorpusName((name,))
    form = FORM.fullmatch(name)
    parts = tuple(form["parts"].split("+")) if form else ()
    exist = all(part in NAMES or has_own_text(part) for part in parts)
    if form is None or not exist or len(set(parts)) < len(parts):
        raise FptError(
            f"There is no corpus {name!r}; choose from {', '.join(NAMES)}, or put "
            f"{name}.txt into the corpora folder (FPT_CORPORA). Different corpora can be "
            "joined (english+nesting), cut (english@5M) and given one loss per sequence "
            "(english-last); a text's name has letters, digits, '.', '_' and '-'."
        )
    most = int(form["count"]) * UNITS[form["unit"]] if form["count"] else None
    return CorpusName(parts, most, form["last"] is not None)


def synthetic_stream(name: str, tokens: int, valid_tokens: int) -> Stream:
    """The synthetic language `name`; FptError if it needs English and that is not here."""
    if name in ALONE:
        language = ALONE[name]()
    else:
        try:
            english = text_stream("english", ENGLISH_TOKENS).train
        except FptError as error:
            raise FptError(
                f"{name!r} has the frequencies of English tokens. {error}"
            ) from error
        language = FROM_ENGLISH[name](english)
    train = language.sample(tokens, name, "train")
    valid = language.sample(valid_tokens, name, "valid")
    return Stream(
        train,
        valid,
        entropy=float(language.entropy),
        exact=language.exact,
    )


def single(name: str, tokens: int, valid_tokens: int) -> Stream:
    """A corpus that is no mixture."""
    if name == "images":
        return image_stream(tokens, valid_tokens)
    if name in LANGUAGES:
        return synthetic_stream(name, tokens, valid_tokens)
    return text_stream(name, tokens, valid_tokens)


def mixture(parts: tuple[str, ...], tokens: int, valid_tokens: int) -> Stream:
    """Equal shares of `parts`, `TURN` tokens of each in turn until one ends. Ids of
    different parts share nothing but the token embeddings. The entropy is the mean of the
    parts': a lower bound, because it is that of an observer who knows which part a token
    belongs to."""

    def share(count: int) -> int:
        """Tokens of each part, in complete turns."""
        return math.ceil(count / (TURN * len(parts))) * TURN

    streams = [single(part, share(tokens), share(valid_tokens)) for part in parts]

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
    """The first `tokens` training tokens of corpus `name`, or all it has, and held-out
    ones. FptError if there is no such corpus, or a file of it is missing or damaged."""
    corpus = parse(name)
    tokens = min(tokens, corpus.most or tokens)
    if len(corpus.parts) > 1:
        stream = mixture(corpus.parts, tokens, valid_tokens)
    else:
        stream = single(corpus.parts[0], tokens, valid_tokens)
    return replace(stream, sparse=corpus.sparse)
