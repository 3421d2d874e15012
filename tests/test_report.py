"""Tables, figures and sentences of made-up records."""

import base64
import io
import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import ARMS, fill, make_record, make_study, spread, tree
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image
from test_compare import intervals

from fpt.report import (
    dot_plot,
    learning_curves,
    line_plot,
    readable,
    results_table,
    show_figure,
    show_table,
)
from fpt.report.figures.style import AREA, INK, UNITS, log_ticks, png
from fpt.report.results import cell_text
from fpt.report.show import differences_in_words
from fpt.report.table import effect_text
from fpt.sections import declared

TABLE = declared("transfer").comparisons[0]
FPT = "FPT (frozen, language)"
RANDOM = "Frozen random"


@pytest.fixture
def study(tmp_path):
    """Three seeds; accuracies on two tasks, steps on a third."""
    tasks = {"bit-xor": {"threshold": 0.5}, "mnist": {}, "digits": {}}
    study = make_study(tmp_path, tasks=tasks)
    fill(study, spread)
    return study


@pytest.fixture
def five(tmp_path):
    """Five seeds, which are enough for intervals."""
    study = make_study(tmp_path, seeds=5)
    fill(study, spread)
    return study


def test_incomplete_and_diverged_runs_are_counted(study):
    run = next(run for run in study.runs if (run.task, run.arm) == ("digits", "random"))
    study.store.write(make_record(run, 0.5, "diverged"))
    texts = results_table(study, TABLE).texts["digits"]
    assert texts[RANDOM] == "80.3 (2 of 3, 1 diverged)"
    assert texts[f"{FPT} − {RANDOM}"] == "–"


def test_the_guide_has_cells_as_they_are_printed():
    guide = (Path(__file__).parents[1] / "docs" / "reading-a-report.md").read_text()
    ratio = dict(zip(("estimate", "low", "high"), np.log([0.55, 0.4, 0.76]), strict=True))
    points = {"estimate": 3.2, "low": 1.0, "high": 5.4}
    differences = [effect_text(points, is_ratio=False), effect_text(ratio, is_ratio=True)]
    counts = {"diverged": 0, "censored": 0}
    percent = {"mean": 97.1, "low": 96.3, "high": 97.9, "runs": 5, "expected": 5, **counts}
    steps = np.log([412, 350, 480])
    of_steps = dict(zip(("mean", "low", "high"), steps, strict=True))
    of_steps |= {"runs": 12, "expected": 12, **counts}
    arms = [cell_text(percent, "accuracy"), cell_text(of_steps, "steps")]
    for text in differences + arms:
        assert f"`{text}`" in guide


FEW = "There is no interval of fewer than 5 runs."


def test_few_runs_are_blamed_only_where_they_are_few(study, five):
    """Five seeds have intervals; a run that diverged takes one away, for another reason."""
    assert FEW in results_table(study, TABLE).caption
    assert FEW in "\n".join(differences_in_words(study))
    assert FEW not in results_table(five, TABLE).caption
    run = next(run for run in five.runs if (run.task, run.arm) == ("digits", "random"))
    five.store.write(make_record(run, 0.5, "diverged"))
    table = results_table(five, TABLE)
    assert table.texts.loc[RANDOM, "digits"].endswith("(4 of 5, 1 diverged)")
    assert FEW in table.caption  # four are few
    fill(five, lambda run: 0.5)  # of all arms on all tasks: nothing is learned
    assert FEW not in "\n".join(differences_in_words(five))


def test_enough_runs_of_which_one_diverged_are_not_few(tmp_path):
    six = make_study(tmp_path, seeds=6)
    fill(six, spread)
    six.store.write(make_record(six.runs[0], 0.5, "diverged"))
    table = results_table(six, TABLE)
    assert "(5 of 6, 1 diverged)" in table.texts.to_string()
    assert FEW not in table.caption


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_dots_are_where_the_numbers_are(study):
    figure = dot_plot(study, TABLE)
    assert titles(figure) == ["bit-xor (fitting)", "mnist", "digits"]
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "linear", "linear"]
    drawn = {round(float(x), 1) for line in figure.axes[1].lines for x in line.get_xdata()}
    assert {95.2, 80.2, 98.0} <= drawn  # two arms of ours, and the paper's FPT


def test_a_mean_over_a_run_that_ends_at_its_budget_is_hollow(tmp_path):
    study = make_study(tmp_path, tasks={"bit-xor": {"threshold": 0.5}}, seeds=5)
    fill(study, lambda run: 0.3 if (run.arm, run.spec.seed) == ("random", 0) else 0.9)
    (axes,) = dot_plot(study, TABLE).axes
    faces = [line.get_markerfacecolor() for line in axes.lines if line.get_markeredgecolor() == INK]
    assert faces.count("white") == 1


def test_there_is_an_interval_of_five_runs_once_every_run_is_there(five):
    texts = results_table(five, TABLE).texts["digits"]
    assert texts[FPT] == "95.4 ± 0.4 (5)"
    assert texts[f"{FPT} − {RANDOM}"] == "+15.0 [+14.5, +15.5]"
    assert len(intervals(dot_plot(five, TABLE).axes[2])) == 4
    run = next(run for run in five.runs if (run.task, run.arm) == ("digits", "random"))
    five.store.path(run.key).unlink()
    assert len(intervals(dot_plot(five, TABLE).axes[2])) == 3


def test_a_panel_is_at_least_half_full(tmp_path):
    study = make_study(tmp_path, arms=[*ARMS, "lstm-released"])
    fill(study, lambda run: 0.5 if run.task == "mnist" or run.arm == "fpt" else None)
    assert titles(dot_plot(study, TABLE)) == ["mnist"]  # the others have one arm of five


def test_units_under_two_panels_do_not_run_into_each_other(tmp_path, monkeypatch):
    """Beside the longest names of arms, two panels are as narrow as they get."""
    monkeypatch.setitem(UNITS, "accuracy", AREA)
    comparisons = declared("initialization").comparisons
    ladder = next(comparison for comparison in comparisons if "fpt@6" in comparison.arms)
    study = make_study(tmp_path, tasks={"mnist": {}, "digits": {}}, arms=ladder.arms)
    fill(study, lambda run: 0.5)
    figure = dot_plot(study, ladder)
    png(figure)  # lays it out
    left, right = (axes.xaxis.label.get_window_extent() for axes in figure.axes)
    assert left.x1 < right.x0


def test_without_records_there_is_no_figure(tmp_path):
    empty = make_study(tmp_path)
    assert dot_plot(empty, TABLE) is None
    assert learning_curves(empty) is None
    assert repr(show_figure(empty, "results", None, "", "Nothing yet.")) == "Nothing yet."
    assert results_table(empty, TABLE).texts.loc[RANDOM, "digits"] == "– (0 of 3)"


def test_a_report_is_written_only_if_it_is_rendered(study, tmp_path, monkeypatch):
    table = results_table(study, TABLE)
    staged = tmp_path / "staged"
    show_table(study, table)
    picture = show_figure(study, "results", Figure((2, 1)), "an 'alt' text")
    assert not staged.exists()
    monkeypatch.setenv("FPT_STAGED", str(staged))
    show_table(study, table)
    linked = show_figure(study, "results", Figure((2, 1)), "an 'alt' text")
    files = tree(staged)
    png = files.pop("figures/transfer/results.png")
    assert Image.open(io.BytesIO(png)).size == (220, 110)
    assert picture.source.endswith(base64.b64encode(png).decode())
    assert linked.source == "../figures/transfer/results.png"
    assert 'alt="an &#x27;alt&#x27; text"' in picture._repr_html_()
    assert files == {
        "tables/transfer/results.csv": table.csv().encode(),
        "tables/transfer/results.md": table.markdown().encode(),
    }


def test_a_small_frame_is_shown_in_words(study):
    index = pd.MultiIndex.from_tuples([("mnist", "fpt"), ("digits", "new")], names=["task", "arm"])
    frame = pd.DataFrame({"random": [1.26, math.nan], "tokens": [2e6, 3.0]}, index)
    shown = readable(study, frame)
    assert list(shown.columns) == [RANDOM, "tokens"]
    assert [*shown.index] == [("mnist", FPT), ("digits", "new")]
    assert shown.to_numpy().tolist() == [["1.3", "2,000,000"], ["–", "3"]]
    assert [*shown.index.names] == [None, None]
    assert frame.index.names == ["task", "arm"]


def test_a_difference_of_nothing_has_no_sign_of_its_own():
    numbers = {"estimate": -0.01, "low": -0.04, "high": 0.04}
    assert effect_text(numbers, is_ratio=False) == "+0.0 [+0.0, +0.0]"


def test_names_of_near_points_cover_neither_points_nor_names():
    # One is far away, and the others are near each other on the axis too.
    near = pd.DataFrame({"x": [1.0, 1.001, 1.002, 1.003, 1.4, 9.0], "y": [*[2.0] * 4, 2.3, 9.0]})
    figure = line_plot(near, "x", "y", labels=["aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff"])
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(boxes) == 6
    for box, other in itertools.combinations(boxes, 2):
        assert not box.overlaps(other)
    marks = [Bbox.from_bounds(x - 2, y - 2, 4, 4) for x, y in axes.transData.transform(near)]
    assert not any(box.overlaps(mark) for box in boxes for mark in marks)


@pytest.mark.parametrize("span", [(1.66, 2.03), (0.012, 0.3), (0.9, 14.0), (10.0, 3e5)])
def test_a_logarithmic_axis_has_a_few_plain_numbers_whatever_it_spans(span):
    axes = Figure().subplots()
    axes.set_xlim(*span)
    log_ticks(axes, "x")
    ticks = [tick for tick in axes.get_xticks() if span[0] <= tick <= span[1]]
    assert 2 < len(ticks) < 7
    labels = [axes.xaxis.get_major_formatter()(tick, None) for tick in ticks]
    assert [float(label) for label in labels] == pytest.approx(ticks)
