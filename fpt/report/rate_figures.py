"""Test accuracy against the learning rate, the paper's marked: after Rothermel et al., Figure 1."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from ..analysis.cells import Cell, best_floor, section_tasks
from ..analysis.tuning import by_rate, choices, published_rate
from ..sections.comparison import Comparison
from ..sections.section import Section
from .figures import legend
from .panels import Layout, draw_floor, floor_handle
from .style import INK, LOOKS, MUTED, styled
from .table import label
from .tables import compared

COLUMNS = 3  # panels side by side, at most
APART = 0.006  # of the axis, between the points of two arms at one rate
PAPERS: tuple[float, tuple[float, ...]] = (0, (6, 2))


def rate_figure(section: Section, comparison: Comparison) -> Figure:
    """A panel per task: the reported runs of each arm at each rate, mean with 95% interval; ringed
    is the rate chosen on validation with other seeds; the dashed line is the paper's rate."""
    arms, found, chosen = compared(section, comparison), by_rate(section), choices(section)
    tasks = section_tasks(section, arms)
    layout = Layout(len(tasks), COLUMNS)
    with styled():
        figure = Figure(figsize=(max(6.6, 3.5 * layout.columns), 1.5 + 2.7 * layout.rows))
        grid = layout.on(figure)
        for axes, (task, definition) in zip(grid, tasks.items(), strict=True):
            axes.set_title(task)
            mine = {arm: found[arm, task] for arm in arms if (arm, task) in found}
            _axis(axes, sorted({lr for each in mine.values() for lr in each}))
            axes.axvline(published_rate(task), color=MUTED, lw=1.2, ls=PAPERS, zorder=1)
            lost = Counter[float]()  # how many arms diverged at a rate, one above the other
            for index, (arm, each) in enumerate(mine.items()):
                best = chosen[arm, task].best
                _line(axes, arm, each, best, index - (len(mine) - 1) / 2, lost)
            draw_floor(axes, best_floor(definition))
            if not any(cell.interval for each in mine.values() for cell in each.values()):
                axes.set_ylim(0, 100)
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
                axes.text(
                    0.04, 0.06, "not run", transform=axes.transAxes, color=MUTED, bbox=box, zorder=7
                )
            axes.yaxis.set_major_locator(MaxNLocator(6, prune="both"))
        for axes in layout.leftmost(grid):
            axes.set_ylabel("test accuracy, %")
        figure.supxlabel("learning rate", fontsize=9)
        handles = [_handle(arm, [found[at] for at in found if at[0] == arm]) for arm in arms]
        handles += [
            Line2D([], [], ls="", marker="o", mfc="none", mec=INK, ms=11, label="best rate"),
            Line2D([], [], color=MUTED, lw=1.2, ls=PAPERS, label="the paper's rate"),
            floor_handle(),
        ]
        legend(figure, handles)
    return figure


def _axis(axes: Axes, grid: Sequence[float]) -> None:
    """A logarithmic axis with a mark at each rate, named where it is a power of ten."""
    axes.set_xscale("log")
    if not grid:
        return
    axes.set_xlim(grid[0] / 1.5, grid[-1] * 1.5)
    tens = [np.isclose(np.log10(lr) % 1, [0, 1]).any() for lr in grid]
    texts = [f"{lr:g}" if ten or len(grid) <= 4 else "" for lr, ten in zip(grid, tens, strict=True)]
    axes.xaxis.set_major_locator(FixedLocator(grid))
    axes.xaxis.set_major_formatter(FixedFormatter(texts))
    axes.xaxis.set_minor_locator(NullLocator())


def _line(
    axes: Axes,
    arm: str,
    each: Mapping[float, Cell],
    best: float | None,
    side: float,
    lost: Counter[float],
) -> None:
    """`side` is below zero for an arm that stands left of the rate, above for one right."""
    look = LOOKS[arm]
    low, high = np.log(axes.get_xlim())
    shift = float(np.exp(2 * side * APART * (high - low)))
    places, means = [], []
    for lr, cell in each.items():
        interval = cell.interval
        places.append(lr * shift)
        means.append(np.nan if interval is None else 100 * interval.mean)  # no line across a gap
        if interval is not None and np.isfinite(interval.low):
            ends = [100 * interval.low, 100 * interval.high]
            axes.plot([lr * shift] * 2, ends, color=look.colour, lw=1.8, solid_capstyle="butt")
        if lr == best and interval is not None:
            axes.plot(lr * shift, means[-1], "o", mfc="none", mec=INK, ms=11, mew=1.0, zorder=6)
        if interval is None and cell.absence == "diverged":
            height = 0.02 + 0.22 * lost[lr]
            lost[lr] += 1
            axes.text(
                lr * shift, height, "diverged", transform=axes.get_xaxis_transform(), rotation=90,
                ha="center", va="bottom", color=MUTED, fontsize=7, zorder=7,
            )  # fmt: skip
    axes.plot(
        places, means, color=look.colour, ls=look.line, lw=1.6, marker=look.marker, ms=5.5,
        mec=INK, mew=0.7, zorder=5,
    )  # fmt: skip


def _handle(arm: str, found: Sequence[Mapping[float, Cell]]) -> Line2D:
    """`Frozen random, 12 of 12 runs`, counting the reported ones."""
    mine = [cell for each in found for cell in each.values()]
    present, expected = sum(cell.present for cell in mine), sum(cell.expected for cell in mine)
    counts = f"{present} of {expected} runs" if present else "not run"
    look = LOOKS[arm]
    return Line2D(
        [], [], color=look.colour, ls=look.line, lw=1.6, marker=look.marker, ms=5.5, mec=INK,
        mew=0.7, label=f"{label(arm)}, {counts}",
    )  # fmt: skip
