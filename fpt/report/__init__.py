"""Tables, figures, pages: what a notebook shows and what a report is made of."""

from .plots import dot_plot, learning_curves, line_plot, samples
from .show import conclude, show_figure, show_table
from .table import paper_table, results_table

__all__ = [
    "conclude",
    "dot_plot",
    "learning_curves",
    "line_plot",
    "paper_table",
    "results_table",
    "samples",
    "show_figure",
    "show_table",
]
