"""Draw the method: `python docs/method.py` writes method-light.svg and method-dark.svg beside it.

The README shows the one that fits the reader's colour scheme.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch

DOCS = Path(__file__).parent
FIRST, SECOND = (0, 1, 1, 0, 1), (1, 1, 0, 0, 1)  # the task of the picture: their exclusive or
TRAINED, FROZEN = "#e08214", "#5a8fc8"
BOTTOM, HEIGHT = 0.8, 5.0  # of the column of tokens, one unit for two tokens


@dataclass(frozen=True)
class Scheme:
    """What a colour scheme changes."""

    name: str
    ink: str
    panel: str


SCHEMES = (Scheme("light", "#1f2328", "#eef2f7"), Scheme("dark", "#e6edf3", "#222b36"))


def picture(scheme: Scheme) -> Figure:
    """The method on bit-xor: tokens from the left, answers to the right."""
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    axes = figure.add_subplot(xlim=(0, 18.4), ylim=(-0.4, 7.1), aspect="equal")
    axes.axis("off")
    column(axes, 0.7, (*FIRST, *SECOND), scheme)
    column(axes, 17.2, tuple(a ^ b for a, b in zip(FIRST, SECOND, strict=True)), scheme)
    axes.text(0.7, 6.4, "tokens", color=scheme.ink, ha="center")
    axes.text(17.2, 6.4, "answers", color=scheme.ink, ha="center")
    axes.add_patch(
        FancyBboxPatch((4.9, 0.3), 7.7, 6.3, boxstyle="round,pad=0.15", fc=scheme.panel, ec="none")
    )
    axes.text(8.75, 6.15, "every layer of the transformer", color=scheme.ink, ha="center")
    box(axes, 1.9, 1.1, TRAINED, "input net")
    box(axes, 3.5, 0.9, TRAINED, "positions")
    for left in (5.2, 8.95):
        box(axes, left, 0.8, TRAINED, "layer norm")
    box(axes, 6.5, 1.95, FROZEN, "attention")
    box(axes, 10.25, 1.95, FROZEN, "feedforward")
    box(axes, 13.1, 0.8, TRAINED, "layer norm")
    box(axes, 14.4, 1.1, TRAINED, "output net")
    axes.text(3.25, BOTTOM + HEIGHT / 2, "+", color=scheme.ink, ha="center", va="center")
    for start, end in ((1.1, 1.9), (4.4, 5.2), (12.2, 13.1), (15.5, 16.8)):
        arrow(axes, start, end, scheme)
    legend = [
        Patch(color=TRAINED, label="trained on the task: under 1% of GPT-2"),
        Patch(color=FROZEN, label="frozen as language pretraining left it"),
    ]
    axes.legend(
        handles=legend, loc="lower center", ncols=2, frameon=False, labelcolor=scheme.ink,
        bbox_to_anchor=(0.5, -0.1),
    )  # fmt: skip
    return figure


def column(axes: Axes, middle: float, bits: tuple[int, ...], scheme: Scheme) -> None:
    """Bits from the top to the bottom; five answers stand beside the second string."""
    for place, bit in enumerate(reversed(bits)):
        corner = (middle - 0.2, BOTTOM + place * HEIGHT / 10 + 0.05)
        axes.add_patch(FancyBboxPatch(corner, 0.4, 0.4, "square,pad=0", fc="none", ec=scheme.ink))
        axes.text(middle, corner[1] + 0.19, str(bit), color=scheme.ink, ha="center", va="center")


def box(axes: Axes, left: float, width: float, colour: str, text: str) -> None:
    """A part of the network, with its name from the bottom to the top."""
    corner = (left + 0.1, BOTTOM + 0.1)
    shape = "round,pad=0.1"
    axes.add_patch(FancyBboxPatch(corner, width - 0.2, HEIGHT - 0.2, shape, fc=colour, ec="none"))
    middle = (left + width / 2, BOTTOM + HEIGHT / 2)
    axes.text(*middle, text, color="black", rotation=90, ha="center", va="center", fontsize=11)


def arrow(axes: Axes, start: float, end: float, scheme: Scheme) -> None:
    """The direction in which hidden states go."""
    middle = BOTTOM + HEIGHT / 2
    style = {"arrowstyle": "->", "color": scheme.ink}
    axes.annotate("", (end, middle), (start, middle), arrowprops=style)


def main() -> None:
    matplotlib.rcParams["svg.hashsalt"] = "fpt"  # the same names of parts in every file
    for scheme in SCHEMES:
        path = DOCS / f"method-{scheme.name}.svg"
        picture(scheme).savefig(path, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
