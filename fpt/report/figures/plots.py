"""The plots of all pages: dots with intervals, learning curves, and examples of tasks.

seaborn draws; means and intervals are those of the tables, so there is no interval below
FEWEST_RUNS runs.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...analysis.compare import reached
from ...analysis.study import Study
from ...analysis.summary import RATIOS, baselines, shown_values, summary
from ...errors import FptError
from ...sections.arms import label
from ...sections.comparison import Comparison
from ...tasks import Task
from ...tasks.bits import BitTask
from ...tasks.images import ImageTask
from .style import (
    AT_BUDGET,
    BASELINE,
    INK,
    MUTED,
    PAPER,
    PERCENT,
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

LETTERS_OF_A_LINE = 24  # under a panel
LETTERS_OF_A_NAME = 32  # beside a row
MOST_BITS = 24  # of a sample
MOST_LETTERS = 250


def dot_plot(study: Study, comparison: Comparison) -> Figure | None:
    """Each arm on each task: its mean, with a 95% interval if there are runs enough for
    one, every run as a dot, the paper's number as a diamond, the best trivial baseline as a
    dotted line. Steps and areas are on a logarithmic axis, and runs that end before the
    threshold are open triangles. Tasks that fewer than half of the arms have are left to
    the table. None if no run is recorded, or none reaches a threshold."""
    results = study.results()
    results = results[results["arm"].isin(comparison.arms)]
    results = results.assign(**{VALUE: shown_values(results)})
    recorded = results[results[VALUE].notna()]
    # A panel of which most rows are empty says nothing that the table does not say better.
    arms_by_task = reached(recorded).groupby("task", sort=False)["arm"].nunique()
    tasks = list(arms_by_task[2 * arms_by_task >= arms_by_task.max()].index)
    if not tasks:
        return None
    runs = recorded[recorded["task"].isin(tasks)]
    arms = [arm for arm in comparison.arms if arm in set(runs["arm"])]
    means = summary(results[results["task"].isin(tasks)])
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 0.6 + 0.3 * len(arms), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            of_task = means[(means["task"] == task) & (means["runs"] > 0)]
            measure = study.measures(task)
            _runs(axes, runs[runs["task"] == task], arms)
            _means(axes, of_task, arms, measure in RATIOS)
            if measure in RATIOS:
                log_ticks(axes, "x")
            else:
                _references(axes, study, comparison, task, arms)
            axes.set_title(study.title(task))
            # Long names of arms leave a panel too narrow for the whole unit in one line.
            axes.set_xlabel(textwrap.fill(UNITS[measure], LETTERS_OF_A_LINE), fontsize=8)
        # In the legend a mean is grey, as it stands for all arms.
        mean = "mean, 95% interval" if means["low"].notna().any() else "mean"
        panels[0].errorbar([], [], xerr=[], fmt="o", color=MUTED, mec=INK, label=mean)
        legend(figure)
    return figure


def _runs(axes: Axes, runs: pd.DataFrame, arms: Sequence[str]) -> None:
    """A row of dots for each arm."""
    # Long names leave little room for the data on a narrow screen.
    names = {arm: textwrap.fill(label(arm), LETTERS_OF_A_NAME) for arm in arms}
    order = list(names.values())
    runs = runs.assign(name=runs["arm"].map(names))
    ended = runs[runs["censored"]]
    sns.stripplot(
        runs[~runs["censored"]],
        x=VALUE,
        y="name",
        order=order,
        color=MUTED,
        size=3,
        jitter=False,  # it would be drawn anew on each call, and the file would change
        label="each run",
        legend=False,
        ax=axes,
    )
    axes.grid(True, axis="y")  # seaborn leaves it out beside names
    axes.set(ylim=(len(arms) - 0.5, -0.5), ylabel="")
    axes.tick_params(axis="y", labelsize=8)
    if len(ended):
        axes.plot(ended[VALUE], ended["name"].map(order.index), **AT_BUDGET)


def _means(
    axes: Axes, means: pd.DataFrame, arms: Sequence[str], are_logarithms: bool
) -> None:
    """Means with their intervals, each above the dots of its arm."""
    look = looks(arms)
    # If all runs of an arm end at the budget, their mean is the budget: no number of steps.
    for row in means[means["censored"] < means["runs"]].itertuples():
        interval = np.array([row.low, row.mean, row.high])
        low, mean, high = np.exp(interval) if are_logarithms else interval
        colour = look[row.arm].colour
        axes.errorbar(
            mean,
            arms.index(row.arm) - 0.25,
            xerr=[[mean - low], [high - mean]],
            fmt=look[row.arm].marker,
            color=colour,
            # Hollow if a run ends at the budget, since then the true mean is higher.
            mfc="white" if row.censored else colour,
            mec=INK,
            elinewidth=2,
        )


def _references(
    axes: Axes, study: Study, comparison: Comparison, task: str, arms: Sequence[str]
) -> None:
    """What accuracies are compared with: the paper's numbers and the best trivial
    baseline."""
    for y, arm in enumerate(arms):
        printed = comparison.printed(arm, task)
        if printed is not None:
            axes.plot(printed, y + 0.25, **PAPER)
    axes.axvline(_best_baseline(study, task), **BASELINE)
    # An interval may reach beyond 100%, an accuracy may not.
    axes.set_xlim(*np.clip(axes.get_xlim(), *PERCENT))
    axes.locator_params("x", nbins=4)


def _best_baseline(study: Study, task: str) -> float:
    """The accuracy of the best trivial baseline in percent; NaN, which is not drawn, if
    none is known."""
    return max(baselines(study.tasks[task]).values(), default=math.nan)


def learning_curves(study: Study, arms: Sequence[str] = ()) -> Figure | None:
    """Validation accuracy against steps: the mean over seeds while all of them train, and
    each seed as a thin line. None if no run is recorded."""
    curves = study.curves()
    if arms and len(curves):
        curves = curves[curves["arm"].isin(arms)]
    if curves.empty:
        return None
    # Several draws of a backbone may share a seed: their mean is the curve of the seed.
    curves = curves.groupby(["task", "arm", "seed", "step"], sort=False, as_index=False)
    curves = curves["valid_accuracy"].mean()
    curves["percent"] = 100 * curves["valid_accuracy"]
    tasks = list(dict.fromkeys(curves["task"]))
    look = looks(list(dict.fromkeys(curves["arm"])))
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 2.4)
        for axes, task in zip(panels, tasks, strict=True):
            for arm, rows in curves[curves["task"] == task].groupby("arm", sort=False):
                _curves(axes, rows, look[arm], label(arm))
            axes.axhline(_best_baseline(study, task), **BASELINE)
            if study.measures(task) == "steps":
                log_ticks(axes, "x")
            axes.set_title(study.title(task))
            axes.set_xlabel("steps", fontsize=8)
            axes.set_ylabel("")
        panels[0].set_ylabel("validation accuracy, %")
        legend(figure)
    return figure


def _curves(axes: Axes, rows: pd.DataFrame, look: Look, text: str) -> None:
    """The curves of one arm: each seed, and their mean."""
    marks: Style = {
        "x": "step",
        "y": "percent",
        "color": look.colour,
        "legend": False,
        "ax": axes,
    }
    sns.lineplot(rows, units="seed", estimator=None, lw=0.5, alpha=0.4, **marks)
    # Runs that reach their threshold early end early. A mean over those that are left would
    # show the slow ones alone, so it ends with the first of them.
    seeds = rows.groupby("step")["seed"].transform("nunique")
    shared = rows[seeds == rows["seed"].nunique()]
    sns.lineplot(shared, errorbar=None, lw=1.8, ls=look.line, label=text, **marks)


def samples(tasks: Mapping[str, Task]) -> Figure:
    """One test example of each task as a person sees it, with its answer. Blue lines
    separate tokens. A task whose data are not here is named without one."""
    with styled():
        figure, panels = panels_of(len(tasks), 2.7, 2.6)
        for axes, (name, task) in zip(panels, tasks.items(), strict=True):
            axes.set_axis_off()
            # Pictures of all shapes begin at one height.
            axes.set_anchor("NW")
            title = f"{name}: {task.length} tokens"
            try:
                title += f"\nanswer: {_sample(axes, task)}"
            except FptError:
                axes.text(
                    0, 0.98, f"Fetch it with\nfpt data {task.name}", va="top", color=MUTED
                )
            axes.set_title(title, fontsize=9)
    return figure


def _sample(axes: Axes, task: Task) -> str:
    """Draw example 0 of the test split, of a bit task one in its midst, as the first is all
    zeros; returns its answer."""
    index = 3 * task.sizes["test"] // 5 if isinstance(task, BitTask) else 0
    example = task.example("test", index)
    answer = example.answer
    if len(answer) > MOST_BITS:
        answer = f"{answer[:MOST_BITS]}..."
    if example.image is None:
        text = textwrap.fill((example.text or "")[:MOST_LETTERS], 36)
        axes.text(0, 0.98, text, va="top", fontsize=7, family="DejaVu Sans Mono")
        return answer
    image = example.image.numpy()[:, :MOST_BITS]
    if isinstance(task, ImageTask):
        sides = (task.pad, task.pad)
        image = np.pad(example.image.numpy(), (sides, sides, (0, 0)))
        if task.patch > 1:
            for edge in range(0, image.shape[0] + 1, task.patch):
                axes.axhline(edge - 0.5, color="#0072B2", lw=0.5)
            for edge in range(0, image.shape[1] + 1, task.patch):
                axes.axvline(edge - 0.5, color="#0072B2", lw=0.5)
    axes.imshow(
        image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1
    )
    return answer
