"""Figures on seaborn: one colour and one mark for each arm, a hollow mark for the paper."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..names import ARMS, in_order
from .beside import form_of, label_of, paper, tasks
from .effect import Measure, values_of
from .results import record_of, trivial_rule

INK = "#222222"
MUTED = "#767676"
GREY = "#e6e6e6"  # the band up to the trivial rule
MARKS = "osD^vPX<>*phdH8"
# Arms without a colour of their own are told apart by their marks.
OTHER = "#999999"


def colour_of(arm: str) -> str:
    """The colour of an arm, the same in every figure."""
    return ARMS[arm].color or OTHER if arm in ARMS else OTHER


def mark_of(arm: str) -> str:
    """The mark of an arm, the same in every figure."""
    names = list(ARMS)
    return MARKS[names.index(arm) % len(MARKS)] if arm in names else "o"


def panels(titles: Sequence[str], height: float, width: float = 2.4) -> list[Axes]:
    """Axes beside each other, one for each title, at most five in a row."""
    sns.set_theme(style="ticks", font_scale=0.9, rc={"axes.titlesize": 10})
    columns = min(5, len(titles))
    rows = -(-len(titles) // columns)
    size = (width * columns, height * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey="row")
    axes = list(grid.flat)
    for unused in axes[len(titles) :]:
        unused.remove()
    for ax, title in zip(axes, titles, strict=False):
        ax.set_title(title, loc="left")
        sns.despine(ax=ax)
    figure.set_layout_engine("constrained")
    return axes[: len(titles)]


def accuracy(
    runs: pd.DataFrame, printed: str = "T9", arm_names: Sequence[str] = ()
) -> Figure:
    """Test accuracy of each arm of one model, ours filled with every run as a dot, the
    paper's hollow; up to the trivial rule the panel is grey. `runs` are rows of
    `fpt.results`, `printed` is a table of the paper, `arm_names` are all arms of both by
    default."""
    theirs = paper(printed)
    columns = [c for c in theirs.columns if form_of(c, runs) in {*runs["task"]}]
    names = [*arm_names] or in_order([*theirs.index, *runs["arm"]], ARMS)
    axes = panels([label_of(column) for column in columns], 0.3 * len(names) + 1.0)
    for ax, column in zip(axes, columns, strict=True):
        rows = runs[runs["task"] == form_of(column, runs)]
        first = rows.iloc[0]
        _, floor = trivial_rule(record_of(first["experiment"], first["key"]).spec.data)
        ax.axvspan(0, floor, color=GREY, lw=0)
        for height, arm in enumerate(reversed(names)):
            of_arm = rows.loc[rows["arm"] == arm, "test_accuracy"]
            style: dict[str, Any] = {
                "color": colour_of(arm),
                "marker": mark_of(arm),
                "ls": "",
            }
            ax.plot(of_arm, [height] * len(of_arm), ms=3, alpha=0.3, mew=0, **style)
            if len(of_arm):
                ax.plot(of_arm.mean(), height, ms=7, **style)
            if arm in theirs.index and pd.notna(theirs.loc[arm, column]):
                hollow = {"mfc": "none", "mec": INK, "ms": 8}
                ax.plot(theirs.loc[arm, column], height, **{**style, **hollow})
        ax.set_yticks(range(len(names)), list(reversed(names)))
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.set_xlim(*limits([*rows["test_accuracy"], *theirs[column].dropna(), floor]))
        ax.set_xlabel("test accuracy, %")
    figure = figure_of(axes[0])
    note = "filled: ours (small: each run); hollow: the paper; grey: up to the trivial rule"
    figure.supxlabel(note, fontsize=8, color=MUTED)
    return figure


def limits(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis in percent that shows all values."""
    least, most = min(values), max(values)
    margin = max(2.0, 0.08 * (most - least))
    return max(0.0, least - margin), min(100 + margin, most + margin)


def curves(runs: pd.DataFrame | Sequence[pd.DataFrame], floor: float = 50.0) -> Figure:
    """Validation accuracy over steps on one task: runs of `fpt.learn`, or rows of
    `fpt.results`, of which each run is a thin line and the mean of each arm a thick one,
    labelled at its end. Up to `floor` percent, a trivial rule, the figure is grey."""
    together = runs if isinstance(runs, pd.DataFrame) else pd.concat(list(runs))
    points = curves_of(together) if "key" in together else together.assign(run=0)
    (ax,) = panels([label_of(str(points["task"].iloc[0]))], 3.2, 5.5)
    ax.axhspan(0, floor, color=GREY, lw=0)
    means = {}
    for arm, of_arm in points.groupby("arm", sort=False):
        for _, run in of_arm.groupby("run"):
            ax.plot(run["step"], run["accuracy"], color=colour_of(arm), lw=0.6, alpha=0.4)
        means[str(arm)] = of_arm.groupby("step", as_index=False)["accuracy"].mean()
        ax.plot("step", "accuracy", data=means[str(arm)], color=colour_of(arm), lw=2)
    ax.set_ylim(min(floor - 5, points["accuracy"].min()), 101)
    labels_at_ends(ax, means, "step", "accuracy")
    ax.set_xlabel("steps")
    ax.set_ylabel("validation accuracy, %")
    return figure_of(ax)


def curves_of(runs: pd.DataFrame) -> pd.DataFrame:
    """The learning curves of rows of `fpt.results`: task, arm, run, step, and accuracy on
    validation in percent. A run that ended at its threshold stays at its last accuracy."""
    rows = []
    for run in runs.itertuples():
        record = record_of(run.experiment, run.key)
        curve = {point["step"]: point["valid_accuracy"] for point in record.curve}
        last = max(curve)
        later = range(int(last) + record.spec.eval_every, record.spec.steps + 1)
        curve |= dict.fromkeys(later[:: record.spec.eval_every], curve[last])
        rows += [(run.task, run.arm, run.key, step, 100 * a) for step, a in curve.items()]
    return pd.DataFrame(rows, columns=["task", "arm", "run", "step", "accuracy"])


def figure_of(ax: Axes) -> Figure:
    """The figure of some axes."""
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


def labels_at_ends(ax: Axes, lines: Mapping[str, pd.DataFrame], x: str, y: str) -> None:
    """Names at the right ends of lines, moved apart where they would overlap."""
    ends = sorted(
        ((float(line[y].iloc[-1]), name) for name, line in lines.items()), reverse=True
    )
    low, high = ax.get_ylim()
    step = 0.07 * (high - low)
    place = float("inf")
    for end, name in sorted(ends, reverse=True):
        place = min(end, place - step)
        right = float(max(line[x].iloc[-1] for line in lines.values()))
        ax.annotate(
            name, (right, place), xytext=(6, 0), textcoords="offset points",
            color=colour_of(name), va="center", fontsize=9, annotation_clip=False,
        )  # fmt: skip


def speed_up(runs: pd.DataFrame, first: str, second: str, measure: Measure) -> Figure:
    """How many times as many steps `second` needs as `first`, by task: ours filled, the
    paper's (Table 6) hollow."""
    theirs = paper("T6").loc["speed-up"]
    (ax,) = panels([f"Speed-up of {first} over {second}"], 2.6, 5.5)
    places: list[tuple[int, str]] = []
    for column in theirs.index:
        rows = runs[
            runs["task"].map(lambda task: tasks().get(task, {}).get("column")) == column
        ]
        logs = [values_of(rows[rows["arm"] == arm], measure) for arm in (first, second)]
        if all(map(len, logs)):
            height = -len(places)
            ratio = math.exp(logs[1].mean() - logs[0].mean())  # of geometric means
            ax.plot(ratio, height, "o", color=colour_of(first), ms=7)
            ax.plot(theirs[column], height, "o", mfc="none", mec=INK, ms=8)
            places.append((height, label_of(column)))
    ax.axvline(1, color=MUTED, lw=0.8)
    ax.set_xscale("log")
    ax.set_xticks([0.5, 1, 2, 5, 10, 20, 40], ["0.5", "1", "2", "5", "10", "20", "40"])
    ax.minorticks_off()
    ax.set_yticks([height for height, _ in places], [name for _, name in places])
    ax.set_xlabel(f"steps of {second} / {first}; filled: ours, hollow: the paper")
    return figure_of(ax)
