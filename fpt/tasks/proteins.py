"""Remote homology (TAPE, Rao et al. 2019): the fold of a protein from its amino acids; and
generated families of proteins, a stand-in that needs no network.

Tokens follow TAPE's IUPAC vocabulary of 30: five specials, then the 25 letters A to Z but J.
<cls> and <sep> surround the residues, and a protein of more than 1022 residues keeps its first
1022 (0.06% of train is cut).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Example, resolve
from .datasets import Arrays, Dataset, hub_dataset
from .rng import numpy_generator
from .sequences import SequenceTask, end_to_end
from .sources import LOCKED, Repository, read_table

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


@dataclass(frozen=True, kw_only=True, eq=False)
class ProteinTask(SequenceTask):
    """Arrays per split as in SequenceTask, and `<split>_cut`: 1 if residues were left out."""

    dim: int = len(VOCABULARY)
    label: str = "fold"  # what a class is called

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        residues = "".join(VOCABULARY[t] for t in tokens if t > UNKNOWN)
        return Example(answer=f"{self.label} {label}", text=residues)


TOKEN_OF = np.full(256, UNKNOWN, np.uint8)  # by the code of a letter
TOKEN_OF[[ord(letter) for letter in VOCABULARY[5:]]] = np.arange(5, 30)


def encode(residues: str) -> np.ndarray:
    """<cls>, the first 1022 residues, <sep>: uint8. Unknown letters are <unk>."""
    letters = np.frombuffer(residues.encode("latin-1", "replace"), np.uint8)
    return enclosed(TOKEN_OF[letters], POSITIONS)


def enclosed(residues: np.ndarray, length: int) -> np.ndarray:
    """<cls>, tokens of residues, <sep>: uint8, at most `length` of them."""
    return np.concatenate([[CLS], residues[: length - 2], [SEP]]).astype(np.uint8)


def _from_hub() -> Arrays:
    arrays: Arrays = {}
    for split in REPOSITORY.files:
        table = read_table(REPOSITORY.fetch(split), "primary", "fold_label")
        residues = table["primary"].to_pylist()
        labels = table["fold_label"].to_numpy().astype(np.int16)
        arrays |= end_to_end(split, [encode(text) for text in residues], labels)
        arrays[f"{split}_cut"] = np.array([len(it) > POSITIONS - 2 for it in residues], np.uint8)
    return arrays


def _protein_task(name: str, given: dict[str, Any], **form: Any) -> ProteinTask:
    options = resolve(name, given, {"padding": ("masked", "released")})
    masked = options["padding"] == "masked"
    return ProteinTask(name=name, options=options, masked=masked, **form)


def homology(**given: Any) -> ProteinTask:
    """Option padding: "masked" (the last real token, <sep>, is read) or "released" (nothing is
    masked and the last of 1024 positions is read; the released loader pads to the longest protein
    of a batch instead). Test is TAPE's fold holdout."""
    return _protein_task(
        "homology",
        given,
        length=POSITIONS,
        classes=FOLDS,
        sizes={"train": 12_312, "valid": 736, "test": 718, "superfamily": 1_214, "family": 1_207},
        dataset=hub_dataset("homology", PREPARATION, REPOSITORY, _from_hub),
    )


FAMILIES = 32
FAMILIES_SIZES = {"train": 6_000, "valid": 1_000, "test": 2_000}
FAMILIES_LENGTH = 128
ANCESTOR = 96
MOTIF = 12
AMINO_ACIDS = np.array([VOCABULARY.index(letter) for letter in "ACDEFGHIKLMNPQRSTVWY"], np.uint8)


def _mutate(rng: np.random.Generator, ancestor: np.ndarray, motif: int) -> np.ndarray:
    """A descendant: outside its motif, one residue in four is substituted, one in twenty lost, and
    one in twenty followed by a new one."""
    count = len(ancestor)
    fate, new = rng.integers(0, 20, count), rng.choice(AMINO_ACIDS, (2, count))
    protected = (np.arange(count) >= motif) & (np.arange(count) < motif + MOTIF)
    fate[protected] = 19
    body = np.where(fate < 5, new[0], ancestor)
    repeats = np.where(fate == 5, 0, np.where(fate == 6, 2, 1))
    source = np.repeat(np.arange(count), repeats)
    inserted = np.concatenate([[False], source[1:] == source[:-1]])
    return np.where(inserted, new[1][source], body[source])


def _families() -> Arrays:
    rng = numpy_generator("families")
    # All ancestors are orderings of the same residues: composition alone says little.
    residues = np.resize(AMINO_ACIDS, ANCESTOR)
    ancestors = [rng.permutation(residues) for _ in range(FAMILIES)]
    motifs = rng.integers(0, ANCESTOR - MOTIF + 1, FAMILIES)
    arrays: Arrays = {}
    for split, count in FAMILIES_SIZES.items():
        labels = rng.integers(0, FAMILIES, count)
        sequences = [_mutate(rng, ancestors[i], motifs[i]) for i in labels]
        tokens = [enclosed(residues, FAMILIES_LENGTH) for residues in sequences]
        arrays |= end_to_end(split, tokens, labels.astype(np.int16))
        cut = [len(residues) > FAMILIES_LENGTH - 2 for residues in sequences]
        arrays[f"{split}_cut"] = np.array(cut, np.uint8)
    return arrays


def families(**given: Any) -> ProteinTask:
    """Generated protein families, at most 128 tokens; option padding as in homology. A stand-in."""
    source = {"source": "generated", "preparation": PREPARATION}
    return _protein_task(
        "families",
        given,
        length=FAMILIES_LENGTH,
        classes=FAMILIES,
        label="family",
        sizes=dict(FAMILIES_SIZES),
        dataset=Dataset(f"families-v{PREPARATION}", source, _families),
    )
