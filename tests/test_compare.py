"""What pages may say of two arms: on shared seeds, with intervals of five runs or more, and nothing
where nothing was learned."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import fill, make_study
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from fpt import config
from fpt.analysis.compare import (
    Contrast,
    best_baseline,
    contrasts,
    left_out,
    on_shared_seeds,
)
from fpt.analysis.effects import difference
from fpt.analysis.study import Study, section
from fpt.analysis.summary import FEWEST_RUNS, summary
from fpt.config import Run
from fpt.report import conclude, dot_plot, effects, line_plot, results_table, with_panels
from fpt.report.style import AT_BUDGET, STEPS
from fpt.sections.comparison import Comparison

PAIR = ("fpt", "random")
BOTH = Comparison("results", "Both", PAIR, (PAIR,))
Make = Callable[..., Study]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A study of two arms on tasks with the given blocks, whose runs have given accuracies; each
    curve rises in a line to its accuracy at step 120, the budget."""

    def made(accuracy: Callable[[Run], float], seeds: int = 6, **tasks: dict[str, object]) -> Study:
        study = make_study(tmp_path, monkeypatch, arms=PAIR, tasks=tasks, steps=120)
        runs = [
            Run(arm, task, config.make_spec(study.profile, arm, task, seed))
            for task in tasks
            for arm in PAIR
            for seed in range(seeds if arm == "fpt" else min(seeds, 3))
        ]
        study = Study(study.name, study.profile, tuple(runs))
        fill(study, accuracy)
        return study

    return made


def only(study: Study) -> Contrast:
    (contrast,) = contrasts(study, [PAIR], study.results())
    return contrast


def uneven(run: Run) -> float:
    """FPT is worse on the seeds that the random arm has."""
    level = 0.95 if run.arm == "random" else 0.90 if run.spec.seed < 3 else 0.99
    return level + 0.001 * run.spec.seed


def test_arms_are_compared_on_the_seeds_that_both_have(make: Make) -> None:
    study = make(uneven, **{"bit-memory": {}})
    contrast = only(study)
    assert contrast.effect.estimate == pytest.approx(-5.0)
    assert (contrast.seeds, contrast.partial) == (3, True)
    assert "3 shared seeds" in str(results_table(study, BOTH))
    assert "-5.0 points of accuracy" in repr(effects(study, PAIR))


def test_arms_without_a_common_seed_are_compared_as_they_are() -> None:
    first = pd.Series([1.0, 2.0, 3.0, 4.0, 5.5], range(5))
    second = pd.Series([3.0, 4.0, 5.0, 6.0, 8.0], range(5, 10))
    found, expected = on_shared_seeds(first, second), difference(list(first), list(second))
    assert found == expected
    same = on_shared_seeds(first, second.set_axis(range(5)))
    assert same == expected
    reordered = on_shared_seeds(first[::-1], second.set_axis(range(5)))
    assert reordered.estimate == pytest.approx(expected.estimate)


@pytest.mark.parametrize("count", range(1, 8))
def test_fewer_than_five_runs_have_no_interval(make: Make, count: int) -> None:
    values = pd.Series(np.linspace(1, 2, count))
    effect = on_shared_seeds(values, 0.5 * values)
    assert math.isnan(effect.low) == math.isnan(effect.p) == (count < FEWEST_RUNS)
    assert effect.estimate == pytest.approx(0.5 * values.mean())
    study = make(uneven, count, mnist={})
    table = summary(study.results()).set_index("arm")
    assert math.isnan(table.loc["fpt", "low"]) == (count < FEWEST_RUNS)
    assert math.isnan(table.loc["random", "low"])


def test_where_neither_arm_learned_there_is_no_ratio_and_no_difference(make: Make) -> None:
    study = make(lambda run: 0.6, **{"bit-memory": {"threshold": 0.9}})  # the budget ends first
    assert only(study).refused == "neither learned"
    said = f"{results_table(study, BOTH)} {effects(study, PAIR)}"
    assert said.count("neither learned") == 2
    assert "×" not in said.partition("Geometric")[0]
    chance = make(lambda run: 0.5, **{"bit-xor": {}})
    assert only(chance).refused == "neither learned"
    assert "+0.0" not in f"{results_table(chance, BOTH)} {effects(chance, PAIR)}"


def test_arms_below_the_linear_classifier_are_not_compared(make: Make) -> None:
    study = make(lambda run: uneven(run) - 0.4, digits={})
    baseline = best_baseline(study.tasks["digits"])
    assert baseline is not None
    assert baseline.name == "linear classifier"
    assert str(baseline) in only(study).refused
    table = results_table(study, BOTH)
    assert (table.texts.iloc[-1] == "not compared ↓").all()
    assert table.numbers["estimate"].isna().all()
    assert "linear classifier" in repr(effects(study, PAIR))
    one = make(lambda run: 0.9 if run.arm == "fpt" else 0.4, digits={})
    assert only(one).effect.estimate == pytest.approx(50)
    assert "linear classifier" in repr(effects(one, PAIR))


def test_a_threshold_below_the_linear_classifier_is_named(make: Make) -> None:
    low = make(uneven, digits={"threshold": 0.3})
    assert "the threshold is at or below the baseline linear classifier" in repr(effects(low, PAIR))
    assert "30% (at or below linear classifier" in results_table(low, BOTH).caption
    high = make(uneven, digits={"threshold": 0.8})
    assert "linear classifier" not in repr(effects(high, PAIR))


def test_ratios_of_censored_runs_are_bounds(make: Make) -> None:
    """A run that does not get to the threshold counts with its budget, which is too few steps."""
    for slow, sign in (("random", "≤"), ("fpt", "≥")):
        study = make(
            lambda run, slow=slow: 0.6 if run.arm == slow else 0.99,
            **{"bit-memory": {"threshold": 0.8}},
        )
        assert only(study).bound == sign
        assert f"{sign} ×" in str(results_table(study, BOTH))


def test_nothing_is_compared_until_every_run_is_there(make: Make) -> None:
    study = make(uneven, mnist={})
    study.store.path(study.runs[0].key).unlink()
    assert math.isnan(only(study).effect.estimate)
    assert "once all of their runs are recorded" in repr(effects(study, PAIR))


def intervals(axes: Axes) -> list[Any]:
    """The intervals that are drawn: vertical lines between two numbers."""
    bars = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
    return [line for bar in bars for line in bar.get_segments() if len(line)]


def test_a_curve_needs_two_points_and_runs_that_learned() -> None:
    table = pd.DataFrame({"x": [1, 1, 1], "y": [1.0, 2.0, 4.0], "censored": [False] * 3})
    assert line_plot(table, "x", "y") is None
    several = table.assign(x=[1, 2, 3])
    assert line_plot(several, "x", "y") is not None
    assert line_plot(several.assign(censored=True), "x", "y") is None
    assert line_plot(table[:0], "x", "y") is None


def test_few_runs_are_dots_and_steps_have_geometric_means() -> None:
    table = pd.DataFrame({"x": [1, 1, 2, 2], "y": [100.0, 400.0, 50.0, 50.0]})
    table = table.assign(panel=f"bit-xor: {STEPS}", censored=[False, True, False, False])
    figure = line_plot(table, "x", "y", panel="panel")
    assert figure is not None
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert list(axes.lines[0].get_ydata()) == pytest.approx([200.0, 50.0])
    assert not intervals(axes)  # of two runs
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert AT_BUDGET["label"] in labels
    many = pd.DataFrame({"x": [1] * 5 + [2] * 5, "y": np.arange(10.0)})
    assert len(intervals(line_plot(many, "x", "y").axes[0])) == 2  # type: ignore[union-attr]


def test_a_figure_of_arms_shows_runs_that_end_at_the_budget_as_such(make: Make) -> None:
    tasks = {"bit-memory": {"threshold": 0.8}}
    figure = dot_plot(make(lambda run: 0.6 if run.arm == "random" else 0.99, **tasks), BOTH)
    assert figure is not None
    markers = [line.get_marker() for line in figure.axes[0].lines]
    assert markers.count(AT_BUDGET["marker"]) == 1
    assert markers.count("o") + markers.count("s") - 1 == 1  # no mean of runs that all end there
    assert dot_plot(make(lambda run: 0.6, **tasks), BOTH) is None


def test_panels_name_the_unit_and_values_are_never_logarithms(make: Make) -> None:
    study = make(lambda run: 0.99, **{"bit-memory": {"threshold": 0.8}, "mnist": {}})
    shown = with_panels(study, study.results()).groupby("panel")["value"].first()
    assert shown.to_dict() == {
        "bit-memory: steps to the threshold": pytest.approx(100),
        "mnist: test accuracy, %": pytest.approx(99),
    }


def test_a_section_that_a_profile_empties_says_so(make: Make) -> None:
    study = make(uneven, mnist={})
    present, declared, lacking = left_out(study)
    assert (present, declared) == (1, 5)
    assert set(lacking) == {"full", "full-pretrained", "lstm", "lstm-released"}
    assert "plans 1 of the 5 comparisons" in conclude(study).text


def test_uncorrected_intervals_are_said_to_be_so(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make(
        lambda run: 0.9 + 0.001 * run.spec.seed + 0.01 * (run.arm == "fpt"), **{"bit-memory": {}}
    )
    monkeypatch.setattr("fpt.report.show._verdicts", lambda study: [])
    assert conclude(study).text.count("corrected") == 0  # the random arm has three runs
    runs = [run for run in study.runs if run.arm == "fpt"]
    more = [
        Run("random", run.task, config.make_spec(study.profile, "random", run.task, run.spec.seed))
        for run in runs
    ]
    wide = Study(study.name, study.profile, (*runs, *more))
    fill(wide, lambda run: 0.9 + 0.001 * run.spec.seed + 0.01 * (run.arm == "fpt"))
    assert conclude(wide).text.count("corrected") == 1


def test_one_setting_has_the_same_seeds_on_every_page_of_the_lab() -> None:
    """Else three runs of one page contradict twelve of another."""
    profile = config.load("lab")
    seeds: dict[tuple[str, ...], dict[str, set[int]]] = {}
    for name in profile.sections:
        for run in section(name, "lab").runs:
            if not run.search:
                lr = str(run.spec.lr)
                of_page = seeds.setdefault((run.arm, run.task, lr), {})
                of_page.setdefault(name, set()).add(run.spec.seed)
    for setting, pages in seeds.items():
        assert len({frozenset(each) for each in pages.values()}) == 1, (setting, pages)


def test_a_run_of_two_blocks_is_one_run_and_kept_if_one_keeps_it() -> None:
    runs = section("attention", "lab").runs
    assert len(runs) == len({(run.arm, run.key) for run in runs}) == 48
    assert sum(run.keep for run in runs) == 12
