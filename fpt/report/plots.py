"""The four plots of all pages: dots with intervals, lines, learning curves, samples of tasks."""

import math
import textwrap
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

from ..analysis.study import Study
from ..analysis.summary import baselines, mean_interval, summary
from ..files import FptError
from ..sections.arms import label
from ..sections.comparison import Comparison
from ..tasks import Task
from ..tasks.bits import BitTask
from ..tasks.images import ImageTask
from .style import INK, MUTED, looks, styled

COLUMNS = 4  # panels side by side
SHOWN_BITS, SHOWN_LETTERS = 24, 250  # of a sample
STEPS, ACCURACY = "steps to the threshold", "test accuracy, %"
PERCENT = (-3, 103)  # how far an axis of percent reaches at most
KEY: Mapping[str, dict[str, Any]] = {  # of `dot_plot`; what is not drawn has no entry
    "mean, 95% interval": {"color": MUTED, "marker": "o", "mec": INK, "lw": 2},
    "the paper": {"ls": "", "marker": "D", "mfc": "white", "mec": INK, "ms": 4},
    "each seed": {"ls": "", "marker": "|", "color": MUTED},
    "best trivial baseline": {"ls": ":", "color": INK},
}


def _panels(
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
    """Each arm on each task: its mean with 95% interval, every seed as a tick, the paper's number
    as a diamond, the best trivial baseline as a dotted line. Steps are on a logarithmic axis. Tasks
    that fewest arms have are left to the table if more than half of the panels would be empty. None
    if no run is recorded."""
    results = study.results()
    scored = results[results["arm"].isin(comparison.arms) & results["score"].notna()]
    tasks, arms = list(dict.fromkeys(scored["task"])), scored.groupby("task")["arm"].nunique()
    while 2 * arms[tasks].sum() < len(tasks) * scored["arm"].nunique():
        tasks.remove(min(tasks, key=arms.__getitem__))
        scored = scored[scored["task"].isin(tasks)]
    if not tasks:
        return None
    rows = [arm for arm in comparison.arms if arm in set(scored["arm"])]
    means = summary(results[results["arm"].isin(rows)]).dropna(subset="mean")
    look, drawn = looks(rows), {"mean, 95% interval", "each seed"}
    with styled():
        figure, panels = _panels(len(tasks), 2.7, 0.6 + 0.3 * len(rows), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            steps = study.measures(task) == "steps"
            shown: Callable[[float], float] = np.exp if steps else float
            for arm, it in means[means["task"] == task].set_index("arm").iterrows():
                y, style, printed = rows.index(arm), look[arm], comparison.printed(arm, task)
                axes.plot([shown(it["low"]), shown(it["high"])], [y, y], color=style.colour, lw=2)
                axes.plot(shown(it["mean"]), y, style.marker, color=style.colour, mec=INK, ms=6)
                seeds = scored[(scored["arm"] == arm) & (scored["task"] == task)]["score"]
                axes.plot(list(map(shown, seeds)), [y - 0.22] * len(seeds), "|", color=MUTED)
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
        figure, panels = _panels(len(tasks), 2.7, 2.4)
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
    """Means of column `y` against `x`, with 95% intervals over the rows of one `x`: a line for each
    value of column `line`, a panel for each of column `panel`. If `y` or the panel has a percent
    sign, its axis ends at 0 and 100. `log` names the logarithmic axes; `level` is a dotted line, in
    all panels or by panel. With `labels` for the rows, points are named and not joined. None if
    there are no rows."""
    if table.empty:
        return None
    panels = list(dict.fromkeys(table[panel])) if panel else [""]
    lines = list(dict.fromkeys(table[line])) if line else [""]
    look, names = looks(lines), dict(zip(table.index, labels, strict=False))
    with styled():
        wide = bool(names) and len(panels) == 1
        figure, grid = _panels(len(panels), 7.5 if wide else 3.2, 2.6)
        for axes, name in zip(grid, panels, strict=True):
            mine = table[table[panel] == name] if panel else table
            for each in lines:
                style = look[each]
                rows = mine[mine[line] == each] if line else mine
                if rows.empty:
                    continue
                if names:
                    axes.plot(rows[x], rows[y], style.marker, color=style.colour, mec=INK)
                    axes.margins(x=0.1 if wide else 0.2)  # room for the names
                    for where, at, value in rows[[x, y]].itertuples():
                        text = names[where]
                        axes.annotate(text, (at, value), (4, 3), "data", "offset points", size=7)
                    continue
                points = [(at, *mean_interval(list(some))) for at, some in rows.groupby(x)[y]]
                at, mean, low, high = np.array(points, float).T
                axes.plot(at, mean, style.line, color=style.colour)
                axes.plot(at, mean, style.marker, color=style.colour, mec=INK, ms=5)
                axes.vlines(at, low, high, color=style.colour)
            dotted = level.get(name) if isinstance(level, Mapping) else level
            if dotted is not None:
                axes.axhline(dotted, color=INK, ls=":", lw=1)
            if pd.api.types.is_integer_dtype(table[x]):  # layers, trained parts
                axes.set_xticks(sorted(set(table[x])))
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
            if "%" in f"{y}{name}":
                axes.set_ylim(*np.clip(axes.get_ylim(), *PERCENT))
            for which in log:
                _log(axes, which)
            axes.set_title(name)
            axes.set_xlabel(x)
        grid[0].set_ylabel(y)
        if line and not names:
            called = label if line == "arm" else str
            handles = [
                Line2D([], [], color=it.colour, ls=it.line, marker=it.marker, label=called(each))
                for each, it in look.items()
            ]
            _legend(figure, handles)
        figure.draw_without_rendering()  # now it is known how large names are
        _apart(text for axes in grid for text in axes.texts)
    return figure


def _apart(names: Iterable[Any]) -> None:
    """Move names of points up until none covers another, from the lowest on."""
    boxes: list[Bbox] = []
    for name in sorted(names, key=lambda it: it.get_window_extent().y0):
        while any(name.get_window_extent().overlaps(box) for box in boxes):
            name.xyann = (name.xyann[0], name.xyann[1] + 1)
        boxes.append(name.get_window_extent())


def samples(tasks: Mapping[str, Task]) -> Figure:
    """One test example of each task as a person sees it, with its answer. Blue lines separate
    tokens. A task whose data are not here is named without one."""
    with styled():
        figure, panels = _panels(len(tasks), 2.7, 2.6)
        for axes, (name, task) in zip(panels, tasks.items(), strict=True):
            axes.set_axis_off()
            title = f"{name}: {task.length} tokens"
            try:
                title += f"\nanswer: {_sample(axes, task)}"
            except FptError:
                axes.text(0, 0.98, f"Fetch it with\nfpt data {task.name}", va="top", color=MUTED)
            axes.set_title(title, fontsize=9)
    return figure


def _sample(axes: Axes, task: Task) -> str:
    """Draw example 0 of the test split, of a bit task one in its midst, as the first is all zeros;
    returns its answer."""
    example = task.example("test", 3 * task.sizes["test"] // 5 if isinstance(task, BitTask) else 0)
    answer = example.answer[:SHOWN_BITS] + "..." * (len(example.answer) > SHOWN_BITS)
    if example.image is None:
        text = textwrap.fill((example.text or "")[:SHOWN_LETTERS], 36)
        axes.text(0, 0.98, text, va="top", fontsize=7, family="DejaVu Sans Mono")
        return answer
    image, patch = example.image.numpy(), 0
    if isinstance(task, ImageTask):
        image = np.pad(image, ((task.pad,) * 2, (task.pad,) * 2, (0, 0)))
        patch = task.patch if task.patch > 1 else 0
    else:
        image = image[:, :SHOWN_BITS]
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1)
    for line, extent in ((axes.axhline, image.shape[0]), (axes.axvline, image.shape[1])):
        for edge in range(0, extent + 1, patch) if patch else ():
            line(edge - 0.5, color="#0072B2", lw=0.5)
    return answer
