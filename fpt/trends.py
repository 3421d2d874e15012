"""Accuracy against a number on a logarithmic axis: how large a body is, or how deep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter, NullLocator

from .cells import Cell
from .style import INK, LOOKS, MUTED, styled

APART = 0.008  # of the axis, between the points of two series at one place
LEAST_REACH = 5.0  # points around the values of a panel, so that small differences look small


@dataclass(frozen=True)
class Series:
    """One line: our cells at their places, None where no run is expected to be, and the paper's
    percents at theirs. It looks like `arm`."""

    arm: str
    label: str
    ours: Sequence[tuple[float, Cell | None]]
    paper: Sequence[tuple[float, float]]


def trends(
    panels: Mapping[str, Sequence[Series]],
    floors: Mapping[str, float | None],
    what: str,
    ticks: Sequence[tuple[float, str]] = (),
) -> Figure:
    """A panel per entry of `panels`: mean with 95% interval and each seed; hollow, the paper's.

    `what` names the number, `ticks` its marks where powers of ten would be too few; `floors` are
    the best trivial ones of each panel.
    """
    with styled():
        figure = Figure(figsize=(max(6.4, 4.4 * len(panels)), 4.4))
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, series) in zip(grid, panels.items(), strict=True):
            axes.set_title(title)
            axes.set_xscale("log")
            places = [x for it in series for x, _ in (*it.ours, *it.paper)]
            axes.set_xlim(min(places) / 1.35, max(places) * 1.35)
            for index, it in enumerate(series):
                _line(axes, it, index - (len(series) - 1) / 2)
            floor = floors[title]
            if floor is not None:
                axes.axhline(100 * floor, color=INK, lw=1.0, ls=(0, (2, 1)))
            if ticks:
                mine = [(x, text) for x, text in ticks if min(places) <= x <= max(places)]
                axes.xaxis.set_major_locator(FixedLocator([x for x, _ in mine]))
                axes.xaxis.set_major_formatter(FixedFormatter([text for _, text in mine]))
                axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_locator(MaxNLocator(6, prune="both"))  # no mark outside
            low, high = axes.get_ylim()
            axes.set_ylim(max(0.0, low - LEAST_REACH), min(104.0, high + LEAST_REACH))
        grid[0].set_ylabel("test accuracy, %")
        figure.supxlabel(what, fontsize=9)
        # One entry per line of any panel.
        named = {it.arm: it for series in panels.values() for it in series}
        handles = [_handle(it, hollow=False) for it in named.values()]
        shown = [it for series in panels.values() for it in series if it.paper]
        handles += [_handle(it, hollow=True) for it in {it.arm: it for it in shown}.values()]
        handles += [
            Line2D([], [], color=INK, ls="", marker="_", ms=8, label="each seed"),
            Line2D([], [], color=INK, lw=1.0, ls=(0, (2, 1)), label="best trivial floor"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return figure


def _line(axes: Axes, series: Series, side: float) -> None:
    """`side` is below zero for a series that stands left of its places, above for one right."""
    look = LOOKS[series.arm]
    low, high = np.log(axes.get_xlim())
    shift = np.exp(2 * side * APART * (high - low))
    means = []
    for x, cell in series.ours:
        interval = cell.interval if cell else None
        if cell is None or interval is None:
            _absent(axes, x * shift, side, cell)
            means.append((x * shift, np.nan))  # no line across what is missing
            continue
        if np.isfinite(interval.low):
            ends = 100 * np.array([interval.low, interval.high])
            axes.plot([x * shift] * 2, ends, color=look.colour, lw=2, solid_capstyle="butt")
        seeds = 100 * np.array(cell.values)
        axes.plot([x * shift] * len(seeds), seeds, "_", color=INK, ms=8, mew=0.8, zorder=4)
        means.append((x * shift, 100 * interval.mean))
    axes.plot(
        *np.array(means).reshape(-1, 2).T, color=look.colour, ls=look.line, lw=1.6,
        marker=look.marker, ms=6.5, mec=INK, zorder=5,
    )  # fmt: skip
    axes.plot(
        *np.array(series.paper).reshape(-1, 2).T, color=look.colour, ls=look.line, lw=0.8,
        marker=look.marker, ms=6.5, mfc="white", mec=look.colour, zorder=3,
    )  # fmt: skip


def _absent(axes: Axes, x: float, side: float, cell: Cell | None) -> None:
    word = "not run" if cell is None else cell.absence
    text = axes.text(x, 0.02, word, rotation=90, va="bottom", color=MUTED, fontsize=7, zorder=7)
    text.set(transform=axes.get_xaxis_transform(), ha="right" if side < 0 else "left")
    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})


def _handle(series: Series, hollow: bool) -> Line2D:
    look = LOOKS[series.arm]
    return Line2D(
        [], [], color=look.colour, ls=look.line, lw=0.8 if hollow else 1.6, marker=look.marker,
        ms=6.5, mfc="white" if hollow else look.colour, mec=look.colour if hollow else INK,
        label=("the paper: " if hollow else "") + series.label,
    )  # fmt: skip
