"""The sections of the paper, one file for each notebook: what it compares, and what the paper
printed beside it. Nothing here runs; `fpt.config` turns a section's arms into runs."""

from importlib import import_module

from .comparison import Section

NAMES = (
    "tasks", "transfer", "modality", "architecture", "efficiency", "overfitting", "scaling",
    "initialization", "finetuning", "attention", "learning_rate", "synthetic_pretraining", "verdict"
)  # fmt: skip


def declared(name: str) -> Section:
    """What the section `name` declares."""
    section: Section = import_module(f".{name}", __name__).SECTION
    return section
