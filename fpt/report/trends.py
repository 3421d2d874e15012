"""Accuracy against a number on a logarithmic axis: how large a body is, or how deep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator

from ..analysis.cells import Cell
from .panels import Layout, draw_floor, floor_handle
from .style import LOOKS, MUTED, Look, styled

APART = 0.008  # of the axis, between the points of two series at one place
SIDE_BY_SIDE = 3  # panels; more of them stand in rows of two
LEAST_REACH = 5.0  # points around the values of a panel, so that small differences look small
WIDE, THIN = 1.4, 0.8  # the lines that join our points, and the paper's


@dataclass(frozen=True)
class Series:
    """Our cells at their places, None where no run is expected to be, and the paper's percents of
    arms at theirs. A point looks like its arm, the line that joins them like `look`."""

    label: str
    look: Look
    ours: Sequence[tuple[float, Cell | None]]
    paper: Sequence[tuple[float, str, float]]


def trends(
    panels: Mapping[str, Sequence[Series]],
    floors: Mapping[str, float | None],
    what: str,
    ticks: Sequence[tuple[float, str]] = (),
) -> Figure:
    """A panel per entry of `panels`: mean with 95% interval and each seed; half filled, the
    paper's.

    `what` names the number, `ticks` its marks where powers of ten would be too few; `floors` are
    the best trivial ones of each panel.
    """
    with styled():
        layout = Layout(len(panels), SIDE_BY_SIDE if len(panels) <= SIDE_BY_SIDE else 2)
        figure = Figure(figsize=(max(6.4, 4.4 * layout.columns), 1.2 + 3.2 * layout.rows))
        grid = layout.on(figure)
        for axes, (title, series) in zip(grid, panels.items(), strict=True):
            axes.set_title(title)
            axes.set_xscale("log")
            places = [x for it in series for x, _ in it.ours]
            places += [x for it in series for x, _, _ in it.paper]
            axes.set_xlim(min(places) / 1.35, max(places) * 1.35)
            _panel(axes, series)
            draw_floor(axes, floors[title])
            if ticks:
                mine = [(x, text) for x, text in ticks if min(places) <= x <= max(places)]
                axes.xaxis.set_major_locator(FixedLocator([x for x, _ in mine]))
                axes.xaxis.set_major_formatter(FixedFormatter([text for _, text in mine]))
                axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_locator(MaxNLocator(6, prune="both"))  # no mark outside
            low, high = axes.get_ylim()
            axes.set_ylim(max(0.0, low - LEAST_REACH), min(104.0, high + LEAST_REACH))
        for axes in layout.leftmost(grid):
            axes.set_ylabel("test accuracy, %")
        figure.supxlabel(what, fontsize=9)
        # One entry per line of any panel.
        named = {it.label: it for series in panels.values() for it in series}
        handles = [_handle(it) for it in named.values()]
        if any(it.paper for series in panels.values() for it in series):
            look = Look(MUTED, "o", "", "-")
            handles.append(Line2D([], [], label="the paper", lw=THIN, **_half(look)))
        handles += [
            Line2D([], [], color=MUTED, ls="", marker="_", ms=8, label="each seed"),
            floor_handle(),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return figure


def _panel(axes: Axes, series: Sequence[Series]) -> None:
    """Each line with its points, then the seeds of all of them."""
    shown: list[tuple[float, Cell]] = []
    low, high = np.log(axes.get_xlim())
    for index, it in enumerate(series):
        side = index - (len(series) - 1) / 2
        shift = float(np.exp(2 * side * APART * (high - low)))
        ours = [(x * shift, cell) for x, cell in it.ours]
        _join(axes, it.look, [(x, _ours(axes, x, cell, side)) for x, cell in ours], WIDE)
        for x, arm, value in it.paper:
            axes.plot(x, value, zorder=3, **_half(LOOKS[arm]))
        _join(axes, it.look, [(x, value) for x, _, value in it.paper], THIN)
        shown += [(x, cell) for x, cell in ours if cell and cell.interval]
    seeds = [(x, 100 * value) for x, cell in shown for value in cell.values]
    colours = [LOOKS[cell.arm].colour for _, cell in shown for _ in cell.values]
    places, values = np.reshape(seeds, (-1, 2)).T
    axes.scatter(places, values, s=64, color=colours, marker="_", linewidth=0.8, zorder=4)


def _ours(axes: Axes, x: float, cell: Cell | None, side: float) -> float:
    """Draws a point, or why there is none; `side` is below zero for a series that stands left of
    its places, above for one right. The mean in percent, or NaN: no line crosses what is missing.
    """
    interval = cell.interval if cell else None
    if cell is None or interval is None:
        _absent(axes, x, side, cell)
        return np.nan
    look, mean = LOOKS[cell.arm], 100 * interval.mean
    if np.isfinite(interval.low):
        ends = [100 * interval.low, 100 * interval.high]
        axes.plot([x] * 2, ends, color=look.colour, lw=2, solid_capstyle="butt")
    axes.plot(x, mean, look.marker, mfc=look.face, mec=look.edge, ms=6.5, zorder=5)
    return mean


def _half(look: Look) -> dict[str, Any]:
    """A marker of the paper's: half filled, between ours that are full and ours that are hollow."""
    return {
        "color": look.colour, "marker": look.marker, "ms": 6.5, "fillstyle": "left",
        "markerfacecoloralt": "white",
    }  # fmt: skip


def _join(axes: Axes, look: Look, points: Sequence[tuple[float, float]], width: float) -> None:
    x, y = np.array(points).reshape(-1, 2).T
    axes.plot(x, y, color=look.colour, ls=look.line, lw=width, zorder=2)


def _absent(axes: Axes, x: float, side: float, cell: Cell | None) -> None:
    word = "not run" if cell is None else cell.absence
    text = axes.text(x, 0.02, word, rotation=90, va="bottom", color=MUTED, fontsize=7, zorder=7)
    text.set(transform=axes.get_xaxis_transform(), ha="right" if side < 0 else "left")
    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})


def _handle(series: Series) -> Line2D:
    look = series.look
    return Line2D(
        [], [], color=look.colour, ls=look.line, lw=WIDE, marker=look.marker, ms=6.5, mfc=look.face,
        mec=look.edge, label=series.label,
    )  # fmt: skip
