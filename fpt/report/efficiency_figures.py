"""Figures of sections 3.4 and 3.9: steps, speed-ups, the output net alone by its budget."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ..analysis.arrivals import Race, histories
from ..analysis.cells import best_floor, section_tasks
from ..analysis.convergence import Convergence, median_steps
from ..paper import reader as paper
from ..sections.section import Section
from .cached import PROBES, printed, probes
from .efficiency import PAIRS, arrived, pairs, races
from .panels import Layout, draw_floor, floor_handle, name_rows
from .style import INK, LOOKS, MUTED, styled
from .table import NONE, label, short, si

COLUMNS = 4  # panels side by side, at most
ROW = 0.34  # inches
OURS, THEIRS = -0.14, 0.22  # places within a row
ROOM = 1.4  # a factor beyond the outermost value
NEAR = 1.0  # points between printed numbers that share a line
PRINTED = (0, (6, 3))
PAPER = Line2D([], [], ls="", marker="D", mfc="white", mec=INK, ms=4.5, label="the paper")
BOUNDS = [
    Line2D([], [], ls="", marker=">", color=MUTED, ms=6, label="not by then"),
    Line2D([], [], ls="", marker="<", color=MUTED, ms=6, label="by the first look"),
]


def steps(section: Section) -> Figure:
    """Steps until each arm reaches its own final level: each run, the median, the paper's."""
    found, tasks = histories(section), section_tasks(section)
    arms = list(dict.fromkeys(arm for arm, _ in found))
    planned = {(run.arm, run.task) for run in section.runs}

    def draw(axes: Axes, task: str) -> None:
        for y, arm in enumerate(arms):
            if (arm, task) in planned:
                _runs(axes, y + OURS, arm, arrived(found.get((arm, task), ())))
            else:
                _word(axes, y + OURS, NONE)
            _theirs(axes, y, arm, task)

    run = Line2D([], [], color=INK, ls="", marker="|", ms=6, label="each run")
    ours = Line2D([], [], color=MUTED, ls="", marker="o", mec=INK, label="our median")
    rows = [label(arm) for arm in arms]
    return _panels(list(tasks), rows, draw, "gradient steps", [ours, run, *BOUNDS, PAPER])


def _theirs(axes: Axes, y: float, row: str, task: str) -> None:
    cell = paper.table("T6").cells.get((row, task))
    if cell is not None and cell.value is not None:
        axes.plot(cell.value, y + THEIRS, "D", mfc="white", mec=INK, ms=4.5, zorder=5)


def _runs(axes: Axes, y: float, arm: str, runs: Sequence[Convergence]) -> None:
    """A tick per run, a triangle where it is censored, the arm's marker at the median."""
    if not runs:
        _word(axes, y, "not run")
        return
    look = LOOKS[arm]
    for run in runs:
        if math.isfinite(run.step):
            marker = ">" if run.censored else "<" if run.first else "|"
            axes.plot(run.step, y, marker, color=INK, ms=6, zorder=4)
    never = sum(math.isinf(run.step) for run in runs)
    if never:
        _word(axes, y, f"{never} never", right=True)
    middle = median_steps(runs).median
    if math.isfinite(middle):
        axes.plot(middle, y, look.marker, mfc=look.face, mec=look.edge, ms=6.5, zorder=5)


def speedups(section: Section) -> Figure:
    """Speed-ups at equal ends with their intervals, a panel per pair; arrows are bounds."""
    found, tasks = races(section), list(section_tasks(section))
    names = {f"{short(fast)}\nover {short(slow)}": (slow, fast) for slow, fast in pairs(section)}

    def draw(axes: Axes, name: str) -> None:
        slow, fast = names[name]
        axes.axvline(1, color=INK, lw=0.8)
        for y, task in enumerate(tasks):
            ran = found.get((slow, fast, task), "not run")
            if isinstance(ran, str):
                _word(axes, y + OURS, ran)
            else:
                _ratio(axes, y + OURS, fast, ran)
            if (slow, fast) == PAIRS[0]:
                _theirs(axes, y, "speed-up", task)

    ours = Line2D([], [], color=MUTED, marker="o", mec=INK, lw=2, label="ours, with interval")
    bounds = [
        Line2D([], [], color=MUTED, ls="", marker=marker, ms=6, label=text)
        for marker, text in ((">", "at least"), ("<", "at most"))
    ]
    what = "times fewer steps to the same accuracy"
    return _panels(list(names), tasks, draw, what, [ours, *bounds, PAPER], least=(0.5, 4.0))


def _ratio(axes: Axes, y: float, arm: str, ran: Race) -> None:
    if ran.at_floor:
        _word(axes, y, "not learned")
        return
    look, found = LOOKS[arm], ran.speedup
    known = [it for it in (found.least, found.most) if 0 < it < math.inf]
    if not known:
        _word(axes, y, "never" if math.isinf(found.least) else "open")
        return
    middle = math.exp(sum(map(math.log, known)) / len(known))
    if found.runs != (1, 1):
        ends = [it if 0 < it < math.inf else middle for it in (found.low, found.high)]
        axes.plot(ends, [y] * 2, color=look.colour, lw=2, solid_capstyle="butt")
    marker = ">" if math.isinf(found.most) else "<" if found.least == 0 else look.marker
    axes.plot(middle, y, marker, mfc=look.colour, mec=INK, ms=6.5, zorder=5)


def budgets(section: Section) -> Figure:
    """The output net alone on validation: steps against convergence, and the paper's numbers."""
    curves, tasks = section.curves(), section_tasks(section, PROBES)
    layout = Layout(len(tasks), 3)
    with styled():
        figure = Figure(figsize=(max(6.8, 3.4 * layout.columns), 1.2 + 2.5 * layout.rows))
        grid = layout.on(figure)
        for axes, (name, task) in zip(grid, tasks.items(), strict=True):
            axes.set_title(name)
            mine = curves[curves["task"] == name]
            lines = 0
            for probe, plain in PROBES.items():
                part = mine[mine["arm"] == plain]
                if len(part):
                    _curve(axes, plain, part.pivot_table("valid_accuracy", "step", "seed"))
                made = probes(section, probe, name)
                fitted = [100 * record.metrics["valid_accuracy"] for record in made]
                if fitted:
                    _level(axes, probe, float(np.mean(fitted)))
                lines += len(part) + len(fitted)
            if not lines:
                axes.text(0.3, 0.4, "not run", transform=axes.transAxes, color=MUTED)
                axes.set_xticks([])
            _printed_lines(axes, name)
            draw_floor(axes, best_floor(task))
            if len(mine) and mine["step"].max() >= 30 * mine["step"].min():
                axes.set_xscale("log")
                _log_axis(axes)
        for axes in layout.leftmost(grid):
            axes.set_ylabel("accuracy, %")
        figure.supxlabel("gradient steps on a budget", fontsize=9)
        handles = [
            Line2D(
                [], [], color=LOOKS[arm].colour, lw=1.8, label=label(arm), marker=LOOKS[arm].marker,
                ls=LOOKS[arm].line if arm in PROBES.values() else "-",
                mfc=LOOKS[arm].face, ms=7,
            )
            for arm in (*PROBES.values(), *PROBES)
        ]  # fmt: skip
        handles += [
            floor_handle(),
            Line2D([], [], color=MUTED, lw=1.0, ls=PRINTED, label="printed by the paper (GPT-2)"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=max(2, layout.columns))
    return figure


def _curve(axes: Axes, arm: str, table: pd.DataFrame) -> None:
    """Accuracies by step and seed: seeds thin, their mean, while all of them train, thick."""
    look = LOOKS[arm]
    for seed in table.columns:
        axes.plot(table.index, 100 * table[seed], color=look.colour, lw=0.7, alpha=0.45)
    mean = 100 * table.dropna().mean(axis=1)
    axes.plot(
        mean.index, mean, color=look.colour, ls=look.line, lw=1.8, marker=look.marker, ms=7,
        mfc=look.face, markevery=max(1, len(mean) // 6),
    )  # fmt: skip


def _level(axes: Axes, arm: str, accuracy: float) -> None:
    """A line at what needs no steps, with the arm's marker."""
    look = LOOKS[arm]
    axes.axhline(accuracy, color=look.colour, lw=1.8)
    place = 0.4 if look.hollow else 0.6
    (mark,) = axes.plot(place, accuracy, look.marker, mfc=look.face, mec=look.colour)
    mark.set_transform(axes.get_yaxis_transform())


def _printed_lines(axes: Axes, task: str) -> None:
    """The paper's numbers of the arm, named by their tables: language right, random left."""
    for probe in PROBES:
        random = probe.startswith("random")
        for value, tables in _close_together(printed(probe, task)):
            axes.axhline(value, color=MUTED, lw=1.0, ls=PRINTED, zorder=1)
            names = map(paper.called, tables)
            text = f"{'; '.join(names)}{' random' if random else ''}"
            word = axes.text(0.02 if random else 0.98, value, text, fontsize=7, zorder=7)
            word.set(ha="left" if random else "right", va="center")
            word.set_transform(axes.get_yaxis_transform())
            word.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})


def _close_together(values: Mapping[str, float]) -> list[tuple[float, list[str]]]:
    """Numbers with their tables; those within `NEAR` points are one, as their labels would be."""
    groups: list[tuple[float, list[str]]] = []
    for table, value in sorted(values.items(), key=lambda item: item[1]):
        if groups and value - groups[-1][0] <= NEAR:
            groups[-1][1].append(table)
        else:
            groups.append((value, [table]))
    return groups


def _panels(
    titles: Sequence[str],
    rows: Sequence[str],
    draw: Callable[[Axes, str], None],
    what: str,
    handles: Sequence[Line2D],
    least: tuple[float, float] | None = None,
) -> Figure:
    """Panels with the same rows and a logarithmic axis; `draw` fills the panel of a title."""
    layout = Layout(len(titles), COLUMNS)
    height = 1.3 + layout.rows * (0.5 + ROW * len(rows))
    with styled():
        figure = Figure(figsize=(max(6.4, 2.6 + 2.0 * layout.columns), height))
        for axes, name in zip(layout.on(figure, sharey=True), titles, strict=True):
            axes.set_xscale("log")
            draw(axes, name)
            axes.set_title(name, fontsize=9)
            name_rows(axes, rows)
            _log_axis(axes, least)
        figure.supxlabel(what, fontsize=9)
        figure.legend(handles=list(handles), loc="outside upper left", ncols=len(handles))
    return figure


def _log_axis(axes: Axes, least: tuple[float, float] | None = None) -> None:
    """Room around the values, and at most four labels: 1, 2, 5 and so on, or decades."""
    low, high = axes.get_xlim()
    low, high = low / ROOM, high * ROOM
    if least is not None:
        low, high = min(low, least[0]), max(high, least[1])
    axes.set_xlim(low, high)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) > 4:
        ticks = [tick for tick in ticks if math.log10(tick) % 1 == 0] or ticks[::3]
    ticks = ticks[:: -(-len(ticks) // 4)]
    axes.set_xticks(ticks, [si(tick).replace(" ", "") for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _word(axes: Axes, y: float, text: str, right: bool = False) -> None:
    """A word where a point would stand."""
    x, ha = (0.98, "right") if right else (0.02, "left")
    word = axes.text(x, y, text, va="center", ha=ha, color=MUTED, fontsize=7, zorder=7)
    word.set_transform(axes.get_yaxis_transform())
    word.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
