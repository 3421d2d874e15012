"""What pages may say of two arms: on shared seeds, with intervals of five runs or more, and nothing
where nothing was learned."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made import fill, make_study
from matplotlib.collections import LineCollection

from fpt.analysis.compare import best_baseline, contrasts, on_shared_seeds
from fpt.analysis.effects import difference
from fpt.analysis.study import section
from fpt.analysis.summary import FEWEST_RUNS
from fpt.report import effects, line_plot, results_table
from fpt.report.figures.style import STEPS
from fpt.sections.comparison import Comparison

PAIR = ("fpt", "random")
BOTH = Comparison("results", "Both", PAIR, (PAIR,))


@pytest.fixture
def make(tmp_path):
    """A study of two arms on a task with a threshold (0: none), whose runs have given accuracies;
    each curve rises in a line to its accuracy at step 120, the budget."""

    def made(
        accuracy,
        task="mnist",
        threshold=0.0,
        seeds=6,
        of_random=3,
    ):
        tasks = {task: {"threshold": threshold} if threshold else {}}
        study = make_study(tmp_path, arms=PAIR, tasks=tasks, seeds=seeds, steps=120)
        runs = [run for run in study.runs if run.arm == "fpt" or run.spec.seed < of_random]
        study = replace(study, runs=tuple(runs))
        fill(study, accuracy)
        return study

    return made


def only(study):
    (contrast,) = contrasts(study, [PAIR], study.results())
    return contrast


def in_all_places(study):
    """The table of both arms, and the sentence on them."""
    return f"{results_table(study, BOTH)} {effects(study, PAIR)}"


def uneven(run):
    """FPT is worse on the seeds that the random arm has."""
    level = 0.95 if run.arm == "random" else 0.90 if run.spec.seed < 3 else 0.99
    return level + 0.001 * run.spec.seed


def test_arms_are_compared_on_the_seeds_that_both_have(make):
    study = make(uneven, "bit-memory")
    contrast = only(study)
    assert contrast.effect.estimate == pytest.approx(-5.0)
    assert (contrast.seeds, contrast.partial) == (3, True)
    assert "3 shared seeds" in str(results_table(study, BOTH))
    assert "-5.0 points of accuracy" in repr(effects(study, PAIR))


def test_arms_without_a_common_seed_are_compared_as_they_are():
    first = pd.Series([1.0, 2.0, 3.0, 4.0, 5.5], range(5))
    second = pd.Series([3.0, 4.0, 5.0, 6.0, 8.0], range(5, 10))
    expected = difference(list(first), list(second))
    assert on_shared_seeds(first, second) == expected
    assert on_shared_seeds(first, second.set_axis(range(5))) == expected


@pytest.mark.parametrize("count", [1, FEWEST_RUNS - 1, FEWEST_RUNS])
def test_fewer_than_five_runs_have_no_interval(make, count):
    values = pd.Series(np.linspace(1, 2, count))
    effect = on_shared_seeds(values, 0.5 * values)
    assert math.isnan(effect.low) == math.isnan(effect.p) == (count < FEWEST_RUNS)
    assert only(make(uneven, seeds=count)).seeds == min(3, count)


def test_where_neither_arm_learned_there_is_no_ratio_and_no_difference(make):
    study = make(lambda run: 0.6, "bit-memory", threshold=0.9)  # the budget ends first
    assert only(study).refused == "neither learned"
    assert in_all_places(study).count("neither learned") == 2
    assert "×" not in in_all_places(study).partition("Geometric")[0]
    chance = make(lambda run: 0.5, "bit-xor")
    assert only(chance).refused == "neither learned"
    assert "+0.0" not in in_all_places(chance)


def test_arms_below_the_linear_classifier_are_not_compared(make):
    study = make(lambda run: uneven(run) - 0.4, "digits")
    baseline = best_baseline(study.tasks["digits"])
    assert baseline.name == "linear classifier"
    assert str(baseline) in only(study).refused
    table = results_table(study, BOTH)
    assert (table.texts.iloc[-1] == "not compared ↓").all()
    assert table.numbers["estimate"].isna().all()
    assert "linear classifier" in repr(effects(study, PAIR))
    one_above = make(lambda run: 0.9 if run.arm == "fpt" else 0.4, "digits")
    assert only(one_above).effect.estimate == pytest.approx(50)
    assert "linear classifier" in repr(effects(one_above, PAIR))


@pytest.mark.parametrize(("slow", "sign"), [("random", "≤"), ("fpt", "≥")])
def test_ratios_of_censored_runs_are_bounds(make, slow, sign):
    """A run that does not get to the threshold counts with its budget, which is too few steps."""
    study = make(lambda run: 0.6 if run.arm == slow else 0.99, "bit-memory", threshold=0.8)
    assert only(study).bound == sign
    assert f"{sign} ×" in str(results_table(study, BOTH))


def test_nothing_is_compared_until_every_run_is_there(make):
    study = make(uneven)
    study.store.path(study.runs[0].key).unlink()
    assert math.isnan(only(study).effect.estimate)


def intervals(axes):
    """The intervals that are drawn: vertical lines between two numbers."""
    bars = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
    return [line for bar in bars for line in bar.get_segments() if len(line)]


def test_few_runs_are_dots_and_steps_have_geometric_means():
    table = pd.DataFrame({"x": [1, 1, 2, 2], "y": [100.0, 400.0, 50.0, 50.0]})
    table = table.assign(panel=f"bit-xor: {STEPS}", censored=[False, True, False, False])
    (axes,) = line_plot(table, "x", "y", panel="panel").axes
    assert axes.get_yscale() == "log"
    assert list(axes.lines[0].get_ydata()) == pytest.approx([200.0, 50.0])
    assert not intervals(axes)  # of two runs
    many = pd.DataFrame({"x": [1] * 5 + [2] * 5, "y": np.arange(10.0)})
    assert len(intervals(line_plot(many, "x", "y").axes[0])) == 2
    assert line_plot(many.assign(x=1), "x", "y") is None  # no line


def test_a_run_of_two_blocks_is_one_run_and_kept_if_one_keeps_it():
    runs = section("attention", "lab").runs
    assert len(runs) == len({(run.arm, run.key) for run in runs}) == 48
    assert sum(run.keep for run in runs) == 12
