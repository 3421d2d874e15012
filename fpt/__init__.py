"""Pretrained transformers as universal computation engines, reproduced.

`fpt.section("transfer")` gives the runs that a section's tables need; its `train()` trains what is
missing, if the profile allows it, and its `results()` are one tidy row per run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .files import FptError

if TYPE_CHECKING:
    from .analysis.study import Study, section
    from .estimator import FrozenTransformer, FrozenTransformerRegressor

__all__ = ["FptError", "FrozenTransformer", "FrozenTransformerRegressor", "Study", "section"]


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch, so that commands without it start at once."""
    for module in (".analysis.study", ".estimator"):
        if name in __all__ and hasattr(found := import_module(module, __name__), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
