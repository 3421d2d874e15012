"""Text corpora (`fpt.tasks.texts`) as streams of token ids, with one vocabulary size for all of
them: byte-level BPE, trained on the corpus itself.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm

from ..files import PREPARED, FptError, write_atomic
from ..tasks.datasets import Arrays
from ..tasks.texts import END, Corpus, corpus, corpus_file, documents

VALID_TOKENS = 400_000
HELD_OUT = 50  # of documents or images without a held-out file, every how manieth is held out
PASSAGE = 20_000  # characters: where none is held out, longer documents are cut at line ends
TOKENIZER_SAMPLE = 24_000_000  # characters; more changes no merge that matters at 4,096 entries


def passages(source: Corpus) -> Iterator[str]:
    """The training documents, the long ones in parts that end where a line does, or, in a line that
    is itself too long, anywhere: a text may be a few large files."""
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


def encode(tokenizer: Tokenizer, texts: Iterator[str], limit: int | None) -> np.ndarray:
    """The documents one after the other, each ended by `END`, as uint16 ids; at most `limit`."""
    end = tokenizer.token_to_id(END)
    parts: list[np.ndarray] = []
    total = 0
    with tqdm(desc="encode", unit="tok", unit_scale=True, disable=None) as bar:
        for text in texts:
            ids: list[int] = []
            for start in range(0, len(text), 1 << 20):  # bounded memory for whole books
                ids += tokenizer.encode(text[start : start + (1 << 20)]).ids
            parts.append(np.array([*ids, end], dtype=np.uint16))
            total += len(parts[-1])
            bar.update(len(parts[-1]))
            if limit is not None and total >= limit:
                break
    return np.concatenate([np.zeros(0, np.uint16), *parts])[:limit]


@dataclass(frozen=True)
class Stream:
    """A corpus as ids (uint16) for training and held out, and what is known of it."""

    train: np.ndarray
    valid: np.ndarray
    tokenizer: Tokenizer | None = None  # of a text
    valid_bytes: int | None = None  # UTF-8 bytes behind `valid`, for bits per byte
    entropy: float | None = None  # nats per token of the generator, where there is one
    exact: bool = False  # whether `entropy` is it, not a lower bound
    sparse: bool = False  # one loss per sequence, at its last token, not one at every token

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.train.tobytes() + self.valid.tobytes()).hexdigest()


def read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no class of its own for it
        raise FptError(
            f"{path} is no tokenizer ({error}); remove it, and it is trained again."
        ) from error


def read_prepared(path: Path) -> Arrays:
    """Training and held-out ids as they were prepared; FptError if the file is damaged."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FptError(
            f"{path} holds no prepared text ({error}); remove it, and it is prepared again."
        ) from error


def token_stream(name: str, tokens: int, valid_tokens: int = VALID_TOKENS) -> Stream:
    """The first `tokens` training tokens of the text `name`, or all it has, prepared once."""
    source = corpus(name)
    folder = PREPARED / "corpora"
    content = hashlib.sha256()  # of the files: they may be replaced
    for part in (*source.train, *([source.valid] if source.valid else [])):
        content.update(corpus_file(part).read_bytes())
    stem = f"{name}-{content.hexdigest()[:12]}-{source.vocabulary}"
    path = folder / f"{stem}-{tokens}-{valid_tokens}.safetensors"
    vocabulary_path = folder / f"{stem}.tokenizer.json"
    if not vocabulary_path.exists():
        write_atomic(vocabulary_path, train_tokenizer(source).to_str(pretty=True).encode())
    tokenizer = read_tokenizer(vocabulary_path)
    tokenizer.encode_special_tokens = True  # `END` inside a line is text: id 0 ends documents only
    if not path.exists():
        train, valid = split(source)
        arrays = {
            "train": encode(tokenizer, train, tokens),
            "valid": encode(tokenizer, valid, valid_tokens),
        }
        for part, ids in arrays.items():
            if not len(ids):
                raise FptError(f"The corpus {name!r} has no text for its part {part!r}.")
        write_atomic(path, save(arrays))
    arrays = read_prepared(path)
    text = tokenizer.decode(arrays["valid"].tolist(), skip_special_tokens=True)
    return Stream(arrays["train"], arrays["valid"], tokenizer, len(text.encode()))
