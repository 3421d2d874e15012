"""One function per figure. An arm that was not run is said, never left out in silence."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter

from ..analysis.cells import Cell, best_floor, cells, effect, section_arms, section_tasks
from ..analysis.claim import known_to_paper
from ..sections.arms import ARMS
from ..sections.comparisons import COMPARISONS
from ..sections.section import Section
from ..tasks import Task
from ..tasks.base import FiniteTask
from ..tasks.bits import BitTask
from ..tasks.images import ImageTask
from ..tasks.sequences import SequenceTask
from .panels import DASHED, Layout, draw_floor, floor_handle
from .style import GRID, INK, LOOKS, MUTED, styled

GAP = 1.0  # between the groups of two tasks, in bars
LEGEND_ROW = 0.36  # inches: an arm and its runs
LEAST_REACH = 10.0  # points on each side of zero, so that small effects look small


def _figure(width: float, height: float) -> Figure:
    """A figure of its own: no pyplot, so no global state and nothing shown twice."""
    return Figure(figsize=(width, height))


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Above the panels, in as many columns as fit."""
    columns = _legend_columns(figure.get_figwidth(), handles)
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)


def _legend_columns(width: float, handles: Sequence[Artist]) -> int:
    longest = max(len(line) for it in handles for line in str(it.get_label()).split("\n"))
    return max(1, int(width / max(2.1, 0.5 + 0.075 * longest)))


def _note(axes: Axes, x: float, text: str, rotation: float = 0) -> None:
    """A word where a bar would stand, readable across any line."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    word = axes.text(x, 2, text, color=MUTED, fontsize=7, ha="center", va="bottom", zorder=7)
    word.set(rotation=rotation, bbox=box)


def _transfer_arms(section: Section) -> list[str]:
    arms = section_arms(section)
    return [arm for arm in COMPARISONS["transfer"].arms if arm in arms]


def transfer_bars(section: Section) -> Figure:
    """The paper's bar figure: test accuracy per task and arm, ours above the paper's.

    A bar is a mean with its 95% interval, a dot one seed, a dashed tick the best trivial floor.
    """
    arms, tasks = _transfer_arms(section), section_tasks(section)
    found = cells(section.frame())
    with styled():
        figure = _figure(max(6.4, min(11.0, 0.6 + 0.3 * (len(arms) + 1) * len(tasks))), 6.6)
        ours, theirs = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        lefts = {task: index * (len(arms) + GAP) for index, task in enumerate(tasks)}
        for task, left in lefts.items():
            for place, arm in enumerate(arms):
                _bar(ours, left + place, arm, found.get((arm, task)))
            floor = best_floor(tasks[task])
            if floor is not None:
                for axes in (ours, theirs):
                    ends = (left - 0.5, left + len(arms) - 0.5)
                    axes.plot(ends, [100 * floor] * 2, color=INK, lw=1.0, ls=DASHED, zorder=4)
            _printed_bars(theirs, left, arms, task)
        for place, arm in enumerate(arms):
            bars = {left + place: found.get((arm, task)) for task, left in lefts.items()}
            _seeds(ours, arm, bars)
        centres = [left + (len(arms) - 1) / 2 for left in lefts.values()]
        theirs.set_xticks(centres, list(tasks))
        theirs.set_xlim(-1, len(tasks) * (len(arms) + GAP) - GAP)
        profile = section.profile
        ours.set_title(f"Ours ({profile.name}, {profile.backbone}): mean, 95% interval, each seed")
        theirs.set_title("The paper: GPT-2")
        for axes in (ours, theirs):
            axes.set_ylim(0, 104)
            axes.set_yticks(range(0, 101, 25))
            axes.set_ylabel("test accuracy, %")
            axes.tick_params(axis="x", length=0)
        handles = [_swatch(arm, _runs_label(section, found, arm)) for arm in arms]
        legend(figure, [*handles, floor_handle()])
    return figure


def _bar(axes: Axes, x: float, arm: str, cell: Cell | None) -> None:
    look = LOOKS[arm]
    interval = cell.interval if cell else None
    if cell is None or interval is None:
        _note(axes, x, _absent(cell), rotation=90)
        return
    height = 100 * interval.mean
    axes.bar(x, height, 0.82, color=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0)
    if np.isfinite(interval.low):
        ends = 100 * np.array([interval.low, interval.high])
        axes.plot([x, x], ends, color=INK, lw=1.1, zorder=5)


def _seeds(axes: Axes, arm: str, bars: Mapping[float, Cell | None]) -> None:
    """Each seed of an arm, side by side over the bars at these places."""
    seeds: list[tuple[float, float]] = []
    for x, cell in bars.items():
        if cell is not None and cell.interval is not None:
            count = len(cell.values)
            spread = np.linspace(-0.2, 0.2, count) if count > 1 else [0.0]
            seeds += [(x + d, 100 * value) for d, value in zip(spread, cell.values, strict=True)]
    places, values = np.reshape(seeds, (-1, 2)).T
    axes.scatter(
        places, values, s=3.4**2, color="white", marker=LOOKS[arm].marker, edgecolor=INK,
        linewidth=0.7, zorder=6,
    )  # fmt: skip


def _absent(cell: Cell | None) -> str:
    return "not run" if cell is None else cell.absence


def _printed_bars(axes: Axes, left: float, arms: Sequence[str], task: str) -> None:
    middle = left + (len(arms) - 1) / 2
    if not known_to_paper(task):
        _note(axes, middle, "not in the paper")
        return
    for place, arm in enumerate(arms):
        value = _printed_for(arm, arms, task)
        if value is None:
            _note(axes, left + place, "not printed", rotation=90)
            continue
        look = LOOKS[arm]
        axes.bar(
            left + place, 100 * value, 0.82, color=look.colour, hatch=look.hatch, alpha=0.75,
            edgecolor="white", linewidth=0,
        )  # fmt: skip


def _printed_for(arm: str, arms: Sequence[str], task: str) -> float | None:
    """The paper's number for an arm; its LSTM is the released code's, where both are drawn."""
    if arm == "lstm" and "lstm-released" in arms:
        return None
    value = COMPARISONS["transfer"].printed(arm, task)
    return None if value is None else value / 100


def _swatch(arm: str, text: str) -> Patch:
    look = LOOKS[arm]
    return Patch(
        facecolor=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0, label=text
    )


def _runs_label(section: Section, found: Mapping[tuple[str, str], Cell], arm: str) -> str:
    """`FPT (frozen, language), 3 of 6 runs`, counting done runs of the whole section."""
    mine = [cell for (name, _), cell in found.items() if name == arm]
    done, expected = sum(len(c.values) for c in mine), sum(c.expected for c in mine)
    diverged = sum(cell.diverged for cell in mine)
    counts = f"{done} of {expected} runs" if done or diverged else "not run"
    counts += f", {diverged} diverged" if diverged else ""
    return f"{ARMS[arm].label}\n{counts}"


def effects(section: Section) -> Figure:
    """FPT minus each other arm, per task: ours with its 95% interval, the paper's as a diamond."""
    tasks, found = section_tasks(section), cells(section.frame())
    others = [arm for arm in _transfer_arms(section) if arm != "fpt"]
    with styled():
        figure = _figure(1.4 + 1.95 * len(others), 1.5 + 0.45 * len(tasks))
        panels = figure.subplots(1, len(others), sharey=True, squeeze=False)[0]
        for axes, arm in zip(panels, others, strict=True):
            look = LOOKS[arm]
            for y, task in enumerate(tasks):
                seen = effect(found, "fpt", arm, task)
                if seen is None:
                    axes.text(0, y - 0.16, "  not run", va="center", color=MUTED, fontsize=7)
                else:
                    if np.isfinite(seen.low):
                        ends = [100 * seen.low, 100 * seen.high]
                        axes.plot(
                            ends, [y - 0.16] * 2, color=look.colour, lw=2, solid_capstyle="butt"
                        )
                    axes.plot(
                        100 * seen.effect, y - 0.16, look.marker, color=look.colour, mec=INK, ms=6
                    )
                value = COMPARISONS["transfer"].effect("fpt", arm, task)
                if value is not None:
                    axes.plot(value, y + 0.2, marker="D", ls="", mfc="white", mec=INK, ms=4.5)
            reach = max(LEAST_REACH, *map(abs, axes.get_xlim()))
            axes.set_xlim(-reach, reach)
            axes.xaxis.set_major_locator(MaxNLocator(4, prune="both"))
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            for border in range(1, len(tasks)):
                axes.axhline(border - 0.5, color=GRID, lw=0.6)
            axes.axvline(0, color=INK, lw=0.8)
            axes.set_title(f"FPT minus\n{ARMS[arm].label}", fontsize=9)
            axes.grid(axis="x")
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(tasks)), list(tasks))
        figure.supxlabel("points of test accuracy", fontsize=9)
        handles = [
            Line2D([], [], color=MUTED, marker="o", mec=INK, lw=2, label="ours, 95% interval"),
            Line2D([], [], ls="", marker="D", mfc="white", mec=INK, ms=4.5, label="the paper"),
        ]
        legend(figure, handles)
    return figure


def learning_curves(section: Section, only: Sequence[str] | None = None) -> Figure:
    """Validation accuracy against steps, a panel per task: seeds thin, their mean thick.

    `only`: arms to draw, of those that the section has, where all would be too many.
    """
    arms = section_arms(section)
    arms = arms if only is None else [arm for arm in only if arm in arms]
    tasks = section_tasks(section, arms)
    curves, found = section.curves(), cells(section.frame())
    layout = Layout(len(tasks), 3)
    handles = [
        Line2D(
            [], [], color=LOOKS[arm].colour, ls=LOOKS[arm].line, marker=LOOKS[arm].marker, ms=4,
            mfc=LOOKS[arm].face, lw=1.8, label=_runs_label(section, found, arm),
        )
        for arm in arms
    ]  # fmt: skip
    handles.append(floor_handle())
    with styled():
        width = max(6.4, 3.2 * layout.columns)
        above = LEGEND_ROW * -(-len(handles) // _legend_columns(width, handles))
        figure = _figure(width, 0.4 + above + 2.2 * layout.rows)
        grid = layout.on(figure)
        for axes, (task, definition) in zip(grid, tasks.items(), strict=True):
            mine = curves[(curves["task"] == task) & curves["arm"].isin(arms)]
            axes.set_title(task)
            floor = best_floor(definition)
            highest = max(mine["valid_accuracy"].max() if len(mine) else 0.0, floor or 0.0)
            axes.set_ylim(0, 120 * highest if 0 < highest < 0.5 else 103)
            if mine.empty:
                axes.text(0.5, 0.4, "not run", transform=axes.transAxes, ha="center", color=MUTED)
                axes.set_xticks([])
            for arm in arms:
                _curves(axes, arm, mine[mine["arm"] == arm])
            if not mine.empty and mine["step"].max() >= 30 * mine["step"].min():
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())  # labels would overlap
            draw_floor(axes, floor)
        for axes in layout.leftmost(grid):
            axes.set_ylabel("validation accuracy, %")
        figure.supxlabel("gradient steps", fontsize=9)
        legend(figure, handles)
    return figure


def _curves(axes: Axes, arm: str, points: pd.DataFrame) -> None:
    """One arm on one task; the mean stops where the first seed does."""
    if points.empty:
        return
    look = LOOKS[arm]
    table = 100 * points.pivot_table(index="step", columns="seed", values="valid_accuracy")
    for seed in table.columns:
        axes.plot(table.index, table[seed], color=look.colour, lw=0.7, alpha=0.45)
    mean = table.dropna().mean(axis=1)
    every = max(1, len(mean) // 6)
    axes.plot(
        mean.index, mean, color=look.colour, ls=look.line, lw=1.8, marker=look.marker, ms=4,
        mfc=look.face, markevery=every,
    )  # fmt: skip


def task_samples(tasks: Mapping[str, Task]) -> Figure:
    """One example of each task as a person sees it, with its token form and its answer."""
    layout = Layout(len(tasks), 4)
    with styled():
        figure = _figure(10.8, 2.6 * layout.rows)
        for axes, (name, task) in zip(layout.on(figure), tasks.items(), strict=True):
            axes.set_axis_off()
            axes.set_anchor("NW")
            axes.set_title(f"{name}\n{_token_form(task)}", fontsize=9)
            if not_here(task):
                text = f"Not here;\n`fpt data {task.name}`\ntakes the data from {task.needs}."
                axes.text(0, 0.98, text, va="top", color=MUTED, fontsize=8)
            else:
                _sample(axes, task)
    return figure


def not_here(task: Task) -> bool:
    """Whether the task needs data from elsewhere that are not prepared here."""
    return isinstance(task, FiniteTask) and not task.here


def _token_form(task: Task) -> str:
    tokens = f"up to {task.length}" if isinstance(task, SequenceTask) else str(task.length)
    if task.kind == "token":
        return f"{tokens} tokens, each 1 of {task.dim} symbols"
    return f"{tokens} tokens of {task.dim} number{'s' if task.dim > 1 else ''}"


def _sample(axes: Axes, task: Task) -> None:
    """Example 0 of the test split; of a bit task one in its midst, as the first is all zeros."""
    example = task.example("test", 3 * task.sizes["test"] // 5 if isinstance(task, BitTask) else 0)
    answer = _cut(example.answer, SHOWN_BITS)
    if example.image is None:
        lines = textwrap.fill(_cut(example.text or "", SHOWN_LETTERS), LINE)
        axes.text(0, 0.98, lines, va="top", fontsize=7, family="DejaVu Sans Mono")
        axes.text(0, 0.02, f"answer: {answer}", va="bottom", fontsize=8)
        return
    image = example.image.numpy()
    patch = None
    if isinstance(task, ImageTask):
        image = np.pad(image, ((task.pad,) * 2, (task.pad,) * 2, (0, 0)))
        patch = task.patch if task.patch > 1 else None
    else:
        image = image[:, :SHOWN_BITS]
    axes.set_axis_on()
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1)
    for line, extent in ((axes.axhline, image.shape[0]), (axes.axvline, image.shape[1])):
        for edge in range(0, extent + 1, patch) if patch else ():
            line(edge - 0.5, color=LOOKS["fpt"].colour, lw=0.5)
    axes.text(0, -0.05, f"answer: {answer}", transform=axes.transAxes, va="top", fontsize=8)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + " ..."


SHOWN_BITS, SHOWN_LETTERS, LINE = 24, 250, 36
