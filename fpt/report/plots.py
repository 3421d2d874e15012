"""The plots of all pages: dots with intervals, lines, learning curves.

seaborn draws; means and intervals are those of the tables, so there is no interval below
FEWEST_RUNS runs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from ..analysis.compare import FEWEST_RUNS, natural, reached, summary_with_intervals
from ..analysis.study import Study
from ..analysis.summary import baselines, mean_interval
from ..sections.arms import label
from ..sections.comparison import Comparison
from .style import CENSORED, INK, MUTED, Look, legend, log_ticks, looks, panels_of, styled

Style = dict[str, Any]
STEPS, ACCURACY = "steps to the threshold", "test accuracy, %"
VALUE = "value"  # a column of steps or percent
PERCENT = (-3, 103)  # how far an axis of percent reaches at most
AT_BUDGET: Style = {
    "label": "not at the threshold within the budget",
    **{"ls": "", "marker": "^", "mfc": "none", "mec": CENSORED, "ms": 5},
}
PAPER: Style = {"label": "the paper", "ls": "", "marker": "D", "mfc": "white", "mec": INK, "ms": 4}
LEVEL: Style = {"ls": ":", "color": INK, "lw": 1}


def dot_plot(study: Study, comparison: Comparison) -> Figure | None:
    """Each arm on each task: its mean, with a 95% interval if there are runs enough for one, every
    run as a dot, the paper's number as a diamond, the best trivial baseline as a dotted line. Steps
    are on a logarithmic axis, and runs that end before the threshold are open triangles. Tasks that
    fewer than half of the arms have are left to the table. None if no run is recorded, or none
    reaches a threshold."""
    results = study.results()
    results = results[results["arm"].isin(comparison.arms)]
    scored = results[results["score"].notna()]
    arms_by_task = reached(scored).groupby("task", sort=False)["arm"].nunique()
    tasks = list(arms_by_task[2 * arms_by_task >= arms_by_task.max()].index)
    if not tasks:
        return None
    runs = scored[scored["task"].isin(tasks)]
    runs = runs.assign(**{VALUE: natural(study, runs)})
    arms = [arm for arm in comparison.arms if arm in set(runs["arm"])]
    means = summary_with_intervals(results[results["task"].isin(tasks)])
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 0.6 + 0.3 * len(arms), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            of_task = means[(means["task"] == task) & (means["runs"] > 0)]
            steps = study.measures(task) == "steps"
            _runs(axes, runs[runs["task"] == task], arms)
            _means(axes, of_task, arms, steps)
            if steps:
                log_ticks(axes, "x")
            else:
                _references(axes, study, comparison, task, arms)
            axes.set_title(study.title(task))
            axes.set_xlabel(STEPS if steps else ACCURACY, fontsize=8)
        mean = "mean, 95% interval" if means["low"].notna().any() else "mean"
        panels[0].errorbar([], [], xerr=[], fmt="o", color=MUTED, mec=INK, label=mean)
        legend(figure)
    return figure


def _runs(axes: Axes, runs: pd.DataFrame, arms: Sequence[str]) -> None:
    """A row of dots for each arm."""
    order = [label(arm) for arm in arms]
    runs = runs.assign(name=runs["arm"].map(label))
    ended = runs[runs["censored"]]
    dots: Style = {"color": MUTED, "size": 3, "jitter": False, "label": "each run", "legend": False}
    sns.stripplot(runs[~runs["censored"]], x=VALUE, y="name", order=order, ax=axes, **dots)
    axes.grid(True, axis="y")
    axes.set(ylim=(len(arms) - 0.5, -0.5), ylabel="")
    if len(ended):
        axes.plot(ended[VALUE], ended["name"].map(order.index), **AT_BUDGET)


def _means(axes: Axes, means: pd.DataFrame, arms: Sequence[str], steps: bool) -> None:
    """Means with their intervals, each above the dots of its arm."""
    look = looks(arms)
    for row in means[means["censored"] < means["runs"]].itertuples():  # else it is the budget
        interval = np.array([row.low, row.mean, row.high])
        low, mean, high = np.exp(interval) if steps else interval
        colour = look[row.arm].colour
        axes.errorbar(
            mean,
            arms.index(row.arm) - 0.25,
            xerr=[[mean - low], [high - mean]],
            fmt=look[row.arm].marker,
            color=colour,
            mfc="white" if row.censored else colour,  # hollow: the true mean is higher
            mec=INK,
            elinewidth=2,
        )


def _references(
    axes: Axes, study: Study, comparison: Comparison, task: str, arms: Sequence[str]
) -> None:
    """What accuracies are compared with: the paper's numbers and the best trivial baseline."""
    for y, arm in enumerate(arms):
        printed = comparison.printed(arm, task)
        if printed is not None:
            axes.plot(printed, y + 0.25, **PAPER)
    axes.axvline(_best_baseline(study, task), label="best trivial baseline", **LEVEL)
    axes.set_xlim(*np.clip(axes.get_xlim(), *PERCENT))  # an interval may reach further
    axes.locator_params("x", nbins=4)


def _best_baseline(study: Study, task: str) -> float:
    """The accuracy of the best trivial baseline in percent; NaN, which is not drawn, if none is
    known."""
    return max(baselines(study.tasks[task]).values(), default=math.nan)


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
    curves = curves.assign(percent=100 * curves["valid_accuracy"])
    tasks = list(dict.fromkeys(curves["task"]))
    look = looks(list(dict.fromkeys(curves["arm"])))
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 2.4)
        for axes, task in zip(panels, tasks, strict=True):
            for arm, rows in curves[curves["task"] == task].groupby("arm", sort=False):
                shared = rows.groupby("step")["seed"].transform("nunique") == rows["seed"].nunique()
                marks: Style = {"x": "step", "y": "percent", "color": look[arm].colour, "ax": axes}
                marks["legend"] = False
                sns.lineplot(rows, units="seed", estimator=None, lw=0.5, alpha=0.4, **marks)
                mean: Style = {"ls": look[arm].line, "lw": 1.8, "label": label(arm)}
                sns.lineplot(rows[shared], errorbar=None, **mean, **marks)
            axes.axhline(_best_baseline(study, task), **LEVEL)
            if study.measures(task) == "steps":
                log_ticks(axes, "x")
            axes.set_title(study.title(task))
            axes.set_xlabel("steps", fontsize=8)
            axes.set_ylabel("")
        panels[0].set_ylabel("validation accuracy, %")
        legend(figure)
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
            logarithmic = [*log, *("y" * unit.endswith(STEPS))]
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
            if pd.api.types.is_integer_dtype(table[x]):  # layers, trained parts
                axes.set_xticks(sorted(set(table[x])))
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
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
    """The rows of panels in which a line has two points or more, and something was measured."""
    points = table.groupby(["panel", "line"])[x].transform("nunique")
    joined = points.groupby(table["panel"]).transform("max") > 1
    measured = ~table["censored"].groupby(table["panel"]).transform("all")
    return table[joined & measured]


def _line(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, text: str) -> None:
    """One line through the means of the rows of each `x`, with their intervals; if they are too few
    for an interval, with all rows."""
    marks: Style = {"x": x, "y": y, "color": look.colour, "legend": False, "ax": axes}
    sns.lineplot(rows, errorbar=_interval, err_style="bars", ls=look.line, label=text, **marks)
    at_x = rows.groupby(x)
    few = at_x[y].transform("size").between(2, FEWEST_RUNS - 1)
    sns.scatterplot(rows[few], marker=".", alpha=0.6, linewidth=0, **marks)
    measured = rows[~at_x["censored"].transform("all")]  # else the mean is the budget
    sns.lineplot(measured, errorbar=None, ls="", marker=look.marker, mec=INK, **marks)


def _interval(values: "pd.Series[float]") -> tuple[float, float]:
    """The interval of the tables, of logarithms if the axis is logarithmic; NaN, which is not
    drawn, for fewer than FEWEST_RUNS values."""
    if len(values) < FEWEST_RUNS:
        return math.nan, math.nan
    _, low, high = mean_interval(list(values))
    return low, high


def _named_points(axes: Axes, rows: pd.DataFrame, x: str, y: str, look: Look) -> None:
    marks: Style = {"marker": look.marker, "color": look.colour, "edgecolor": INK}
    sns.scatterplot(rows[~rows["censored"]], x=x, y=y, ax=axes, **marks)
    for name, *place in rows[["name", x, y]].itertuples(index=False):
        axes.annotate(name, place, (4, 3), "data", "offset points", size=7)


def _move_names(axes: Axes) -> None:
    """Move names of points up until none covers another or a point, from the lowest on."""
    texts: list[Any] = list(axes.texts)  # annotations, whose types are those of plain texts
    names = sorted(texts, key=lambda name: name.get_window_extent().y0)
    places = [axes.transData.transform(name.xy) for name in names]
    boxes = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in places]
    for name in names:
        while any(name.get_window_extent().overlaps(box) for box in boxes):
            name.xyann = (name.xyann[0], name.xyann[1] + 1)
        boxes.append(name.get_window_extent())
