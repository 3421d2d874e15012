"""GLUE (Wang et al. 2018, arXiv:1804.07461): English sentences and pairs of them, as bytes.

The test labels of GLUE are kept back by its authors, so `test` is the official validation set, as
in most of the literature, and `valid` is drawn from the training set. Every score is accuracy,
where GLUE itself has Matthews's correlation for CoLA and F1 beside it for MRPC and QQP.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import parquet
from .base import choice, resolve
from .datasets import Arrays, Dataset, fetch, hub_identity
from .rng import fold
from .sequences import check_sequences, end_to_end
from .text import SYMBOLS, TextTask, encode

PREPARATION = 1
LENGTH = 512  # bytes, of both texts of a pair together; what is longer is cut


@dataclass(frozen=True)
class Subset:
    """One of GLUE's tasks: its columns of text, its labels by number, and how many examples are in
    its training set, are taken from that for `valid`, and are in its validation set."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    train: int
    valid: int
    test: int


SUBSETS: Mapping[str, Subset] = {
    "cola": Subset(("sentence",), ("unacceptable", "acceptable"), 8_551, 500, 1_043),
    "sst2": Subset(("sentence",), ("negative", "positive"), 67_349, 1_000, 872),
    "mrpc": Subset(("sentence1", "sentence2"), ("different", "equivalent"), 3_668, 300, 408),
    "rte": Subset(("sentence1", "sentence2"), ("entailment", "no entailment"), 2_490, 200, 277),
    "qnli": Subset(("question", "sentence"), ("answered", "not answered"), 104_743, 2_000, 5_463),
}


def _from_hub(name: str) -> Arrays:
    subset = SUBSETS[name]
    read: dict[str, tuple[list[np.ndarray], np.ndarray]] = {}
    for split in ("train", "test"):
        path = fetch(f"glue-{name}", split)
        table = parquet.read(path, *subset.columns, "label")
        columns = [parquet.texts(path, table, column) for column in subset.columns]
        seconds = columns[1] if len(columns) > 1 else [None] * len(table)
        texts = [encode(a, b, LENGTH) for a, b in zip(columns[0], seconds, strict=True)]
        read[split] = texts, parquet.labels(path, table, "label", len(subset.names))
    texts, labels = read["train"]
    rows = np.random.Generator(np.random.PCG64(fold("glue", name))).permutation(len(texts))
    parts = {"train": rows[subset.valid :], "valid": rows[: subset.valid]}
    arrays = end_to_end("test", read["test"][0], read["test"][1].astype(np.uint8))
    for split, chosen in parts.items():
        arrays |= end_to_end(split, [texts[row] for row in chosen], labels[chosen].astype(np.uint8))
    return arrays


def glue(**given: Any) -> TextTask:
    """Option subset: "sst2" (sentiment), "cola" (grammar), "mrpc" (paraphrase), "rte" or "qnli"
    (inference), whose hub data are fetched where they are used."""
    options = resolve("glue", given, {"subset": "sst2"})
    name = options["subset"]
    choice("glue", "subset", name, tuple(SUBSETS))
    subset = SUBSETS[name]
    sizes = {"train": subset.train - subset.valid, "valid": subset.valid, "test": subset.test}
    return TextTask(
        name="glue",
        options=options,
        kind="token",
        dim=SYMBOLS,
        length=LENGTH,
        classes=len(subset.names),
        names=subset.names,
        sizes=sizes,
        dataset=Dataset(
            f"glue-{name}-v{PREPARATION}",
            hub_identity(f"glue-{name}", PREPARATION) | {"subset": name},
            lambda: _from_hub(name),
            lambda arrays: check_sequences(arrays, sizes, SYMBOLS, LENGTH, len(subset.names)),
        ),
    )
