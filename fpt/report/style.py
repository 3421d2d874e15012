"""How every figure looks: colours and markers that can be told apart in grey too."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import matplotlib.style

INK, MUTED = "#222222", "#767676"
CENSORED = "#D55E00"  # a run that ends before it is where it should be

# Okabe and Ito's colours and Paul Tol's muted ones, made for people with any colour vision.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#332288", "#117733"),
    *("#882255", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888", "#000000"),
)
MARKERS = "os^DvPdX<>ph8*H"
LINES = ("-", "--", "-.", ":")
FIXED = ("fpt", "random", "full", "full-pretrained", "lstm", "lstm-released")  # the same everywhere
ALIAS = {"fpt-english": "fpt"}


class Look(NamedTuple):
    colour: str
    marker: str
    line: str


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """A look for each arm of a figure: the main arms have theirs, others take what is left."""
    free = iter(range(len(FIXED), 10_000))
    found = {}
    for arm in arms:
        name = ALIAS.get(arm, arm)
        index = FIXED.index(name) if name in FIXED else next(free)
        found[arm] = Look(
            COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)], LINES[index % len(LINES)]
        )
    return found


def styled() -> AbstractContextManager[None]:
    """The style, for drawing and saving inside; what the caller has set comes back after."""
    return matplotlib.style.context(Path(__file__).with_name("fpt.mplstyle"))
