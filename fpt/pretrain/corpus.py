"""Text corpora as streams of token ids, with one vocabulary size for all of them.

A corpus is one or more text files in `FPT_CORPORA` (default `data/corpora`), plain or `.xz`, in
which a line `<|endoftext|>` (or, for corpora of sentences, every line end) separates documents.
The tokenizer is byte-level BPE, trained on the corpus itself.
"""

import hashlib
import lzma
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tqdm import tqdm

from ..errors import FptError
from ..paths import DATA, PREPARED

END = "<|endoftext|>"
VOCABULARY = 4096
TOKENIZER_SAMPLE = 24_000_000  # characters; more changes no merge that matters at 4,096 entries


@dataclass(frozen=True)
class Corpus:
    """Where a corpus comes from, and how its documents are told apart."""

    name: str
    train: tuple[str, ...]
    valid: str | None  # None: the last 2% of the documents are held out
    by_line: bool  # every line is a document
    licence: str


CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "english",
            tuple(f"english-train-{part}.txt" for part in range(4)),
            "english-valid.txt",
            by_line=False,
            licence="public domain in the US (Project Gutenberg)",
        ),
        Corpus("kannada", ("kannada.txt",), None, by_line=True, licence="see source"),
        Corpus("javascript", ("javascript.txt",), None, by_line=False, licence="MIT, Apache-2.0"),
        Corpus("amino-acids", ("amino-acids.txt",), None, by_line=True, licence="see source"),
    )
}


def corpus(name: str) -> Corpus:
    if name not in CORPORA:
        raise FptError(f"There is no corpus {name!r}; choose one of {', '.join(CORPORA)}.")
    return CORPORA[name]


def corpus_file(name: str) -> Path:
    """The file `name` or `name.xz` in the corpora folder."""
    folder = Path(os.environ.get("FPT_CORPORA", DATA / "corpora"))
    for path in (folder / name, folder / f"{name}.xz"):
        if path.is_file():
            return path
    raise FptError(
        f"The corpus file {name!r} (or {name}.xz) is not in {folder}: "
        "put it there or set FPT_CORPORA to the folder that has it."
    )


def documents(source: Corpus, files: tuple[str, ...]) -> Iterator[str]:
    """The documents of `files`, one string each."""
    for name in files:
        path = corpus_file(name)
        opener = lzma.open if path.suffix == ".xz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
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


def split(source: Corpus) -> tuple[Iterator[str], Iterator[str]]:
    """Training and held-out documents."""
    if source.valid is not None:
        return documents(source, source.train), documents(source, (source.valid,))
    held = [index % 50 == 49 for index, _ in enumerate(documents(source, source.train))]
    if not any(held):
        raise FptError(f"The corpus {source.name!r} is too small: it needs 50 documents or more.")
    train = (d for d, out in zip(documents(source, source.train), held, strict=True) if not out)
    valid = (d for d, out in zip(documents(source, source.train), held, strict=True) if out)
    return train, valid


def train_tokenizer(source: Corpus, vocabulary: int = VOCABULARY) -> Tokenizer:
    """Byte-level BPE with `vocabulary` entries, `END` first (id 0)."""

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
        vocab_size=vocabulary,
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
    return np.concatenate(parts)[:limit]


@dataclass(frozen=True)
class Stream:
    """A tokenized corpus: ids (uint16) for training and held out, and what they came from."""

    tokenizer: Tokenizer
    train: np.ndarray
    valid: np.ndarray
    valid_bytes: int  # UTF-8 bytes behind `valid`, for bits per byte
    digest: str


def token_stream(name: str, tokens: int, valid_tokens: int = 400_000) -> Stream:
    """The first `tokens` training tokens of corpus `name`, or all it has, prepared once."""
    source = corpus(name)
    folder = PREPARED / "corpora"
    path = folder / f"{name}-{VOCABULARY}-{tokens}-{valid_tokens}.safetensors"
    vocabulary_path = folder / f"{name}-{VOCABULARY}.tokenizer.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not vocabulary_path.exists():
            train_tokenizer(source).save(str(vocabulary_path))
        tokenizer = Tokenizer.from_file(str(vocabulary_path))
        train, valid = split(source)
        arrays = {
            "train": encode(tokenizer, train, tokens),
            "valid": encode(tokenizer, valid, valid_tokens),
        }
        partial = path.with_suffix(".partial")
        save_file(arrays, partial)
        os.replace(partial, path)
    tokenizer = Tokenizer.from_file(str(vocabulary_path))
    arrays = load_file(path)
    digest = hashlib.sha256(arrays["train"].tobytes() + arrays["valid"].tobytes()).hexdigest()
    text = tokenizer.decode(arrays["valid"].tolist(), skip_special_tokens=True)
    return Stream(tokenizer, arrays["train"], arrays["valid"], len(text.encode()), digest)
