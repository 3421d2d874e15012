"""Attention maps of a section's runs, as figures (section 3.5)."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from ..analysis.attention import maps, relevant
from ..analysis.cells import section_tasks
from ..analysis.masses import LABELS, absent, examples, looks, masses, model_of
from ..files import FptError
from ..sections.section import Section
from ..tasks import Batch, Task
from .mass_tables import bit_tasks, share
from .panels import Layout
from .style import MUTED, styled

NEEDED = "#D55E00"  # marks of the tokens that an answer needs
MAP_SIZE = 64  # squares of a drawn map in a row, at most
ALL_HEADS = 16  # a body of up to so many heads is shown whole
BEST_HEADS = 8
MARKS = 8  # of the needed tokens in one map, at most: a diagonal is to be seen between them


def one_example(batch: Batch) -> Batch:
    """An example from the midst of a batch; the first of all bit-xor inputs is all zeros."""
    at = 3 * batch.inputs.shape[1] // 5
    return Batch(batch.inputs[:, at : at + 1], batch.targets[:, at : at + 1])


def pooled(maps: Tensor, size: int) -> Tensor:
    """Maps (..., T, T) of groups of equally many tokens, at most `size` groups: what a query of
    one group takes from all keys of another. (..., S, S), S the largest divisor of T that fits."""
    length = maps.shape[-1]
    groups = max(count for count in range(1, size + 1) if length % count == 0)
    shape = (*maps.shape[:-2], groups, length // groups, groups, length // groups)
    return maps.reshape(shape).mean(-3).sum(-1)


def first_layer_figure(section: Section) -> Figure:
    """Maps of the first layer, mean over heads, of one example and seed, as in the paper's demo: a
    column per task, a row per source."""
    tasks = bit_tasks(section)
    with styled():
        figure = Figure(figsize=(max(6.4, 0.6 + 2.1 * len(tasks)), 0.7 + 2.2 * len(LABELS)))
        grid = figure.subplots(len(LABELS), len(tasks), squeeze=False)
        for column, (name, task) in zip(grid.T, tasks.items(), strict=True):
            drawn = {source: first_map(section, source, name) for source in LABELS}
            top = _darkest([it for it in drawn.values() if it is not None], task)
            for axes, (source, found) in zip(column, drawn.items(), strict=True):
                _draw(axes, found, task, top, absent(section, source, name))
            column[0].set_title(f"{name}\ndarkest: {share(top)}%", fontsize=9)
        for axes, text in zip(grid[:, 0], LABELS.values(), strict=True):
            axes.set_ylabel(text, fontsize=9)
        _map_labels(figure, "maps of one task share a scale")
    return figure


def first_map(section: Section, source: str, task: str) -> np.ndarray | None:
    found = all_maps(section, source, task)
    return None if found is None else found[0].mean(0)


def all_maps(section: Section, source: str, task: str) -> np.ndarray | None:
    """Maps (layers, heads, S, S) of one example by the first seed that can be looked at, pooled to
    at most MAP_SIZE groups of tokens; None where there is none."""
    for look in looks(section):
        if (look.source, look.run.task) != (source, task) or not look.known:
            continue
        try:
            model = model_of(look.run.spec, look.record, section.store)
        except FptError:
            continue
        batch = one_example(examples(model.task))
        return maps(model, batch, lambda one: pooled(one[0], MAP_SIZE)).cpu().numpy()
    return None


def _darkest(drawn: Sequence[np.ndarray], task: Task) -> float:
    """The top of a common colour scale: the largest share in the rows that are read."""
    return max((float(it[..., _read(it, task) :, :].max()) for it in drawn), default=1.0)


def _read(drawn: np.ndarray, task: Task) -> int:
    """The first row that is read, wholly or in part."""
    return (task.length - task.reads) * drawn.shape[-1] // task.length


def _draw(axes: Axes, found: np.ndarray | None, task: Task, top: float, why: str) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    if found is None:
        axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=MUTED)
        axes.set_box_aspect(1)
        return
    size = len(found)
    axes.imshow(
        found, cmap="Blues", norm=Normalize(0, top), extent=(0, size, size, 0),
        interpolation="none",  # an SVG then holds a pixel of each square
    )  # fmt: skip
    axes.spines[:].set_visible(True)
    tokens = relevant(task, one_example(examples(task)))["partner"][0].cpu()
    rows, columns = np.nonzero(tokens.numpy())
    scale = size / task.length
    places = {
        (math.floor(column * scale), math.floor((row + task.length - task.reads) * scale))
        for row, column in zip(rows, columns, strict=True)
    }
    shown = sorted(places)[:: -(-len(places) // MARKS)]
    x, y = (np.array(it) + 0.5 for it in zip(*shown, strict=True))
    points = min(8.0, max(3.0, 110 / size))  # leaves what it marks to be seen
    axes.plot(x, y, ls="", marker="s", mfc="none", mec=NEEDED, mew=0.8, ms=points)
    axes.axhline(_read(found, task), color=MUTED, lw=0.7, ls=":")


def _map_labels(figure: Figure, scale: str) -> None:
    text = (
        f"from left to right: tokens attended to; from top to bottom: tokens that attend\n{scale}"
    )
    figure.supxlabel(text, fontsize=8)
    needed = Line2D([], [], ls="", marker="s", mfc="none", mec=NEEDED, ms=6)
    below = Line2D([], [], color=MUTED, lw=0.9, ls=":")
    figure.legend(
        [needed, below], ["needed by the answer", "below: positions that are read"],
        loc="outside upper left", ncols=2,
    )  # fmt: skip


def heads_figure(section: Section, task: str, source: str = "fpt") -> Figure:
    """Maps of one example over layers and heads: all of a small body; of a larger one the mean
    over heads of each layer, and the heads that pay most attention to the needed tokens."""
    definition = section_tasks(section)[task]
    found = all_maps(section, source, task)
    if found is None:
        panels: list[tuple[str, np.ndarray | None]] = [("", None)]
        columns = 1
    else:
        panels, columns = _panels(section, source, task, found)
    layout = Layout(len(panels), columns)
    with styled():
        figure = Figure(figsize=(max(6.4, 0.4 + 1.75 * layout.columns), 0.8 + 2.0 * layout.rows))
        for axes, (text, one) in zip(layout.on(figure), panels, strict=True):
            top = 1.0 if one is None else _darkest([one], definition)
            _draw(axes, one, definition, top, absent(section, source, task))
            axes.set_title(text, fontsize=8)
        _map_labels(figure, "every map has a scale of its own")
    return figure


def _panels(
    section: Section, source: str, task: str, found: np.ndarray
) -> tuple[list[tuple[str, np.ndarray | None]], int]:
    """Titles and maps, and how many stand side by side. A title ends with the share of attention
    on the needed tokens, of the same seed and all examples looked at."""
    table = masses(section)
    mine = table[(table["source"] == source) & (table["task"] == task)]
    mine = mine[(mine["part"] == "partner") & (mine["seed"] == mine["seed"].iloc[0])]
    mass = mine.pivot(index="layer", columns="head", values="mass").to_numpy()
    layers, heads = mass.shape

    def panel(layer: int, head: int) -> tuple[str, np.ndarray | None]:
        text = f"layer {layer + 1}, head {head + 1}: {share(mass[layer, head])}%"
        return text, found[layer, head]

    if layers * heads <= ALL_HEADS:
        return [panel(layer, head) for layer in range(layers) for head in range(heads)], heads
    means: list[tuple[str, np.ndarray | None]] = [
        (f"layer {layer + 1}, mean: {share(mass[layer].mean())}%", found[layer].mean(0))
        for layer in range(layers)
    ]
    order = np.argsort(-mass, axis=None, kind="stable")[:BEST_HEADS]
    return means + [panel(*divmod(int(at), heads)) for at in order], 4
