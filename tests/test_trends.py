"""Accuracy against a number: every point looks like its arm, in every figure of this kind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from profiled import fill, section_of

from fpt.analysis.cells import Cell, section_arms
from fpt.report import corpora, depth, overfitting, sizes
from fpt.report.style import LOOKS
from fpt.report.trends import Series, trends
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

pytestmark = pytest.mark.usefixtures("matrix")

DEPTHS = [COMPARISONS["depth_layernorm"], COMPARISONS["depth_output"]]
DRAWN: dict[str, Callable[[Section], Figure]] = {
    "finetuning": lambda section: depth.depth_figure(section.part(["listops"]), DEPTHS),
    "scaling": sizes.sizes_figure,
    "overfitting": overfitting.sizes_figure,
    "synthetic_pretraining": corpora.tokens_figure,
}
Found = list[tuple[object, ...]]


def points(series: Series) -> list[tuple[Cell, float]]:
    known = [cell for _, cell in series.ours if cell]
    return [(cell, cell.interval.mean) for cell in known if cell.interval]


def expected(panel: list[Series]) -> tuple[Found, Found, Found]:
    """Markers, intervals and seeds as they are to look, by height."""
    marks: Found = []
    intervals: Found = []
    seeds: Found = []
    for cell, mean in (point for series in panel for point in points(series)):
        look, ends = LOOKS[cell.arm], cell.interval
        marks.append((round(100 * mean, 3), look.marker, look.face, look.edge, "full"))
        intervals.append((round(100 * ends.low, 3), round(100 * ends.high, 3), look.colour))
        seeds += [(round(100 * value, 3), look.colour.lower()) for value in cell.values]
    for _, arm, value in (point for series in panel for point in series.paper):
        look = LOOKS[arm]
        marks.append((round(value, 3), look.marker, look.colour, look.colour, "left"))
    return marks, intervals, seeds


def drawn(axes: Axes) -> tuple[Found, Found, Found]:
    def height(line: Line2D, at: int = 0) -> float:
        return round(float(line.get_ydata()[at]), 3)

    lines = axes.get_lines()
    marks: Found = [
        (
            height(it), it.get_marker(), it.get_markerfacecolor(), it.get_markeredgecolor(),
            it.get_fillstyle(),
        )
        for it in lines
        if it.get_marker() != "None"
    ]  # fmt: skip
    upright = [it for it in lines if len(it.get_xdata()) == 2 and np.ptp(it.get_xdata()) == 0]
    intervals: Found = [(height(it), height(it, 1), it.get_color()) for it in upright]
    seeds: Found = []
    for strip in axes.collections:
        heights = np.asarray(strip.get_offsets())[:, 1]
        colours = map(to_hex, strip.get_edgecolors())
        seeds += [(round(float(y), 3), c) for y, c in zip(heights, colours, strict=True)]
    return marks, intervals, seeds


@pytest.mark.parametrize("profile", ["lab", "paper"])
@pytest.mark.parametrize("name", DRAWN)
def test_every_point_looks_like_its_arm(
    name: str, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of(name, profile, tmp_path, monkeypatch)
    arms = section_arms(section)
    fill(section, {arm: 0.3 + 0.5 * index / len(arms) for index, arm in enumerate(arms)})
    given: dict[str, list[Series]] = {}

    def watched(panels: dict[str, list[Series]], *others: object) -> Figure:
        given.update(panels)
        return trends(panels, *others)

    for module in (depth, sizes, overfitting, corpora):
        monkeypatch.setattr(module, "trends", watched)
    figure = DRAWN[name](section)
    assert sum(len(points(series)) for panel in given.values() for series in panel) > 2
    for axes, panel in zip(figure.axes, given.values(), strict=True):
        for mine, theirs in zip(drawn(axes), expected(panel), strict=True):
            assert sorted(map(repr, mine)) == sorted(map(repr, theirs))
