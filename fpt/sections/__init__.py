"""The sections of the paper, one for each notebook: what it compares, and what the paper
printed beside it. Nothing here runs; `fpt.config` turns a section's arms into runs."""

from collections.abc import Iterable
from dataclasses import replace

from ..errors import FptError
from .comparison import Section
from .notebooks import SECTIONS

NAMES = tuple(SECTIONS)


def declared(name: str, arms: Iterable[str] = ()) -> Section:
    """What the section `name` declares. Those of `arms` that it does not have, such as a
    reader's own, stand in its first table, compared with nothing. FptError for a section
    that is not declared."""
    if name not in SECTIONS:
        raise FptError(
            f"The section {name!r} is not declared; add it to fpt/sections/notebooks.py "
            "(docs/own-task.md)."
        )
    section = SECTIONS[name]
    if not section.comparisons:
        return section
    first, *others = section.comparisons
    named = {arm for comparison in section.comparisons for arm in comparison.arms}
    rest = [arm for arm in arms if arm not in named]
    first = replace(first, arms=(*first.arms, *rest))
    return replace(section, comparisons=(first, *others))
