"""The one door to all corpora: a name -> its stream of tokens.

Text, synthetic languages and images have names of their own; besides,

* NAME, where the corpora folder has NAME.txt or NAME.txt.xz, is that text;
* A+B is a mixture of corpora with equal tokens of each;
* A@5M, A@500k or A@20480 is the first so many tokens of A;
* A-last is A with one loss per sequence, at its last token, instead of one at every token.

All at once, in this order: english+nesting@5M-last.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from ..files import FptError
from ..tasks.texts import CORPORA, own_text
from .corpus import VALID_TOKENS, Stream, token_stream
from .pixels import PIXELS, pixel_stream
from .synthetic import SYNTHETIC, synthetic_stream

NAMES = (*CORPORA, *SYNTHETIC, *PIXELS)
FORM = re.compile(r"(?P<parts>[^@]+?)(@(?P<count>[1-9]\d*)(?P<unit>[kM]?))?(?P<last>-last)?")
FORMS = (
    "Different corpora can be joined (english+nesting), cut (english@5M) and given one loss per "
    "sequence (english-last); a text's name has letters, digits, '.', '_' and '-'."
)
UNITS = {"M": 1_000_000, "k": 1000, "": 1}
TURN = 1024  # tokens of one part of a mixture before the next: no sequence is longer


@dataclass(frozen=True)
class Wanted:
    """What a name asks for."""

    parts: tuple[str, ...]
    most: int | None  # training tokens; None: no limit
    sparse: bool


def amount(tokens: int) -> str:
    """A number of tokens as names have it: 5M, 500k, 20480."""
    unit = next(unit for unit, size in UNITS.items() if tokens % size == 0)
    return f"{tokens // UNITS[unit]}{unit}"


def taken_apart(name: str) -> Wanted | None:
    """What `name` asks for, whether that exists or not; None where it has another form. A text of
    the reader's own is found by its whole name first: it may end in -last."""
    if name not in NAMES and own_text(name) is not None:
        return Wanted((name,), None, False)
    form = FORM.fullmatch(name)
    if form is None:
        return None
    most = int(form["count"]) * UNITS[form["unit"]] if form["count"] else None
    return Wanted(tuple(form["parts"].split("+")), most, form["last"] is not None)


def wanted(name: str) -> Wanted | None:
    """What the corpus `name` is; None where there is none. Does not look for its data."""
    found = taken_apart(name)
    if found is None:
        return None
    there = all(part in NAMES or own_text(part) is not None for part in found.parts)
    return found if there and len(set(found.parts)) == len(found.parts) else None


def taking_turns(parts: list[np.ndarray], tokens: int) -> np.ndarray:
    """`TURN` tokens of each part in turn until one ends; at most `tokens`."""
    turns = min(map(len, parts)) // TURN
    rows = [part[: turns * TURN].reshape(turns, TURN) for part in parts]
    return np.stack(rows, axis=1).reshape(-1)[:tokens]


def mixture(streams: list[Stream], tokens: int, valid_tokens: int) -> Stream:
    """Equal parts of `streams`. Ids of different parts share nothing but the table of words. The
    entropy is the mean of the parts', a lower bound because which part it is must be seen."""
    entropies = [stream.entropy for stream in streams if stream.entropy is not None]
    return Stream(
        train=taking_turns([stream.train for stream in streams], tokens),
        valid=taking_turns([stream.valid for stream in streams], valid_tokens),
        entropy=float(np.mean(entropies)) if len(entropies) == len(streams) else None,
    )


def open_stream(name: str, tokens: int, valid_tokens: int = VALID_TOKENS) -> Stream:
    """The first `tokens` training tokens of corpus `name`, or all it has, and held-out ones."""
    found = wanted(name)
    if found is None:
        raise FptError(
            f"There is no corpus {name!r}; choose from {', '.join(NAMES)} or put {name}.txt into "
            f"the corpora folder (FPT_CORPORA). {FORMS}"
        )
    tokens = min(tokens, found.most or tokens)
    if len(found.parts) == 1:
        stream = single(found.parts[0], tokens, valid_tokens)
    else:
        rows = TURN * len(found.parts)
        each, each_valid = (-(-count // rows) * TURN for count in (tokens, valid_tokens))
        streams = [single(part, each, each_valid) for part in found.parts]
        for part, stream in zip(found.parts, streams, strict=True):
            least = min(len(stream.train), len(stream.valid))
            if least < TURN:
                raise FptError(
                    f"{part!r} is too short for the mixture {name!r}: it has {least} tokens to "
                    f"train on or held out; {TURN} of each are the least."
                )
        stream = mixture(streams, tokens, valid_tokens)
    return replace(stream, sparse=found.sparse)


def single(name: str, tokens: int, valid_tokens: int) -> Stream:
    """A corpus that has its own name."""
    if name in SYNTHETIC:
        return synthetic_stream(name, tokens, valid_tokens)
    if name in PIXELS:
        return pixel_stream(name, tokens, valid_tokens)
    return token_stream(name, tokens, valid_tokens)
