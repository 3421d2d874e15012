"""The plots of all pages: dots with intervals, lines, learning curves."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from ..analysis.compare import FEWEST_RUNS, natural, reached, summary_with_intervals
from ..analysis.study import Study
from ..analysis.summary import baselines, mean_interval
from ..sections.arms import label
from ..sections.comparison import Comparison
from .style import CENSORED, INK, MUTED, Look, looks, styled

COLUMNS = 4  # panels side by side
STEPS, ACCURACY = "steps to the threshold", "test accuracy, %"
AT_BUDGET = "not at the threshold within the budget"
VALUE = "value"  # a column of steps or percent
PERCENT = (-3, 103)  # how far an axis of percent reaches at most
KEY: Mapping[str, dict[str, Any]] = {  # of `dot_plot`; what is not drawn has no entry
    "mean": {"ls": "", "color": MUTED, "marker": "o", "mec": INK},
    "95% interval": {"color": MUTED, "lw": 2},
    "each run": {"ls": "", "marker": ".", "color": MUTED, "ms": 4},
    AT_BUDGET: {"ls": "", "marker": ">", "mfc": "none", "mec": CENSORED, "ms": 4},
    "the paper": {"ls": "", "marker": "D", "mfc": "white", "mec": INK, "ms": 4},
    "best trivial baseline": {"ls": ":", "color": INK},
}


def panels_of(
    count: int, width: float, height: float, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, each so large in inches."""
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(6.4, width * columns), height * rows + 0.6))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flatten()
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, list(grid[:count])


def _log(axes: Axes, which: str) -> None:
    """A logarithmic axis whose ticks are plain numbers, a few of them whatever it spans."""
    getattr(axes, f"set_{which}scale")("log")
    low, high = getattr(axes, f"get_{which}lim")()
    ticks: list[float] = []
    for leading in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), range(1, 10)):
        if len(ticks) < 3:
            every = [first * 10.0**power for power in range(-6, 9) for first in leading]
            ticks = [tick for tick in every if low <= tick <= high]
    axis = getattr(axes, f"{which}axis")
    axis.set_ticks(ticks[:: 1 + len(ticks) // 5])  # more would run into each other
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend above the panels, in as many columns as its longest label leaves room for."""
    inches = 0.6 + 0.06 * max((len(str(it.get_label())) for it in handles), default=0)
    columns = min(4, max(1, int(figure.get_figwidth() / inches)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, fontsize=8)


def dot_plot(study: Study, comparison: Comparison) -> Figure | None:
    """Each arm on each task: its mean, with a 95% interval if there are runs enough for one, every
    run as a dot, the paper's number as a diamond, the best trivial baseline as a dotted line. Steps
    are on a logarithmic axis, and runs that end before the threshold are open triangles. Tasks that
    fewer than half of the arms have are left to the table. None if no run is recorded, or none
    reaches a threshold."""
    results = study.results()
    scored = reached(results[results["arm"].isin(comparison.arms) & results["score"].notna()])
    arms = scored.groupby("task")["arm"].nunique()
    tasks = [task for task in dict.fromkeys(scored["task"]) if 2 * arms[task] >= arms.max()]
    if not tasks:
        return None
    present = results[results["task"].isin(tasks) & results["score"].notna()]
    rows = [arm for arm in comparison.arms if arm in set(present["arm"])]
    means = summary_with_intervals(results[results["arm"].isin(rows)]).set_index(["task", "arm"])
    look, drawn = looks(rows), {"mean", "each run"}
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 0.6 + 0.3 * len(rows), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            steps = study.measures(task) == "steps"
            shown: Callable[[float], float] = np.exp if steps else float
            for y, arm in enumerate(rows):
                runs = present[(present["arm"] == arm) & (present["task"] == task)]
                if runs.empty:
                    continue
                mean, colour = means.loc[task, arm], look[arm].colour
                axes.plot([shown(mean["low"]), shown(mean["high"])], [y, y], color=colour, lw=2)
                if not math.isnan(mean["low"]):
                    drawn.add("95% interval")
                ends = runs["censored"].to_numpy(bool)
                if not ends.all():  # else the mean is the budget
                    face = "white" if ends.any() else colour  # hollow: the true mean is higher
                    axes.plot(shown(mean["mean"]), y, look[arm].marker, mfc=face, mec=INK, ms=6)
                values = runs["score"].map(shown).to_numpy()
                axes.plot(values[~ends], [y - 0.25] * int((~ends).sum()), ".", color=MUTED, ms=4)
                if ends.any():
                    axes.plot(values[ends], [y - 0.25] * int(ends.sum()), **KEY[AT_BUDGET])
                    drawn.add(AT_BUDGET)
                printed = comparison.printed(arm, task)
                if printed is not None and not steps:
                    axes.plot(printed, y + 0.22, "D", mfc="white", mec=INK, ms=4)
                    drawn.add("the paper")
            if steps:
                _log(axes, "x")
            else:
                best = max(baselines(study.tasks[task]).values(), default=math.nan)
                axes.axvline(best, color=INK, ls=":", lw=1)
                axes.set_xlim(*np.clip(axes.get_xlim(), *PERCENT))  # an interval may reach further
                axes.locator_params("x", nbins=4)
                drawn.add("best trivial baseline")
            axes.set_title(study.title(task))
            axes.set_yticks(range(len(rows)), [label(arm) for arm in rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlabel(STEPS if steps else ACCURACY, fontsize=8)
        _legend(figure, [Line2D([], [], label=it, **KEY[it]) for it in KEY if it in drawn])
    return figure


def with_panels(study: Study, results: pd.DataFrame) -> pd.DataFrame:
    """`results` with the columns `value`, in steps to the threshold or percent, and `panel`, which
    names the task and this unit, for `line_plot`."""
    units = {"steps": STEPS, "accuracy": ACCURACY}
    panels = [f"{study.title(task)}: {units[study.measures(task)]}" for task in results["task"]]
    return results.assign(**{VALUE: natural(study, results), "panel": panels})


def learning_curves(study: Study, arms: Sequence[str] = ()) -> Figure | None:
    """Validation accuracy against steps: the mean over seeds while all of them train, and each
    seed as a thin line. None if no run is recorded."""
    curves = study.curves()
    if arms and len(curves):
        curves = curves[curves["arm"].isin(arms)]
    if curves.empty:
        return None
    tasks, shown = list(dict.fromkeys(curves["task"])), list(dict.fromkeys(curves["arm"]))
    look = looks(shown)
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 2.4)
        for axes, task in zip(panels, tasks, strict=True):
            for arm, runs in curves[curves["task"] == task].groupby("arm", sort=False):
                wide = 100 * runs.pivot_table(index="step", columns="seed", values="valid_accuracy")
                mean, style = wide.dropna().mean(axis=1), look[arm]
                axes.plot(wide, color=style.colour, lw=0.5, alpha=0.4)
                axes.plot(mean, style.line, color=style.colour, lw=1.8)
            best = max(baselines(study.tasks[task]).values(), default=math.nan)
            axes.axhline(best, color=INK, ls=":", lw=1)
            if study.measures(task) == "steps":
                _log(axes, "x")
            axes.set_title(study.title(task))
            axes.set_xlabel("steps", fontsize=8)
        panels[0].set_ylabel("validation accuracy, %")
        handles = [
            Line2D([], [], color=look[arm].colour, ls=look[arm].line, label=label(arm))
            for arm in shown
        ]
        _legend(figure, handles)
    return figure


def line_plot(
    table: pd.DataFrame,
    x: str,
    y: str,
    line: str | None = None,
    panel: str | None = None,
    *,
    log: str = "",
    level: Mapping[str, float] | float | None = None,
    labels: Iterable[str] = (),
) -> Figure | None:
    """Means of column `y` against `x`: a line for each value of column `line`, a panel for each of
    column `panel`. At least FEWEST_RUNS rows of one `x` have a 95% interval, fewer are dots.

    If `y` or the panel has a percent sign, its axis ends at 0 and 100. If it ends in `STEPS`, its
    axis is logarithmic and means are geometric; rows whose column `censored` is true are open
    triangles. `log` names the other logarithmic axes; `level` is a dotted line, in all panels or by
    panel. With `labels` for the rows, points are named and not joined. None if there are no rows,
    or no line has two points."""
    table = table.assign(censored=table.get("censored", pd.Series(False, table.index)).astype(bool))
    if not len(names := dict(zip(table.index, labels, strict=False))):
        table = _with_lines(table, x, line, panel)
    if table.empty:
        return None
    panels = list(dict.fromkeys(table[panel])) if panel else [""]
    lines = list(dict.fromkeys(table[line])) if line else [""]
    look = looks(lines)
    with styled():
        wide = bool(names) and len(panels) == 1
        figure, grid = panels_of(len(panels), 7.5 if wide else 3.2, 2.6)
        for axes, name in zip(grid, panels, strict=True):
            mine = table[table[panel] == name] if panel else table
            steps = f"{y}{name}".endswith(STEPS)
            for each in lines:
                rows = mine[mine[line] == each] if line else mine
                if rows.empty:
                    continue
                if names:
                    _named_points(axes, rows, x, y, look[each], names)
                    axes.margins(x=0.1 if wide else 0.2)  # room for the names
                else:
                    _line(axes, rows, x, y, look[each], steps)
            dotted = level.get(name) if isinstance(level, Mapping) else level
            if dotted is not None:
                axes.axhline(dotted, color=INK, ls=":", lw=1)
            if pd.api.types.is_integer_dtype(table[x]):  # layers, trained parts
                axes.set_xticks(sorted(set(table[x])))
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
            if "%" in f"{y}{name}":
                axes.set_ylim(*np.clip(axes.get_ylim(), *PERCENT))
            for which in {*log, *("y" * steps)}:
                _log(axes, which)
            axes.set_title(name)
            axes.set_xlabel(x)
        if y != VALUE:  # else each panel names its unit
            grid[0].set_ylabel(y)
        handles = []
        if line and not names:
            called = label if line == "arm" else str
            handles = [
                Line2D([], [], color=it.colour, ls=it.line, marker=it.marker, label=called(each))
                for each, it in look.items()
            ]
        if table["censored"].any():
            handles.append(Line2D([], [], label=AT_BUDGET, **{**KEY[AT_BUDGET], "marker": "^"}))
        if handles:
            _legend(figure, handles)
        figure.draw_without_rendering()  # now it is known how large names are
        for axes in grid:
            _apart(axes)
    return figure


def _with_lines(table: pd.DataFrame, x: str, line: str | None, panel: str | None) -> pd.DataFrame:
    """The rows of panels in which a line has two points or more, and something was measured."""
    of_panel = table[panel] if panel else pd.Series(0, table.index)
    of_line = table[line] if line else pd.Series(0, table.index)
    points = table.groupby([of_panel, of_line])[x].transform("nunique")
    joined = points.groupby(of_panel).transform("max") > 1
    measured = ~table["censored"].groupby(of_panel).transform("all")
    return table[joined & measured]


def _line(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, steps: bool) -> None:
    """One line through the means of the rows of each `x`, with intervals or all rows."""
    to, back = (np.log, np.exp) if steps else (np.asarray, np.asarray)
    groups = rows.groupby(x)
    means = groups[y].agg(lambda values: float(back(to(values).mean())))
    axes.plot(means.index, means, look.line, color=look.colour)
    means = means[~groups["censored"].all()]  # else the mean is the budget, and drawn below
    axes.plot(means.index, means, look.marker, color=look.colour, mec=INK, ms=5)
    for at, runs in groups:
        if len(runs) >= FEWEST_RUNS:
            _, low, high = mean_interval(list(to(runs[y])))
            axes.vlines(at, back(low), back(high), color=look.colour)
        elif len(runs) > 1:
            axes.plot(runs[x], runs[y], ".", color=look.colour, ms=4, alpha=0.6)
    ends = rows[rows["censored"]]
    if len(ends):
        axes.plot(ends[x], ends[y], **{**KEY[AT_BUDGET], "marker": "^"})


def _named_points(
    axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, names: Mapping[Any, str]
) -> None:
    measured, ends = rows[~rows["censored"]], rows[rows["censored"]]
    axes.plot(measured[x], measured[y], look.marker, ls="", color=look.colour, mec=INK)
    axes.plot(ends[x], ends[y], **{**KEY[AT_BUDGET], "marker": "^", "ms": 6})
    for where, at, value in rows[[x, y]].itertuples():
        axes.annotate(names[where], (at, value), (4, 3), "data", "offset points", size=7)


def _apart(axes: Axes) -> None:
    """Move names of points up until none covers another or a point, from the lowest on."""
    texts: list[Any] = list(axes.texts)  # annotations, whose types are those of plain texts
    names = sorted(texts, key=lambda name: name.get_window_extent().y0)
    places = [axes.transData.transform(name.xy) for name in names]
    boxes = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in places]
    for name in names:
        while any(name.get_window_extent().overlaps(box) for box in boxes):
            name.xyann = (name.xyann[0], name.xyann[1] + 1)
        boxes.append(name.get_window_extent())
