"""Remote homology (TAPE, Rao et al. 2019): the fold of a protein from its amino acids.

Tokens follow TAPE's IUPAC vocabulary of 30: five specials, then the 25 letters A to Z but
J. <cls> and <sep> surround the residues, and a protein of more than 1022 residues keeps its
first 1022 (0.06% of train is cut).
"""

from typing import Any

import numpy as np

from .base import Example, resolve
from .datasets import Arrays, hub_dataset
from .sequences import SequenceTask, end_to_end
from .sources import LOCKED, Repository

PREPARATION = 1
SPECIALS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>")
VOCABULARY = (*SPECIALS, *"ABCDEFGHIKLMNOPQRSTUVWXYZ")
CLS, SEP, UNKNOWN = 2, 3, 4
POSITIONS = 1024
FOLDS = 1195
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

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        residues = "".join(VOCABULARY[t] for t in tokens if t > UNKNOWN)
        return Example(f"fold {label}", text=residues)


# Tokens by the code of a letter.
TOKEN_OF = np.full(256, UNKNOWN, np.uint8)
TOKEN_OF[[ord(letter) for letter in VOCABULARY[5:]]] = np.arange(5, 30)


def encode(residues: str) -> np.ndarray:
    """<cls>, the first 1022 residues, <sep>: uint8. Unknown letters are <unk>."""
    letters = np.frombuffer(residues.encode("latin-1", "replace"), np.uint8)
    tokens = TOKEN_OF[letters[: POSITIONS - 2]]
    return np.concatenate([[CLS], tokens, [SEP]]).astype(np.uint8)


def _build() -> Arrays:
    arrays: Arrays = {}
    for split in REPOSITORY.files:
        residues, folds = REPOSITORY.columns(split, "primary", "fold_label")
        labels = np.array(folds, np.int16)
        arrays |= end_to_end(split, [encode(text) for text in residues], labels)
        is_cut = [len(text) > POSITIONS - 2 for text in residues]
        arrays[f"{split}_cut"] = np.array(is_cut, np.uint8)
    return arrays


def homology(**options: Any) -> ProteinTask:
    """Option padding: "masked" (the last real token, <sep>, is read) or "released" (nothing
    is masked and the last of 1024 positions is read; the released loader pads to the
    longest protein of a batch instead). Test is TAPE's fold holdout."""
    options = resolve("homology", options, {"padding": ("masked", "released")})
    return ProteinTask(
        name="homology",
        options=options,
        dim=len(VOCABULARY),
        length=POSITIONS,
        classes=FOLDS,
        sizes={
            "train": 12_312,
            "valid": 736,
            "test": 718,
            "superfamily": 1_214,
            "family": 1_207,
        },
        masked=options["padding"] == "masked",
        dataset=hub_dataset("homology", PREPARATION, REPOSITORY, _build),
    )
