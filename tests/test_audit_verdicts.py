"""Verdicts of an audit, their intervals, and how often they are wrong."""

import sys

import numpy as np
import pytest

from fpt.auditing import arms, verdict
from fpt.auditing.verdict import Difference, TestExamples, difference, judge, nothing_learned


def independent(count):
    """The units of that many test examples of a classification, each its own."""
    return TestExamples(np.arange(count), has_classes=True)


def gaps(half=1, **differences):
    """Differences in points, each with an interval of `half` points to either side."""
    points = {arm.replace("_", "-"): value / 100 for arm, value in differences.items()}
    half /= 100
    return {
        arm: Difference(value, value - half, value + half, value + 0.8 * half)
        for arm, value in points.items()
    }


ALL = ("random", "random_at_scale", "statistics_tensor", "shuffled", "linear")


@pytest.mark.parametrize(
    ("label", "differences"),
    [
        ("no transformer is needed", {"random": 5, "linear": 0}),
        # A probe of the frozen features is clearly better than the nets, and better than without.
        ("its statistics suffice", {"random": 5, "shuffled": 0, "linear": 0, "probe": -4}),
        ("no transformer is needed", {"random": 5, "shuffled": 0, "linear": -5, "probe": -4}),
        ("any frozen body suffices", {"random": 0.5, "random_at_scale": 0, "linear": 5}),
        ("its scale suffices", {"random": 5, "random_at_scale": 0.5, "linear": 5}),
        ("its statistics suffice", {"random": 5, "random_at_scale": 5, "statistics_tensor": 0.5}),
        ("its statistics suffice", {"random": 5, "statistics_tensor": 5, "shuffled": 0.5}),
        ("its content helps", dict.fromkeys(ALL, 5) | {"statistics_tensor": 4, "probe": 0}),
        ("it hurts", {"random": -5, "random_at_scale": 5, "linear": 5}),
        ("could not tell", {"random": 5, "shuffled": 1.5, "half": 2}),
        ("could not tell", {"random": 5, "linear": 1.5, "half": 2}),
    ],
)
def test_the_first_verdict_that_holds_is_given(label, differences):
    best_without = "linear" if "linear" in differences else None
    decision = judge(gaps(**differences), 0.02, best_without, learned=True)
    assert decision.label == label
    depends_on_the_case = ("could not tell", "no transformer is needed")
    assert bool(decision.remedy) == (label in depends_on_the_case)


def test_an_open_question_names_the_rival_that_may_be_closest():
    differences = gaps(random=1, shuffled=3, linear=2, half=4)
    decision = judge(differences, 0.02, None, learned=True)
    assert decision.label == "could not tell"
    assert arms.LABELS["random"] in decision.reason


@pytest.mark.parametrize("cut", ALL[:-1])
def test_content_is_said_to_help_only_if_every_control_was_trained(cut):
    differences = dict.fromkeys(ALL, 5)
    del differences[cut]
    decision = judge(gaps(**differences), 0.02, "linear", learned=True)
    assert decision.label == "could not tell"
    assert arms.LABELS[cut.replace("_", "-")] in decision.reason


def test_the_arm_that_validation_prefers_is_advised():
    decision = judge(gaps(mean_token=0, linear=20, random=5), 0.02, "mean-token", learned=True)
    assert arms.LABELS["mean-token"] in decision.advice


@pytest.mark.parametrize("times", [1, 5, 25])
def test_examples_of_one_group_count_as_one(times):
    """20 groups, two equal arms: 95% of the 95% intervals hold no difference."""
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(20), times)
    containing = 0
    for _ in range(300):
        shift = rng.normal(size=20)[units] + rng.normal(size=20 * times)
        runs = np.tile(shift, (1, 3, 1))  # three seeds, alike
        gap = difference(runs, 0 * runs, TestExamples(units, has_classes=False))
        containing += gap.low < 0 < gap.high
    assert containing / 300 > 0.92


def test_an_example_that_is_tested_twice_is_no_second_one():
    rng = np.random.default_rng(0)
    scores = (rng.uniform(size=(2, 1, 4, 50)) < [[[[0.9]]], [[[0.7]]]]).astype(float)
    once = difference(*scores, independent(50))
    units = np.tile(np.arange(50), 3)
    again = difference(*np.tile(scores, 3), TestExamples(units, has_classes=True))
    assert vars(again) == pytest.approx(vars(once))


@pytest.mark.parametrize("count", [20, 30, 50])
def test_agreement_on_a_few_examples_is_no_proof_that_something_suffices(count):
    """An arm of 95% beside one of 100% passes a one-sided test at 5% for a margin of 2 points
    in at most 5% of test sets."""
    rng = np.random.default_rng(0)
    model = np.ones((1, 4, count))
    gaps = [
        difference(
            model, (rng.uniform(size=(1, 1, count)) < 0.95).astype(float), independent(count)
        )
        for _ in range(500)
    ]
    assert np.mean([gap.most < 0.02 for gap in gaps]) <= 0.05


def test_a_right_answer_of_one_run_of_many_is_not_learning():
    scores = np.zeros((3, 2, 40))
    scores[2, 1, 0] = 1
    assert nothing_learned({"random": scores}, 0.0, independent(40))
    assert not nothing_learned({"random": np.ones((3, 2, 40))}, 0.0, independent(40))


def test_a_model_that_is_one_more_draw_is_rarely_called_better():
    draws = np.random.default_rng(0)
    helped = 0
    for _ in range(400):
        means = 0.8 + 0.03 * draws.normal(size=6)
        runs = means[:, None, None] + 0.01 * draws.normal(size=(6, 2, 1))
        scores = (draws.uniform(size=(1, 1, 200)) < runs).astype(float)
        gap = difference(scores[:1], scores[1:], independent(200))
        helped += gap.low > 0 or gap.high < 0
    assert helped / 400 <= 0.05


def test_a_difference_is_that_of_the_means_with_a_known_interval():
    """Constant examples leave the spread of the draws alone: sd * sqrt(1 + 1/3) * t(2)."""
    model = np.full((1, 2, 50), 0.9)
    control = np.stack([np.full((2, 50), mean) for mean in (0.5, 0.6, 0.7)])
    gap = difference(model, control, TestExamples(np.arange(50), has_classes=False))
    assert gap.estimate == pytest.approx(0.3)
    assert gap.high - gap.estimate == pytest.approx(4.3027 * 0.1 * np.sqrt(4 / 3), rel=1e-4)


def test_a_bad_seed_of_the_model_counts_though_no_draw_was_trained_with_it():
    """The difference is that of the scores that are shown, and its interval is wider."""
    draws = np.linspace(0.8, 0.82, 5)[:, None, None] * np.ones((1, 2, 50))
    steady = np.full((1, 5, 50), 0.95)
    unsteady = steady.copy()
    unsteady[0, 4] = 0.5
    numbers = TestExamples(np.arange(50), has_classes=False)
    gap, worse = (difference(model, draws, numbers) for model in (steady, unsteady))
    assert worse.estimate == pytest.approx(unsteady.mean() - draws.mean())
    assert gap.low > 0 > worse.low


def test_a_probe_that_does_better_than_the_nets_is_said():
    assert "linear probe" in verdict.caution(gaps(probe=-5, random=5))
    assert not verdict.caution(gaps(probe=0, random=5))
    assert not verdict.caution(gaps(random=5))


def test_power_for_one_deviation_is_that_of_a_simulation():
    draws = np.random.default_rng(0).normal(size=(20_000, 6))
    means, deviations = draws[:, 1:].mean(1), draws[:, 1:].std(1, ddof=1)
    unlike = np.abs(draws[:, 0] + 1 - means) > 2.7764 * deviations * np.sqrt(1.2)
    assert verdict.power_of_one_deviation(5) == pytest.approx(unlike.mean(), abs=0.01)


# A lent machine has SciPy and no statsmodels, and an audit ended there with its last line.
def test_an_audit_needs_no_statsmodels(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    powers = [verdict.power_of_one_deviation(draws) for draws in (1, 3, 6)]
    assert powers == sorted(powers)
    assert 0.05 < powers[-1] < 0.2
