"""How every figure looks: colours and markers that can be told apart in grey too."""

import io
import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image

PANELS_IN_A_ROW = 4
INK = "#222222"
MUTED = "#767676"
CENSORED = "#D55E00"  # a run that ends before it is where it should be

# Okabe and Ito's colours and Paul Tol's muted ones, made for people with any colour vision.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#332288", "#117733",
    "#882255", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888", "#000000",
)  # fmt: skip
# A figure may be printed in grey: arms differ in markers and lines too.
MARKERS = "os^DvPdX<>ph8*H"
LINES = ("-", "--", "-.", ":")
# The main arms look the same in every figure, whatever others stand beside them.
FIXED = ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released")
ALIAS = {"fpt-english": "fpt"}

Style = dict[str, Any]
STEPS, ACCURACY = "steps to the threshold", "test accuracy, %"
AREA = "area under the validation loss, nats"
UNITS = {"steps": STEPS, "area": AREA, "accuracy": ACCURACY}  # of what a study measures
VALUE = "value"  # a column of steps, nats or percent
PERCENT = (-3, 103)  # how far an axis of percent reaches at most
# A run that ends at its budget has no number of steps, only a bound on it: its mark is
# hollow.
AT_BUDGET: Style = {
    "label": "not at the threshold within the budget",
    "ls": "",
    "marker": "^",
    "mfc": "none",
    "mec": CENSORED,
    "ms": 5,
}
PAPER: Style = {
    "label": "the paper",
    "ls": "",
    "marker": "D",
    "mfc": "white",
    "mec": INK,
    "ms": 4,
}
# Sparser than the dots of `LINES`, since a line of an arm may lie on it.
LEVEL: Style = {"ls": (0, (1, 4)), "color": INK, "lw": 1}
BASELINE: Style = {**LEVEL, "label": "best trivial baseline"}


class Look(NamedTuple):
    colour: str
    marker: str
    line: str


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """A look for each arm of a figure: the main arms have theirs, others take what is
    left."""
    free = itertools.count(len(FIXED))
    looks_of = {}
    for arm in arms:
        name = ALIAS.get(arm, arm)
        index = FIXED.index(name) if name in FIXED else next(free)
        looks_of[arm] = Look(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            LINES[index % len(LINES)],
        )
    return looks_of


def styled() -> AbstractContextManager[None]:
    """The style, for drawing and saving inside; what the caller has set comes back
    after."""
    return matplotlib.style.context(Path(__file__).with_name("fpt.mplstyle"))


def panels_of(
    count: int, width: float, height: float, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, each `width` by `height` inches, and their axes."""
    columns = min(count, PANELS_IN_A_ROW)
    rows = math.ceil(count / columns)
    # Not narrower than 6.4 inches, or the legend would not fit.
    figure = Figure(figsize=(max(6.4, width * columns), height * rows + 0.6))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flatten()
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, list(grid[:count])


def png(figure: Figure) -> bytes:
    """The figure as PNG, equal bytes for equal figures. Every figure is committed, so it
    has few colours and its file is small."""
    drawn = io.BytesIO()
    with styled():
        figure.savefig(drawn, format="png", facecolor="white")
    return with_few_colours(drawn.getvalue())


def with_few_colours(image: bytes) -> bytes:
    """A PNG without transparency and with at most 256 colours."""
    opened = Image.open(io.BytesIO(image)).convert("RGB")
    content = io.BytesIO()
    opened.quantize(256, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


def log_ticks(axes: Axes, which: str) -> None:
    """A logarithmic axis whose ticks are plain numbers, a few of them whatever it spans."""
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    tenths = [number / 10 for number in range(10, 100)]
    # The coarsest grid that has three ticks in view, else the finest.
    for leading in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), range(1, 10), tenths):
        grid = [first * 10.0**power for power in range(-6, 9) for first in leading]
        ticks = [tick for tick in grid if low <= tick <= high]
        if len(ticks) >= 3:
            break
    # More than five would run into each other.
    axis.set_ticks(ticks[:: 1 + (len(ticks) - 1) // 5])
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure) -> None:
    """A legend above the panels of what any of them shows, in as many columns as its
    longest label leaves room for."""
    # By their texts, since most panels have the same marks.
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        marks, texts = axes.get_legend_handles_labels()
        handles |= dict(zip(texts, marks, strict=True))
    if handles:
        inches = 0.6 + 0.06 * max(map(len, handles))
        columns = min(4, max(1, int(figure.get_figwidth() / inches)))
        figure.legend(
            [*handles.values()],
            [*handles],
            loc="outside upper left",
            ncols=columns,
            fontsize=8,
        )
