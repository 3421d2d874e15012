"""Lines and named points of a table: one number against another."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from ...analysis.study import Study
from ...analysis.summary import FEWEST_RUNS, mean_interval, shown_values
from ...sections.arms import label
from .style import (
    AREA,
    AT_BUDGET,
    INK,
    LEVEL,
    MUTED,
    PERCENT,
    STEPS,
    UNITS,
    VALUE,
    Look,
    Style,
    legend,
    log_ticks,
    looks,
    panels_of,
    styled,
)

# Where a name may stand beside its point: printer's points from it, and the alignment.
SIDES = ((4, 3, "left"), (-4, 3, "right"), (4, -9, "left"), (-4, -9, "right"))


def with_panels(study: Study, results: pd.DataFrame) -> pd.DataFrame:
    """`results` with the columns `value`, in steps to the threshold, nats or percent, and
    `panel`, which names the task and this unit, for `line_plot`."""
    panels = [
        f"{study.title(task)}: {UNITS[study.measures(task)]}" for task in results["task"]
    ]
    return results.assign(**{VALUE: shown_values(results), "panel": panels})


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
    """Means of column `y` against `x`: a line for each value of column `line`, a panel for
    each of column `panel`. At least FEWEST_RUNS rows of one `x` have a 95% interval, fewer
    are dots.

    If `y` or the panel has a percent sign, its axis ends at 0 and 100. If it ends in
    `STEPS`, its axis is logarithmic and means are geometric; rows whose column `censored`
    is true are open triangles. `log` names the other logarithmic axes; `level` is a dotted
    line, in all panels or by panel. With `labels` for the rows, points are named and not
    joined. None if there are no rows, or no line has two points."""
    # Plain names for what the caller's columns mean, so that no helper asks which are
    # given.
    names = list(labels)
    table = table.assign(
        censored=table["censored"].astype(bool) if "censored" in table else False,
        line=table[line] if line else "",
        panel=table[panel] if panel else "",
        name=names or "",
    )
    if not names:
        table = _with_lines(table, x)
    if table.empty:
        return None
    look = looks(list(dict.fromkeys(table["line"])))
    titles = list(dict.fromkeys(table["panel"]))
    wide = bool(names) and len(titles) == 1
    with styled():
        figure, panels = panels_of(len(titles), 7.5 if wide else 3.2, 2.6)
        for axes, title in zip(panels, titles, strict=True):
            rows = table[table["panel"] == title]
            unit = f"{y}{title}"
            # Scales come first: on a logarithmic axis, seaborn's means are geometric.
            logarithmic = log + "y" if unit.endswith((STEPS, AREA)) else log
            for which in logarithmic:
                axes.set(**{f"{which}scale": "log"})
            for name, points in rows.groupby("line", sort=False):
                if names:
                    _named_points(axes, points, x, y, look[name])
                else:
                    text = label(name) if line == "arm" else str(name)
                    _line(axes, points, x, y, look[name], text)
            ended = rows[rows["censored"]]
            if len(ended):
                axes.plot(ended[x], ended[y], **AT_BUDGET)
            at = level.get(title) if isinstance(level, Mapping) else level
            if at is not None:
                axes.axhline(at, **LEVEL)
            if names:
                axes.margins(x=0.1 if wide else 0.2)  # room for the names
            # There is no layer 1.5, so whole numbers are ticks themselves.
            if pd.api.types.is_integer_dtype(table[x]):
                axes.set_xticks(sorted(set(table[x])))
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
            # An interval may reach beyond 100%, an accuracy may not.
            if "%" in unit:
                axes.set_ylim(*np.clip(axes.get_ylim(), *PERCENT))
            for which in logarithmic:
                log_ticks(axes, which)
            axes.set(title=title, xlabel=x, ylabel="")
        if y != VALUE:  # else each panel names its unit
            panels[0].set_ylabel(y)
        legend(figure)
        figure.draw_without_rendering()  # only now is the size of names known
        for axes in panels:
            _move_names(axes)
    return figure


def _with_lines(table: pd.DataFrame, x: str) -> pd.DataFrame:
    """The rows of panels in which a line has two points or more, and something was
    measured."""
    # One point is no line, and where all runs end at the budget only the budget would be
    # drawn.
    points = table.groupby(["panel", "line"])[x].transform("nunique")
    joined = points.groupby(table["panel"]).transform("max") > 1
    measured = ~table["censored"].groupby(table["panel"]).transform("all")
    return table[joined & measured]


def _line(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, text: str) -> None:
    """One line through the means of the rows of each `x`, with their intervals; if they are
    too few for an interval, with all rows."""
    marks: Style = {
        "x": x,
        "y": y,
        "color": look.colour,
        "legend": False,
        "ax": axes,
    }
    sns.lineplot(
        rows,
        errorbar=_interval,
        err_style="bars",
        ls=look.line,
        label=text,
        **marks,
    )
    at_x = rows.groupby(x)
    # An interval of two to four runs says more about their number than about the arm.
    few = at_x[y].transform("size").between(2, FEWEST_RUNS - 1)
    sns.scatterplot(rows[few], marker=".", alpha=0.6, linewidth=0, **marks)
    # If all runs of a point end at the budget, their mean is the budget: no number of
    # steps.
    measured = rows[~at_x["censored"].transform("all")]
    sns.lineplot(measured, errorbar=None, ls="", marker=look.marker, mec=INK, **marks)


def _interval(values: "pd.Series[float]") -> tuple[float, float]:
    """The interval of the tables, of logarithms if the axis is logarithmic; NaN is not
    drawn."""
    _, low, high = mean_interval(list(values))
    return low, high


def _named_points(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look) -> None:
    marks: Style = {"marker": look.marker, "color": look.colour, "edgecolor": INK}
    sns.scatterplot(rows[~rows["censored"]], x=x, y=y, ax=axes, **marks)
    for name, *place in rows[["name", x, y]].itertuples(index=False):
        axes.annotate(name, place, (4, 3), "data", "offset points", size=7)


def _move_names(axes: Axes) -> None:
    """Place names of points, from the lowest on, where none covers another or a point: at
    either side of its point if there is room, else above with a line to it."""
    texts: list[Any] = list(axes.texts)  # annotations, whose types are those of plain texts
    # From the lowest on, so that a name that moves finds only names that have their place.
    names = sorted(texts, key=lambda name: name.get_window_extent().y0)
    places = [axes.transData.transform(name.xy) for name in names]
    boxes = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in places]
    for name in names:
        above = ((4, height, "left") for height in itertools.count(4))
        for side in itertools.chain(SIDES, above):
            *name.xyann, alignment = side
            name.set_ha(alignment)
            extent = name.get_window_extent()
            if not any(extent.overlaps(box) for box in boxes):
                break
        if side not in SIDES:
            line = {"arrowstyle": "-", "lw": 0.5, "color": MUTED}
            axes.annotate("", name.xy, name.xyann, "data", "offset points", arrowprops=line)
        boxes.append(extent)
