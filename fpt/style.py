"""How every figure looks: one colour, marker, hatch and line per arm, readable in grey too."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib


@dataclass(frozen=True)
class Look:
    """Colours are Okabe and Ito's, which people with any colour vision can tell apart."""

    colour: str
    marker: str
    hatch: str
    line: str | tuple[float, tuple[float, ...]]


LOOKS: Mapping[str, Look] = {
    "fpt": Look("#0072B2", "o", "", "-"),
    "random": Look("#E69F00", "s", "////", "--"),
    "full": Look("#009E73", "^", "||||", "-."),
    "full-pretrained": Look("#CC79A7", "D", "xxxx", (0, (5, 1, 1, 1, 1, 1))),
    "lstm": Look("#D55E00", "v", "\\\\\\\\", ":"),
    "lstm-released": Look("#56B4E9", "P", "++++", (0, (3, 1, 1, 1))),
}
INK, MUTED, GRID = "#222222", "#767676", "#dddddd"

RC: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 110,
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    # Equal results are equal files: no random ids in an SVG, and text as text.
    "svg.hashsalt": "fpt",
    "svg.fonttype": "none",
}


def styled() -> AbstractContextManager[None]:
    """The style, for drawing and saving inside; what the caller has set comes back after."""
    return matplotlib.rc_context(RC)
