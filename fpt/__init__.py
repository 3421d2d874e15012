"""Pretrained transformers as universal computation engines, reproduced.

`fpt.results()` has a row for each run, `fpt.paper("T9")` a table of the paper, `fpt.beside`
puts ours into it, `fpt.compare` says who does better and how sure that is, `fpt.plot`
draws, and `fpt.learn` trains a run while you watch. `fpt.FrozenTransformer` learns from
your own sequences, and `fpt.audit` asks the paper's question of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import FptError, instead
from .project import VERSION

if TYPE_CHECKING:
    from . import paper
    from .auditing import Audit, audit
    from .estimator import FrozenTransformer, Patches
    from .names import Arm, Model, register_arm, register_model
    from .reading import plot
    from .reading.beside import beside
    from .reading.effect import compare
    from .reading.live import learn, load
    from .reading.results import results
    from .tasks import own_task, register_task

__version__ = VERSION
LAZY = {
    "Arm": "names",
    "Audit": "auditing",
    "FrozenTransformer": "estimator",
    "Model": "names",
    "Patches": "estimator",
    "audit": "auditing",
    "beside": "reading.beside",
    "compare": "reading.effect",
    "learn": "reading.live",
    "load": "reading.live",
    "own_task": "tasks",
    "register_arm": "names",
    "register_model": "names",
    "register_task": "tasks",
    "results": "reading.results",
}
MODULES = {"paper": "paper", "plot": "reading.plot"}
__all__ = [
    "Arm", "Audit", "FptError", "FrozenTransformer", "Model", "Patches", "audit",
    "beside", "compare", "learn", "load", "own_task", "paper", "plot", "register_arm",
    "register_model", "register_task", "results",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch, so that commands without it start at once."""
    if name in MODULES:
        return import_module(f".{MODULES[name]}", __name__)
    if name in LAZY:
        return getattr(import_module(f".{LAZY[name]}", __name__), name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{instead(name, __all__)}"
    )


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
