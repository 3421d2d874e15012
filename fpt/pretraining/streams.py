"""Texts and images as streams of token ids.

The tokens of a text are byte-level BPE, trained on the text itself. Those of an image are
its pixels, row by row, one of 512 colours each: three bits per channel, as many colours as
Chen et al. (2020) used for Image GPT, on a grid instead of a palette.
"""

import hashlib
import itertools
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ..errors import FptError
from ..files import write_atomic
from ..project import project
from ..tasks.datasets import Arrays, Dataset, load
from ..tasks.sources import (
    END,
    ENGLISH,
    ENGLISH_HELD_OUT,
    Repository,
    corpus_file,
    decode_image,
    documents,
    file_digest,
    find_corpus_file,
    read_lines,
    read_table,
)
from .lines import END_ID, VOCABULARY

VALID_TOKENS = 400_000
# Every 50th document or image is held out of a corpus without a held-out file.
HELD_OUT = 50
# Characters: longer documents of such a corpus are cut at line ends, or few large files
# would leave nothing to hold out.
PASSAGE = 20_000
# Characters; more changes no merge that matters at 4,096 entries.
TOKENIZER_SAMPLE = 24_000_000
# Characters encoded at a time, so that a whole book needs little memory.
CHUNK = 1 << 20
TEXT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# In the corpora folder; its column `image` has the bytes of each image.
IMAGES = "images-32x32.parquet"
# A public source of the corpus `english`: books of Project Gutenberg.
PG19 = Repository(
    "emozilla/pg19",
    "c021754c8e01c5b1cc83a1f549c1f97fbbb756b8",
    {
        "english-train-0.txt": "data/train-00000-of-00023-5263dc4323e881d2.parquet",
        "english-train-1.txt": "data/train-00001-of-00023-2b13c68dbeba63b5.parquet",
        "english-train-2.txt": "data/train-00002-of-00023-8e4dd6b70d51dfcf.parquet",
        "english-train-3.txt": "data/train-00003-of-00023-e7f0ba0d3c2eb6c0.parquet",
        "english-valid.txt": "data/train-00004-of-00023-3f9e7e096fa07f4b.parquet",
    },
)


@dataclass(frozen=True)
class Stream:
    """A corpus as ids (uint16) for training and held out, with the properties of its
    source."""

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


# ------------------------------------------------------------------------------------ texts


@dataclass(frozen=True)
class Text:
    """The files of a text in the corpora folder, and how they are cut and encoded."""

    name: str
    train: tuple[str, ...]
    valid: str | None = None  # None: every `HELD_OUT`th document is held out
    by_line: bool = False  # whether every line is a document
    vocabulary: int = VOCABULARY


_ENGLISH = Text("english", ENGLISH, ENGLISH_HELD_OUT)
TEXTS = {
    text.name: text
    for text in (
        _ENGLISH,
        Text("kannada", ("kannada.txt",), by_line=True),
        Text("javascript", ("javascript.txt",)),
        Text("amino-acids", ("amino-acids.txt",), by_line=True),
        # The same text in shorter tokens: its 256 bytes and `END`, and their most frequent
        # pairs.
        replace(_ENGLISH, name="english-bytes", vocabulary=257),
        replace(_ENGLISH, name="english-512", vocabulary=512),
    )
}


def has_own_text(name: str) -> bool:
    """Whether the reader's own text NAME.txt or NAME.txt.xz is in the corpora folder."""
    return bool(TEXT_NAME.fullmatch(name)) and find_corpus_file(f"{name}.txt") is not None


def text_named(name: str) -> Text:
    """The text `name`; each line of a reader's own text is a document unless it has a line
    `END`. FptError if there is no such text."""
    if name in TEXTS:
        return TEXTS[name]
    by_line = all(line.strip() != END for line in read_lines(corpus_file(f"{name}.txt")))
    return Text(name, (f"{name}.txt",), by_line=by_line)


def passages(text: Text) -> Iterator[str]:
    """The training documents, longer ones in parts that end where a line does, or anywhere
    in a line that is itself too long: a text may be a few large files."""
    for document in documents(text.train, text.by_line):
        part = ""
        for line in document.splitlines(keepends=True):
            for start in range(0, len(line), PASSAGE):
                part += line[start : start + PASSAGE]
                if len(part) >= PASSAGE:
                    yield part
                    part = ""
        if part:
            yield part


def split(text: Text) -> tuple[Iterator[str], Iterator[str]]:
    """Training and held-out documents, or passages of them."""
    if text.valid is not None:
        return documents(text.train), documents((text.valid,))
    # Every 50th, from the 50th on.
    train = (part for place, part in enumerate(passages(text), 1) if place % HELD_OUT)
    return train, itertools.islice(passages(text), HELD_OUT - 1, None, HELD_OUT)


def train_tokenizer(text: Text) -> Tokenizer:
    """Byte-level BPE with the vocabulary of the text, `END` first (id 0)."""

    def sample() -> Iterator[str]:
        left = TOKENIZER_SAMPLE
        for document in split(text)[0]:
            yield document[:left]
            left -= len(document)
            if left <= 0:
                return

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=text.vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample(), trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterator[str], limit: int) -> np.ndarray:
    """The documents one after the other, each ended by `END`, as uint16 ids; at most
    `limit`."""
    ids = array("H")
    for text in texts:
        for start in range(0, len(text), CHUNK):
            ids.extend(tokenizer.encode(text[start : start + CHUNK]).ids)
        ids.append(END_ID)
        if len(ids) >= limit:
            break
    return np.array(ids, np.uint16)[:limit]


def text_stream(name: str, tokens: int, valid_tokens: int = VALID_TOKENS) -> Stream:
    """The first `tokens` training tokens of the text `name`, or all it has, prepared
    once."""
    source = text_named(name)
    # The content of the files is part of the key, because they may be replaced.
    content = hashlib.sha256()
    for file in filter(None, (*source.train, source.valid)):
        with corpus_file(file).open("rb") as corpus:
            while block := corpus.read(1 << 20):
                content.update(block)
    key = f"corpora/{name}-{content.hexdigest()[:12]}-{source.vocabulary}"

    def build_tokenizer() -> Arrays:
        text = train_tokenizer(source).to_str(pretty=True)
        return {"json": np.frombuffer(text.encode(), np.uint8)}

    stored = load(
        Dataset(
            f"{key}-tokenizer",
            {},
            build_tokenizer,
        )
    )["json"].numpy()
    tokenizer = Tokenizer.from_str(stored.tobytes().decode())
    # `END` inside a line is text: id 0 ends documents only.
    tokenizer.encode_special_tokens = True

    def build() -> Arrays:
        train, valid = split(source)
        return {
            "train": encode(tokenizer, train, tokens),
            "valid": encode(tokenizer, valid, valid_tokens),
        }

    arrays = load(Dataset(f"{key}-{tokens}-{valid_tokens}-v2", {}, build))
    valid = arrays["valid"].numpy()
    text = tokenizer.decode(valid.tolist(), skip_special_tokens=True)
    return Stream(
        arrays["train"].numpy(),
        valid,
        tokenizer,
        len(text.encode()),
    )


def build_english() -> Iterator[str]:
    """Write what is missing of the corpus `english` into the corpora folder; yield each
    file with its SHA-256. FptError if the hub cannot be reached or has other content than
    at the first build."""
    for name in PG19.files:
        if find_corpus_file(name) is None:
            (books,) = PG19.columns(name, "text")
            text = "".join(f"{book.rstrip()}\n{END}\n" for book in books)
            write_atomic(project().corpora / name, text.encode())
        path = corpus_file(name)
        yield f"{path} {file_digest(path)}"


# ----------------------------------------------------------------------------------- images


def pixel_ids(images: np.ndarray) -> np.ndarray:
    """(N, H, W, 3) uint8 -> (N * (H * W + 1),) uint16: ids 1 to 512, and `END_ID` after
    each."""
    red, green, blue = np.moveaxis((images >> 5).astype(np.uint16), -1, 0)
    ids = 1 + (red << 6) + (green << 3) + blue
    rows = ids.reshape(len(ids), -1)
    return np.pad(rows, ((0, 0), (0, 1)), constant_values=END_ID).ravel()


def image_stream(tokens: int, valid_tokens: int) -> Stream:
    """The images of the file `IMAGES`: the first `tokens` training ids, or all it has, and
    the ids of held-out images. FptError if the file is missing, too short or of images of
    many sizes."""
    path = corpus_file(IMAGES)
    column = read_table(path, "image")["image"]
    if len(column) < HELD_OUT:
        raise FptError(f"{path} has {len(column)} images; {HELD_OUT} are the least.")
    held_out = np.arange(len(column)) % HELD_OUT == HELD_OUT - 1
    height, width, _ = decode_image(column[0].as_py(), "RGB").shape

    def ids(chosen: np.ndarray, limit: int) -> np.ndarray:
        rows = np.flatnonzero(chosen)[: math.ceil(limit / (height * width + 1))]
        images = [decode_image(value, "RGB") for value in column.take(rows).to_pylist()]
        if any(image.shape != (height, width, 3) for image in images):
            raise FptError(f"{path} has images of different sizes; one size is expected.")
        return pixel_ids(np.stack(images))[:limit]

    return Stream(ids(~held_out, tokens), ids(held_out, valid_tokens))
