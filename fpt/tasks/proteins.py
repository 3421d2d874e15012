"""Remote homology (TAPE, Rao et al. 2019): the fold of a protein from its amino acids.

Tokens follow TAPE's IUPAC vocabulary of 30: five specials, then the 25 letters A to Z but
J. <cls> and <sep> surround the residues, and a protein of more than 1022 residues keeps its
first 1022 (0.06% of train is cut).

Proteins have 169 tokens on average, and the longest of 16 has 417. In batches of proteins
of about one length, most of that padding is saved.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..errors import FptError
from .base import Batch, Device, Example, order, resolve
from .datasets import Arrays, hub_dataset, load
from .rng import generator
from .sequences import SequenceTask, end_to_end
from .sources import LOCKED, Repository

PREPARATION = 1
SPECIALS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>")
VOCABULARY = (*SPECIALS, *"ABCDEFGHIKLMNOPQRSTUVWXYZ")
CLS, SEP, UNKNOWN = 2, 3, 4
POSITIONS = 1024
FOLDS = 1195
# Tokens of a training example with its padding, in batches of 16: by length, and not.
SORTED, UNSORTED = 207, 417
REPOSITORY = Repository(
    "Hauser7733/TAPE_Remote_Homology",
    LOCKED,
    {
        "train": "data/train-00000-of-00001.parquet",
        "valid": "data/validation-00000-of-00001.parquet",
        "test": "data/test_fold_holdout-00000-of-00001.parquet",
        "superfamily": "data/test_superfamily_holdout-00000-of-00001.parquet",
        "family": "data/test_family_holdout-00000-of-00001.parquet",
    },
)


class ProteinTask(SequenceTask):
    """Arrays per split as in SequenceTask, and `<split>_cut`: 1 if residues were left
    out."""

    def train_batch(
        self,
        seeds: Sequence[int],
        step: int,
        size: int,
        device: Device,
        augment: bool = False,
    ) -> Batch:
        """With option `window`, the examples of that many batches, sorted by length and cut
        into batches. Their order is drawn anew for each window, since short before long
        would be another treatment; all runs of a pack have the same, so that none pads the
        others."""
        window = self.options.get("window", 1)
        rows = order(self.sizes["train"], seeds, step // window, window * size)
        if window > 1:
            lengths = load(self.dataset)["train_starts"].diff()
            by_length = lengths[rows].sort(dim=1, stable=True).indices
            draw = generator("cpu", "window", self.name, step // window)
            place = int(torch.randperm(window, generator=draw)[step % window])
            rows = rows.gather(1, by_length[:, place * size : (place + 1) * size])
        return self.examples("train", rows, device)

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        residues = "".join(VOCABULARY[t] for t in tokens if t > UNKNOWN)
        return Example(f"fold {label}", text=residues)


# Tokens by the code of a letter.
TOKEN_OF = np.full(256, UNKNOWN, np.uint8)
TOKEN_OF[[ord(letter) for letter in VOCABULARY[5:]]] = np.arange(5, 30)


def encode(residues: str, length: int = POSITIONS) -> np.ndarray:
    """<cls>, the first residues, <sep>, together `length` tokens at most: uint8. Unknown
    letters are <unk>."""
    letters = np.frombuffer(residues.encode("latin-1", "replace"), np.uint8)
    tokens = TOKEN_OF[letters[: length - 2]]
    return np.concatenate([[CLS], tokens, [SEP]]).astype(np.uint8)


def _build(length: int) -> Arrays:
    arrays: Arrays = {}
    for split in REPOSITORY.files:
        residues, folds = REPOSITORY.columns(split, "primary", "fold_label")
        labels = np.array(folds, np.int16)
        arrays |= end_to_end(split, [encode(text, length) for text in residues], labels)
        is_cut = [len(text) > length - 2 for text in residues]
        arrays[f"{split}_cut"] = np.array(is_cut, np.uint8)
    return arrays


def homology(**options: Any) -> ProteinTask:
    """Option padding: "masked" (the last real token, <sep>, is read) or "released" (nothing
    is masked and the last of 1024 positions is read; the released loader pads to the
    longest protein of a batch instead). Option length: tokens at which a protein is cut.
    Option window: batches whose proteins are sorted by length, 1 for none. Test is TAPE's
    fold holdout."""
    later = {"length": POSITIONS, "window": 1}
    options = resolve("homology", options, {"padding": ("masked", "released")}, later)
    length = options.get("length", POSITIONS)
    if not 3 <= length <= POSITIONS:
        raise FptError(
            f"option 'length' of task 'homology' must be from 3 to {POSITIONS}, not "
            f"{length}."
        )
    is_masked = options["padding"] == "masked"
    of_length = f"-{length}" if length < POSITIONS else ""
    return ProteinTask(
        name="homology",
        options=options,
        dim=len(VOCABULARY),
        length=length,
        padded=min(length, SORTED if "window" in options else UNSORTED) * is_masked,
        classes=FOLDS,
        sizes={
            "train": 12_312,
            "valid": 736,
            "test": 718,
            "superfamily": 1_214,
            "family": 1_207,
        },
        masked=is_masked,
        dataset=hub_dataset(
            f"homology{of_length}", PREPARATION, REPOSITORY, partial(_build, length)
        ),
    )
