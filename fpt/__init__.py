"""Pretrained transformers as universal computation engines, reproduced.

`fpt.section("transfer")` gives the runs that a section's tables need; its `train()` trains
what is missing, if the profile allows it, and its `results()` are one tidy row per run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import FptError, instead
from .project import VERSION

if TYPE_CHECKING:
    from .analysis.study import Study, section
    from .auditing import Audit, audit
    from .estimator import FrozenTransformer, FrozenTransformerRegressor, Patches
    from .sections.arms import Arm, register_arm
    from .tasks import own_task, register_task

__version__ = VERSION
LAZY = {
    "Arm": "sections.arms",
    "Audit": "auditing",
    "FrozenTransformer": "estimator",
    "FrozenTransformerRegressor": "estimator",
    "Patches": "estimator",
    "Study": "analysis.study",
    "audit": "auditing",
    "own_task": "tasks",
    "register_arm": "sections.arms",
    "register_task": "tasks",
    "section": "analysis.study",
}
__all__ = [
    "Arm", "Audit", "FptError", "FrozenTransformer", "FrozenTransformerRegressor",
    "Patches", "Study", "audit", "own_task", "register_arm", "register_task", "section",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch, so that commands without it start at once."""
    if name in LAZY:
        return getattr(import_module(f".{LAZY[name]}", __name__), name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{instead(name, __all__)}"
    )


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
