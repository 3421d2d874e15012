"""Pretrained transformers as universal computation engines, reproduced.

`fpt.section("transfer")` gives the runs that a section's tables need; its `train()` trains what is
missing, if the profile allows it, and its `results()` are one tidy row per run.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from .files import FptError

if TYPE_CHECKING:
    from .analysis.study import Study, section

__all__ = ["FptError", "Study", "section"]


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch, so that commands without it start at once."""
    if name in ("Study", "section"):
        from .analysis import study

        return getattr(study, name)
    if name == "__version__":
        return version("fpt")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
