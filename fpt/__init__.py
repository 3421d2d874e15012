"""Pretrained transformers as universal computation engines, reproduced.

`fpt.section("transfer")` gives the runs that a section's tables need; its `train()` trains what is
missing, where the profile allows it, and its `frame()` is one tidy row per run.
"""

from typing import TYPE_CHECKING, Any

from .files import FptError

if TYPE_CHECKING:
    from .sections.section import Section, section

__all__ = ["FptError", "Section", "section"]


def __getattr__(name: str) -> Any:
    """What needs torch and transformers is imported when it is first asked for: a command that
    trains nothing starts at once."""
    if name in ("Section", "section"):
        from .sections import section as sections

        return getattr(sections, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
