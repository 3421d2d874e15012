"""Panels in rows, and what each of them shows alike."""

import pytest
from matplotlib.figure import Figure

from fpt.report.panels import Layout, draw_floor, floor_handle, name_rows


@pytest.mark.parametrize(
    ("count", "most", "columns", "rows"), [(1, 3, 1, 1), (3, 3, 3, 1), (4, 3, 3, 2), (7, 2, 2, 4)]
)
def test_panels_stand_in_rows_and_none_is_left_over(
    count: int, most: int, columns: int, rows: int
) -> None:
    layout, figure = Layout(count, most), Figure()
    panels = layout.on(figure)
    assert (layout.columns, layout.rows) == (columns, rows)
    assert figure.axes == panels
    assert len(panels) == count
    places = [panel.get_subplotspec() for panel in panels]
    assert [place.rowspan.start for place in places if place] == [i // most for i in range(count)]
    assert list(layout.leftmost(panels)) == panels[::columns]


def test_the_first_row_is_on_top() -> None:
    axes = Figure().subplots()
    name_rows(axes, ["first", "second", "third"])
    low, high = axes.get_ylim()
    assert low > high
    assert [text.get_text() for text in axes.get_yticklabels()][0] == "first"
    assert [line.get_ydata()[0] for line in axes.lines] == [0.5, 1.5]


def test_a_floor_is_drawn_in_percent_as_the_legend_shows_it() -> None:
    axes = Figure().subplots()
    draw_floor(axes, None)
    assert not axes.lines
    draw_floor(axes, 0.75)
    draw_floor(axes, 0.75, vertical=True)
    across, up = axes.lines
    assert list(across.get_ydata()) == [75, 75]
    assert list(up.get_xdata()) == [75, 75]
    shown = floor_handle()
    assert across.get_linestyle() == shown.get_linestyle()
    assert across.get_color() == shown.get_color()
