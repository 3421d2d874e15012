"""Tables, figures, pages: what a notebook shows and what a report is made of."""

from importlib import import_module
from typing import Any

MADE_IN = {
    **dict.fromkeys(("dot_plot", "learning_curves", "samples"), "figures.plots"),
    **dict.fromkeys(("line_plot", "with_panels"), "figures.lines"),
    **dict.fromkeys(("conclude", "effects", "show_figure", "show_table"), "show"),
    "progress_table": "progress",
    "forest": "figures.forest",
    "head_maps": "figures.heads",
    **dict.fromkeys(("paper_table", "readable"), "table"),
    "results_table": "results",
}
__all__ = list(MADE_IN)


def __getattr__(name: str) -> Any:
    """Import lazily what needs torch: the process that executes notebooks does without
    it."""
    if name not in MADE_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MADE_IN[name]}", __name__), name)
