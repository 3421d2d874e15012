"""How much attention falls on the needed tokens, as tables and a figure (section 3.5)."""

import math
from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..analysis.attention import chance, relevant
from ..analysis.cells import section_tasks, titles
from ..analysis.masses import HOW, LABELS, How, absent, by_layer, examples, masses
from ..analysis.stats import Interval, mean_interval
from ..backbones import backbone
from ..sections.comparison import Comparison
from ..sections.section import Section
from ..tasks import Task
from ..tasks.bits import BitTask
from .basis import coverage
from .figures import legend
from .style import INK, LOOKS, Look, styled
from .table import Table

# How well the runs do that are looked at.
SOLVED = Comparison(
    "solved",
    "FPT and the frozen random body on bits",
    ("fpt", "random"),
    ("T2",),
    (("fpt", "random"),),
    section="attention",
)
SOURCES = {
    "fpt": LOOKS["fpt"],
    "untrained": Look("#555555", "D", "", ":"),
    "random": LOOKS["random"],
}


def relevant_table(tasks: Mapping[str, Task]) -> Table:
    """What an answer needs, and how much of evenly spread attention falls on it."""
    rows, numbers = {}, []
    for name, task in tasks.items():
        batch = examples(task)
        even = {part: chance(tokens) for part, tokens in relevant(task, batch).items()}
        rows[titles(tasks)[name]] = {
            "tokens": str(task.length),
            "read": str(task.reads),
            "needed beside the token read": "1",
            "chance": f"{share(even['partner'])}%",
            "chance of the token read itself": f"{share(even['own'])}%",
            "examples": str(batch.inputs.shape[1]),
        }
        numbers.append({"task": name, "chance": even["partner"], "chance_own": even["own"]})
    notes = (
        "Chance: the share that falls on the token when attention is spread evenly over the tokens "
        "that a position may see. It is the mean over the positions read.",
    )
    shown = pd.DataFrame.from_dict(rows, orient="index")
    return Table("relevant", "Tokens that an answer needs", shown, pd.DataFrame(numbers), notes)


def mass_table(section: Section, how: How) -> Table:
    """Attention on the needed token by source and layer: mean and interval over seeds."""
    tasks, found = bit_tasks(section), by_layer(masses(section), how)
    layers = range(backbone(section.profile.backbone).layers)
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for source, text in LABELS.items():
        for layer in layers:
            texts = []
            for task in tasks:
                at = (found["source"] == source) & (found["task"] == task)
                rows = found[at & (found["layer"] == layer)]
                if rows.empty:
                    texts.append(absent(section, source, task))
                    continue
                interval = mean_interval(rows["mass"].to_list())
                texts.append(_interval_text(interval))
                numbers.append({"source": source, "task": task, "layer": layer + 1})
                numbers[-1] |= {n: getattr(interval, n) for n in ("mean", "low", "high", "n")}
                numbers[-1] |= {"chance": rows["chance"].iloc[0]}
            shown[f"{text}, layer {layer + 1}"] = texts
    even = [chance(relevant(task, examples(task))["partner"]) for task in tasks.values()]
    shown["chance"] = [share(value) for value in even]
    notes = [
        coverage(section),
        f"Share of attention, %, that the positions read pay to the token they need, {HOW[how]}: "
        "mean ± half-width of the 95% interval over seeds (seeds).",
        "«Before training»: the language body with new input and output nets, as FPT starts.",
    ]
    if how == "best":
        notes.append("The best of several heads lies above chance also where none was sought out.")
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=list(titles(tasks).values()))
    title = f"Attention on the needed token, {HOW[how]}"
    return Table(f"mass_{how}", title, frame, pd.DataFrame(numbers), tuple(notes))


def _interval_text(interval: Interval) -> str:
    if math.isnan(interval.low):
        return f"{share(interval.mean)} ({interval.n})"
    half = share(interval.mean - interval.low, interval.mean)
    return f"{share(interval.mean)} ± {half} ({interval.n})"


def share(fraction: float, scale: float | None = None) -> str:
    """In percent; with a second digit where it, or the `scale` that it belongs to, is small."""
    return f"{100 * fraction:.{1 if (scale or fraction) >= 0.01 else 2}f}"


def bit_tasks(section: Section) -> dict[str, Task]:
    """The tasks of the section of which is known what their answers need."""
    return {name: it for name, it in section_tasks(section).items() if isinstance(it, BitTask)}


def mass_figure(section: Section) -> Figure:
    """Attention on the needed token by layer: each seed, mean and 95% interval, chance."""
    tasks, found = bit_tasks(section), masses(section)
    with styled():
        figure = Figure(figsize=(max(6.4, 0.8 + 2.1 * len(tasks)), 4.6))
        grid = figure.subplots(2, len(tasks), squeeze=False, sharex="col")
        for line, (how, text) in zip(grid, HOW.items(), strict=True):
            table = by_layer(found, how).assign(layer=lambda it: it["layer"] + 1)
            for axes, (name, task) in zip(line, tasks.items(), strict=True):
                level = 100 * chance(relevant(task, examples(task))["partner"])
                _masses(axes, table[table["task"] == name])
                axes.axhline(level, color=INK, lw=1.2, ls=(0, (2, 1)))
                top = max(1.6 * level, 120 * table[table["task"] == name]["mass"].max(), 0)
                axes.set_ylim(0, min(100, top) if math.isfinite(top) else 1.6 * level)
            line[0].set_ylabel(f"{text}, %")
        for axes, name in zip(grid[0], tasks, strict=True):
            there = set(table[table["task"] == name]["source"])
            gone = [source for source in LABELS if source not in there]
            lines = [f"{LABELS[source]}: {absent(section, source, name)}" for source in gone]
            axes.set_title("\n".join([name, *lines]), fontsize=8)
        figure.supxlabel("layer", fontsize=9)
        handles = [
            Line2D(
                [], [], color=it.colour, marker=it.marker, ls=it.line, ms=5, label=LABELS[source]
            )
            for source, it in SOURCES.items()
        ]
        handles.append(Line2D([], [], color=INK, lw=1.2, ls=(0, (2, 1)), label="spread evenly"))
        legend(figure, handles)
    return figure


def _masses(axes: Axes, table: pd.DataFrame) -> None:
    if table.empty:
        axes.set_xticks([])
        return
    table = table.assign(mass=100 * table["mass"])
    order = [source for source in LABELS if source in set(table["source"])]
    common = {"data": table, "x": "layer", "y": "mass", "hue": "source", "hue_order": order}
    shown = [SOURCES[source] for source in order]
    colours = {"palette": [it.colour for it in shown], "legend": False, "ax": axes}
    sns.stripplot(**common, **colours, dodge=True, jitter=False, size=3, alpha=0.6)
    sns.pointplot(
        **common,
        **colours,
        dodge=0.8 * (1 - 1 / len(order)) if len(order) > 1 else False,
        markers=[it.marker for it in shown],
        linestyles=[it.line for it in shown],
        errorbar=_ends,
        markersize=5,
        linewidth=1.1,
    )
    axes.set(xlabel="", ylabel="")


def _ends(values: pd.Series) -> tuple[float, float]:
    interval = mean_interval(values.to_list())
    return interval.low, interval.high
