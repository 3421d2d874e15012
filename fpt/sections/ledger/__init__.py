"""What the paper claims, and what it leaves open: the claims of every section."""

from collections.abc import Mapping

from ...analysis.claim import Claim
from . import (
    architecture,
    attention,
    efficiency,
    finetuning,
    initialization,
    learning_rate,
    modality,
    overfitting,
    scaling,
    synthetic_pretraining,
    transfer,
)

CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "transfer": transfer.CLAIMS,
    "architecture": architecture.CLAIMS,
    "overfitting": overfitting.CLAIMS,
    "modality": modality.CLAIMS,
    "scaling": scaling.CLAIMS,
    "efficiency": efficiency.CLAIMS,
    "initialization": initialization.CLAIMS,
    "finetuning": finetuning.CLAIMS,
    "attention": attention.CLAIMS,
    "learning_rate": learning_rate.CLAIMS,
    "synthetic_pretraining": synthetic_pretraining.CLAIMS,
}
