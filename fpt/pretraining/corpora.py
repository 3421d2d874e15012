"""Corpora by name: a name -> its stream of token ids.

Texts (`fpt.tasks.texts`), synthetic languages and images have names of their own; besides,

* NAME, if the corpora folder has NAME.txt or NAME.txt.xz, is that text;
* A+B is a mixture of corpora with equal tokens of each;
* A@5M, A@500k or A@20480 is the first so many tokens of A;
* A-last is A with one loss per sequence, at its last token, instead of one at every token.

All at once, in this order: english+nesting@5M-last. The tokens of a text are byte-level BPE,
trained on the corpus itself, with the same number of entries for all but two corpora.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm

from ..files import PREPARED, FptError, write_atomic
from ..tasks.texts import CORPORA, END, Corpus, corpus, corpus_file, documents, own_text
from .languages import ALONE, FROM_ENGLISH, LANGUAGES
from .pixels import PIXELS, pixels

NAMES = (*CORPORA, *LANGUAGES, *PIXELS)
FORM = re.compile(r"(?P<parts>[^@]+?)(@(?P<count>[1-9]\d*)(?P<unit>[kM]?))?(?P<last>-last)?")
FORMS = (
    "Different corpora can be joined (english+nesting), cut (english@5M) and given one loss per "
    "sequence (english-last); a text's name has letters, digits, '.', '_' and '-'."
)
UNITS = {"M": 1_000_000, "k": 1000, "": 1}
TURN = 1024  # tokens of one part of a mixture before the next: no sequence is longer

VALID_TOKENS = 400_000
ENGLISH_TOKENS = 4_000_000  # of English, whose frequencies synthetic languages have
HELD_OUT = 50  # every 50th document is held out of a corpus without a held-out file
PASSAGE = 20_000  # characters: longer documents of such a corpus are cut at line ends
TOKENIZER_SAMPLE = 24_000_000  # characters; more changes no merge that matters at 4,096 entries


@dataclass(frozen=True)
class CorpusName:
    """The parts of a corpus's name."""

    parts: tuple[str, ...]
    most: int | None  # training tokens; None: no limit
    sparse: bool


@dataclass(frozen=True)
class Stream:
    """A corpus as ids (uint16) for training and held out, and what is known of it."""

    train: np.ndarray
    valid: np.ndarray
    tokenizer: Tokenizer | None = None  # of a text
    valid_bytes: int | None = None  # UTF-8 bytes behind `valid`, for bits per byte
    entropy: float | None = None  # nats per token of the generator, if there is one
    exact: bool = False  # whether `entropy` is exact, not a lower bound
    sparse: bool = False  # one loss per sequence, at its last token, not one at every token

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.train.tobytes() + self.valid.tobytes()).hexdigest()


def amount(tokens: int) -> str:
    """A number of tokens as names have it: 5M, 500k, 20480."""
    unit = next(unit for unit, size in UNITS.items() if tokens % size == 0)
    return f"{tokens // UNITS[unit]}{unit}"


def known(name: str, tasks: Collection[str] = ()) -> CorpusName | None:
    """The parts of the corpus `name`, or of one of `tasks`, which stand alone and have one loss;
    None if there is neither. Does not look for data. A text of the reader's own is found by its
    whole name first: it may end in -last."""
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


# ------------------------------------------------------------------------------------------- texts


def passages(source: Corpus) -> Iterator[str]:
    """The training documents. Long ones are cut into parts that end where a line does, or anywhere
    in a line that is itself too long: a text may be a few large files."""
    for document in documents(source, source.train):
        part: list[str] = []
        size = 0
        for line in document.splitlines(keepends=True):
            for start in range(0, len(line), PASSAGE):
                part.append(line[start : start + PASSAGE])
                size += len(part[-1])
                if size >= PASSAGE:
                    yield "".join(part)
                    part, size = [], 0
        if part:
            yield "".join(part)


def split(source: Corpus) -> tuple[Iterator[str], Iterator[str]]:
    """Training and held-out documents, or passages of them."""
    if source.valid is not None:
        return documents(source, source.train), documents(source, (source.valid,))
    if sum(1 for _ in passages(source)) < HELD_OUT:
        raise FptError(
            f"The corpus {source.name!r} is too small: it needs {HELD_OUT} documents or more, or "
            f"as many passages of {PASSAGE:,} characters."
        )
    first, second = (enumerate(passages(source), start=1) for _ in range(2))
    train = (passage for index, passage in first if index % HELD_OUT)
    valid = (passage for index, passage in second if not index % HELD_OUT)
    return train, valid


def train_tokenizer(source: Corpus) -> Tokenizer:
    """Byte-level BPE with the corpus's number of entries, `END` first (id 0)."""

    def sample() -> Iterator[str]:
        left = TOKENIZER_SAMPLE
        for document in split(source)[0]:
            yield document[:left]
            left -= len(document)
            if left <= 0:
                return

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=source.vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample(), trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterator[str], limit: int) -> np.ndarray:
    """The documents one after the other, each ended by `END`, as uint16 ids; at most `limit`."""
    end = tokenizer.token_to_id(END)
    parts = [np.zeros(0, np.uint16)]
    with tqdm(desc="encode", unit="tok", unit_scale=True, disable=None) as bar:
        for text in texts:
            ids: list[int] = []
            for start in range(0, len(text), 1 << 20):  # bounded memory for whole books
                ids += tokenizer.encode(text[start : start + (1 << 20)]).ids
            parts.append(np.array([*ids, end], dtype=np.uint16))
            bar.update(len(parts[-1]))
            if bar.n >= limit:
                break
    return np.concatenate(parts)[:limit]


def read_prepared(path: Path, read: Callable[[Path], Any]) -> Any:
    """`read(path)`; FptError if the file is damaged."""
    try:
        return read(path)
    except Exception as error:  # the libraries have no classes of their own for it
        raise FptError(
            f"{path} is damaged ({error}); remove it, and it is prepared again."
        ) from error


def token_stream(name: str, tokens: int, valid_tokens: int = VALID_TOKENS) -> Stream:
    """The first `tokens` training tokens of the text `name`, or all it has, prepared once."""
    source = corpus(name)
    content = hashlib.sha256()  # of the files: they may be replaced
    for part in (*source.train, *([source.valid] if source.valid else [])):
        content.update(corpus_file(part).read_bytes())
    stem = f"{name}-{content.hexdigest()[:12]}-{source.vocabulary}"
    path = PREPARED / "corpora" / f"{stem}-{tokens}-{valid_tokens}.safetensors"
    vocabulary_path = path.with_name(f"{stem}.tokenizer.json")
    if not vocabulary_path.exists():
        write_atomic(vocabulary_path, train_tokenizer(source).to_str(pretty=True).encode())
    tokenizer = read_prepared(vocabulary_path, lambda path: Tokenizer.from_file(str(path)))
    tokenizer.encode_special_tokens = True  # `END` inside a line is text: id 0 ends documents only
    if not path.exists():
        train, valid = split(source)
        ids = encode(tokenizer, train, tokens), encode(tokenizer, valid, valid_tokens)
        write_atomic(path, save(dict(zip(("train", "valid"), ids, strict=True))))
    arrays = read_prepared(path, load_file)
    text = tokenizer.decode(arrays["valid"].tolist(), skip_special_tokens=True)
    return Stream(arrays["train"], arrays["valid"], tokenizer, len(text.encode()))


# ------------------------------------------------------------------------------ corpora of any kind


def synthetic_stream(name: str, tokens: int, valid_tokens: int) -> Stream:
    """The training stream and the held-out stream of the synthetic language `name`; FptError if it
    needs English and that is not here."""
    if name in ALONE:
        made = ALONE[name]()
    else:
        try:
            english = token_stream("english", ENGLISH_TOKENS).train
        except FptError as error:
            raise FptError(
                f"The synthetic corpus {name!r} has the frequencies of English tokens, and English "
                f"is not here ({str(error).rstrip('.')}); {', '.join(ALONE)} need no text."
            ) from error
        made = FROM_ENGLISH[name](english)
    train, valid = made.sample(tokens, name, "train"), made.sample(valid_tokens, name, "valid")
    return Stream(train, valid, entropy=float(made.entropy), exact=made.exact)


def single(name: str, tokens: int, valid_tokens: int) -> Stream:
    """A corpus that is no mixture."""
    if name in LANGUAGES:
        return synthetic_stream(name, tokens, valid_tokens)
    if name in PIXELS:
        return Stream(*pixels(name, tokens, valid_tokens))
    return token_stream(name, tokens, valid_tokens)


def mixture(name: str, parts: tuple[str, ...], tokens: int, valid_tokens: int) -> Stream:
    """Equal shares of `parts`, `TURN` tokens of each in turn until one ends. Ids of different parts
    share nothing but the token embeddings. The entropy is the mean of the parts': a lower bound,
    because it takes that of an observer who knows which part it is."""
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
    """The first `tokens` training tokens of corpus `name`, or all it has, and held-out ones."""
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
