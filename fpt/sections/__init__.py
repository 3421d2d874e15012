"""The sections of the paper, one for each notebook: what it compares, and what the paper
printed beside it. Nothing here runs; `fpt.config` turns a section's arms into runs."""

from .comparison import Section
from .notebooks import SECTIONS

NAMES = tuple(SECTIONS)


def declared(name: str) -> Section:
    """What the section `name` declares."""
    return SECTIONS[name]
