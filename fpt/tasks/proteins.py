"""Remote homology (TAPE, Rao et al. 2019): the fold of a protein from its amino acids; and
generated families, a stand-in.

Tokens follow TAPE's IUPAC vocabulary of 30: five specials, then the 25 letters A to Z but J.
<cls> and <sep> surround the residues, and a protein of more than 1022 residues keeps its first
1022 (0.06% of train is cut).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Example, resolve
from .datasets import Arrays, Dataset, hub_dataset, load
from .hub import LOCKED, Repository, read_table
from .rng import fold
from .sequences import SequenceTask, end_to_end

PREPARATION = 1
SPECIALS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>")
VOCABULARY = (*SPECIALS, *"ABCDEFGHIKLMNOPQRSTUVWXYZ")
PAD, MASK, CLS, SEP, UNK = range(5)
POSITIONS = 1024
FOLDS = 1195
REPOSITORY = Repository(
    "Hauser7733/TAPE_Remote_Homology",
    LOCKED,
    "unknown (TAPE itself: BSD-3-Clause)",
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

    label: str = "fold"  # what a class is called

    def coverage(self) -> dict[str, float]:
        """Per split, the fraction of proteins that are not cut."""
        arrays = load(self.dataset)
        return {split: 1 - arrays[f"{split}_cut"].double().mean().item() for split in self.sizes}

    def example(self, split: str, index: int) -> Example:
        tokens, label = self.sequence(split, index)
        residues = "".join(VOCABULARY[t] for t in tokens if t > UNK)
        return Example(answer=f"{self.label} {label}", text=residues)


def encode(residues: str, positions: int = POSITIONS) -> np.ndarray:
    """<cls>, the first `positions` - 2 residues, <sep>: uint8. Unknown letters are <unk>."""
    table = np.full(256, UNK, np.uint8)
    for token, letter in enumerate(VOCABULARY[len(SPECIALS) :], start=len(SPECIALS)):
        table[ord(letter)] = token
    letters = np.frombuffer(residues.encode("latin-1", "replace"), np.uint8)[: positions - 2]
    return np.concatenate([[CLS], table[letters], [SEP]]).astype(np.uint8)


def _from_hub() -> Arrays:
    arrays: Arrays = {}
    for split in REPOSITORY.files:
        table = read_table(REPOSITORY.fetch(split), "primary", "fold_label")
        residues = table["primary"].to_pylist()
        labels = table["fold_label"].to_numpy().astype(np.int16)
        arrays |= end_to_end(split, [encode(text) for text in residues], labels)
        cut = np.array([len(text) > POSITIONS - 2 for text in residues])
        arrays[f"{split}_cut"] = cut.astype(np.uint8)
    return arrays


def _protein_task(name: str, given: dict[str, Any], **form: Any) -> ProteinTask:
    options = resolve(name, given, {"padding": ("masked", "released")})
    masked = options["padding"] == "masked"
    return ProteinTask(
        name=name, options=options, kind="token", dim=len(VOCABULARY), masked=masked, **form
    )


def homology(**given: Any) -> ProteinTask:
    """Option padding: "masked" (the last real token, <sep>, is read) or "released" (unmasked, the
    last position is read; padded to 1024 positions, where the released loader pads to the longest
    of a batch of similar lengths). Test is TAPE's fold holdout."""
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
    rng = np.random.Generator(np.random.PCG64(fold("families")))
    # All ancestors are orderings of the same residues: composition alone says little.
    residues = np.resize(AMINO_ACIDS, ANCESTOR)
    ancestors = [rng.permutation(residues) for _ in range(FAMILIES)]
    motifs = rng.integers(0, ANCESTOR - MOTIF + 1, FAMILIES)
    arrays: Arrays = {}
    for split, count in FAMILIES_SIZES.items():
        labels = rng.integers(0, FAMILIES, count)
        sequences = [_mutate(rng, ancestors[i], motifs[i]) for i in labels]
        whole = FAMILIES_LENGTH - 2
        wrapped = [np.concatenate([[CLS], s[:whole], [SEP]]).astype(np.uint8) for s in sequences]
        arrays |= end_to_end(split, wrapped, labels.astype(np.int16))
        arrays[f"{split}_cut"] = np.array([len(s) > whole for s in sequences], np.uint8)
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
