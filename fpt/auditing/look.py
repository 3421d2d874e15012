"""How the figure and the tables of an audit look."""

import html
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib.style

INK = "#222222"
MUTED = "#767676"
# Okabe and Ito's colours and Paul Tol's muted ones, made for people with any colour vision.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#332288", "#117733",
    "#882255", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888", "#000000",
)  # fmt: skip
# A figure may be printed in grey: arms differ in markers and lines too.
MARKERS = "os^DvPdX<>ph8*H"
LINES = ("-", "--", "-.", ":")
# Sparser than the dots of `LINES`, since a line of an arm may lie on it.
LEVEL = {"ls": (0, (1, 4)), "color": INK, "lw": 1}
STYLESHEET = Path(__file__).with_name("page.css")
NONE = "–"  # a number that is not there


def styled() -> AbstractContextManager[None]:
    """The style, for drawing and saving inside; what the caller has set comes back
    after."""
    return matplotlib.style.context(Path(__file__).with_name("fpt.mplstyle"))


def in_html(text: object) -> str:
    """The text in an element or an attribute of HTML: never as markup."""
    return html.escape(str(text))


def effect_text(effect: Mapping[str, object], unit: str = "") -> str:
    """`+3.2 [+1.0, +5.4]` in points, with a `unit` after the estimate; no brackets if the
    interval is NaN.

    effect: `estimate`, `low` and `high`."""
    values = [float(str(effect[name])) for name in ("estimate", "low", "high")]
    if math.isnan(values[0]):
        return NONE
    # Of a difference that is rounded to nothing.
    texts = [f"{value:+.1f}".replace("-0.0", "+0.0") for value in values]
    estimate, low, high = texts
    interval = "" if math.isnan(values[1]) else f" [{low}, {high}]"
    return f"{estimate}{unit}{interval}"
