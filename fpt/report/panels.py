"""What figures of several panels share: their rows, named rows within them, the trivial floor."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .style import GRID, INK

DASHED: tuple[float, tuple[float, ...]] = (0, (2, 1))


@dataclass(frozen=True)
class Layout:
    """`count` panels in rows of at most `most`."""

    count: int
    most: int

    @property
    def columns(self) -> int:
        return min(self.most, self.count)

    @property
    def rows(self) -> int:
        return -(-self.count // self.columns)

    def on(self, figure: Figure, *, sharey: bool = False) -> list[Axes]:
        """The panels, row by row; what is left of the last row stays empty."""
        grid = figure.subplots(self.rows, self.columns, squeeze=False, sharey=sharey)
        panels = list(grid.flat)
        for axes in panels[self.count :]:
            axes.remove()
        return panels[: self.count]

    def leftmost(self, panels: Sequence[Axes]) -> Sequence[Axes]:
        """The first panel of each row, which names the vertical axis."""
        return panels[:: self.columns]


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Row `y` is at the height `y`, the first on top, with a thin border between two."""
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    for border in range(1, len(names)):
        axes.axhline(border - 0.5, color=GRID, lw=0.6)


def draw_floor(axes: Axes, floor: float | None, *, vertical: bool = False) -> None:
    """The best trivial floor of a task, a share of 1, where one is known."""
    if floor is not None:
        line = axes.axvline if vertical else axes.axhline
        line(100 * floor, color=INK, lw=1.0, ls=DASHED)


def floor_handle() -> Line2D:
    """What `draw_floor` draws, for a legend."""
    return Line2D([], [], color=INK, lw=1.0, ls=DASHED, label="best trivial floor")
