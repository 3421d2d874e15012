"""Dot plots for sections with many arms: an arm or a difference per row, a task per panel."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..analysis.cells import Cell, best_floor, cells, effect, ran, section_tasks
from ..sections.comparison import Comparison
from ..sections.section import Section
from .panels import Layout, draw_floor, floor_handle, name_rows
from .style import INK, LOOKS, MUTED, styled, unrun
from .table import NONE, label, short
from .tables import compared, contrasts

ROW = 0.3  # inches
COLUMNS = 4  # panels side by side, at most
LEAST_REACH = 5.0  # points around the values of a panel, so that small differences look small
OURS, THEIRS = -0.14, 0.22  # places within a row


def accuracies(section: Section, comparison: Comparison) -> Figure:
    """Test accuracy: mean with 95% interval, each seed, the paper's number, the best floor."""
    arms, found = compared(section, comparison), cells(section.frame())
    tasks = section_tasks(section, arms)

    def draw(axes: Axes, task: str) -> None:
        seeds: list[tuple[float, float]] = []
        for y, arm in enumerate(arms):
            cell = found.get((arm, task))
            interval = cell.interval if cell else None
            if cell is None or interval is None:
                _absent(axes, y, _why(cell))
            else:
                seeds += [(100 * value, y + OURS) for value in cell.values]
                _ours(axes, y, arm, interval.mean, interval.low, interval.high)
            _theirs(axes, y, comparison.printed(arm, task))
        values, rows = np.reshape(seeds, (-1, 2)).T
        axes.scatter(values, rows, s=36, color=INK, marker="|", linewidth=0.8, zorder=4)
        draw_floor(axes, best_floor(tasks[task]), vertical=True)

    seed = Line2D([], [], color=INK, ls="", marker="|", ms=6, label="each seed")

    filled = [
        task
        for task in tasks
        if any(ran(found, arm, task) or comparison.printed(arm, task) is not None for arm in arms)
    ]
    rows = [label(arm) for arm in arms]
    return _figure(list(tasks), filled, rows, draw, "test accuracy, %", [seed, floor_handle()])


def differences(section: Section, comparison: Comparison) -> Figure:
    """The differences of interest, with their 95% interval, and the paper's."""
    found, tasks = cells(section.frame()), contrasts(section, comparison)
    planned = {pair for pairs in tasks.values() for pair in pairs}
    pairs = [pair for pair in comparison.pairs if pair in planned]

    def draw(axes: Axes, task: str) -> None:
        axes.axvline(0, color=INK, lw=0.8)
        for y, (a, b) in enumerate(pairs):
            seen = effect(found, a, b, task)
            shown = b if a == "fpt" else a
            if seen is None:
                _absent(axes, y, "not run" if (a, b) in tasks[task] else NONE)
            else:
                _ours(axes, y, shown, seen.effect, seen.low, seen.high)
            value = comparison.effect(a, b, task)
            _theirs(axes, y, value)

    def there(a: str, b: str, task: str) -> bool:
        both = ran(found, a, task) and ran(found, b, task)
        return both or comparison.effect(a, b, task) is not None

    filled = [task for task in tasks if any(there(a, b, task) for a, b in pairs)]
    rows = [f"{short(a)}\nminus {short(b)}" for a, b in pairs]
    return _figure(list(tasks), filled, rows, draw, "points of test accuracy", [], 1.35)


def _figure(
    planned: Sequence[str],
    filled: Sequence[str],
    rows: Sequence[str],
    draw: Callable[[Axes, str], None],
    what: str,
    handles: Sequence[Line2D],
    row: float = 1.0,
) -> Figure:
    """Panels with the same rows; `draw` fills the panel of a task. Where some tasks have a run
    or a printed number, the others are named instead of drawn."""
    tasks = filled or planned
    empty = [task for task in planned if task not in tasks]
    layout = Layout(len(tasks), COLUMNS)
    height = 0.9 + layout.rows * (0.5 + ROW * row * len(rows))
    with styled():
        figure = Figure(figsize=(max(6.4, 2.6 + 2.0 * layout.columns), height))
        for axes, task in zip(layout.on(figure, sharey=True), tasks, strict=True):
            draw(axes, task)
            axes.set_title(task)
            name_rows(axes, rows)
            axes.xaxis.set_major_locator(MaxNLocator(4, prune="both"))
            low, high = axes.get_xlim()
            axes.set_xlim(low - LEAST_REACH, high + LEAST_REACH)
        figure.supxlabel(what + unrun(empty), fontsize=9)
        ours = Line2D([], [], color=MUTED, marker="o", mec=INK, lw=2, label="ours, 95% interval")
        paper = Line2D([], [], ls="", marker="D", mfc="white", mec=INK, ms=4.5, label="the paper")
        figure.legend(
            handles=[ours, *handles, paper], loc="outside upper left", ncols=2 + len(handles)
        )
    return figure


def _ours(axes: Axes, y: float, arm: str, mean: float, low: float, high: float) -> None:
    look = LOOKS[arm]
    if np.isfinite(low):
        axes.plot(
            [100 * low, 100 * high], [y + OURS] * 2, color=look.colour, lw=2, solid_capstyle="butt"
        )
    axes.plot(100 * mean, y + OURS, look.marker, mfc=look.face, mec=look.edge, ms=6.5, zorder=5)


def _theirs(axes: Axes, y: float, value: float | None) -> None:
    if value is not None:
        axes.plot(value, y + THEIRS, "D", mfc="white", mec=INK, ms=4.5, zorder=5)


def _why(cell: Cell | None) -> str:
    """Why there is no point: no run is planned, one is missing, or all of them diverged."""
    return NONE if cell is None else cell.absence


def _absent(axes: Axes, y: float, word: str) -> None:
    text = axes.text(0.02, y + OURS, word, va="center", color=MUTED, fontsize=7, zorder=7)
    text.set_transform(axes.get_yaxis_transform())
    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
