"""Steps to a threshold and the tests of claims: values by hand, and error rates."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fpt.analysis import effects, steps


@pytest.mark.parametrize(
    ("accuracies", "status", "found"),
    [
        ([0.1, 0.9, 0.9, 0.9], "done", steps.Steps(20, False)),
        ([0.9, 0.1, 0.9, 0.95], "done", steps.Steps(30, False)),  # once alone may be luck
        ([0.1, 0.2, 0.1, 0.9], "done", steps.Steps(400, True)),
        ([0.9, 0.9], "diverged", steps.Steps(400, True)),
        ([], "done", steps.Steps(400, True)),
    ],
)
def test_a_threshold_is_reached_at_the_first_of_two(accuracies, status, found) -> None:
    curve = [{"step": 10 * (i + 1), "valid_accuracy": a} for i, a in enumerate(accuracies)]
    record = SimpleNamespace(curve=curve, status=status, spec=SimpleNamespace(steps=400))
    assert steps.steps_to(record, 0.9) == found


def test_a_backbone_counts_once_and_only_with_all_tasks() -> None:
    runs = [("a", task, seed, count) for seed in (0, 1) for task, count in (("x", 10), ("y", 1000))]
    records = [
        (
            arm,
            task,
            SimpleNamespace(
                curve=[{"step": s, "valid_accuracy": 1.0} for s in (count, 2 * count)],
                status="done",
                spec=SimpleNamespace(steps=4000, seed=seed, weights=None, threshold=0.9),
            ),
        )
        for arm, task, seed, count in runs[:3]
    ]
    frame = steps.steps_frame(records)
    assert list(frame["steps"]) == [10, 1000, 10]
    means = steps.backbone_means(frame, ["x", "y"])
    assert means.to_dict() == {("a", 0): pytest.approx(math.log(100))}


def test_welch_in_one_direction_with_a_margin() -> None:
    a, b = [1.0, 1.4, 1.2, 0.9], [2.0, 2.6, 1.9]
    effect = effects.less(a, b)
    assert effect.estimate == pytest.approx(np.mean(a) - np.mean(b))
    assert effect.low < effect.estimate < effect.high < 0
    assert effect.p == stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue
    assert effect.against == pytest.approx(1 - effect.p)
    assert effects.less(a, b, margin=0.5).p > effect.p
    assert effects.less(b, a).p == pytest.approx(effect.against)
    assert math.isnan(effects.less([1, 1], [2, 2]).p)  # no spread is not certainty
    assert math.isnan(effects.less([1], [2, 3]).p)


def test_a_larger_fraction_is_solved() -> None:
    most, few = [True] * 11 + [False], [True] * 4 + [False] * 8
    effect = effects.more_solved(most, few)
    assert effect.estimate == pytest.approx(7 / 12)
    assert 0 < effect.low < effect.estimate < effect.high < 1
    assert effect.p < 0.01 < 0.99 < effect.against
    assert effects.more_solved(few, few).p > 0.4


def test_a_correlation_that_its_covariate_explains_is_none() -> None:
    draws = np.random.default_rng(0)
    scale, noise = draws.normal(size=18), draws.normal(size=(2, 18))
    alike = effects.falls_with(scale + 0.3 * noise[0], -scale + 0.3 * noise[1], scale)
    assert alike.p > 0.05
    own = effects.falls_with(noise[0], -noise[0] + 0.3 * noise[1] + 0.1 * scale, scale)
    assert own.p < 0.001
    assert -1 <= own.low < own.estimate < own.high < 0
    assert own.against > 0.99


@pytest.mark.parametrize("sizes", [(5, 5), (6, 16)])
def test_no_more_than_a_twentieth_of_true_nulls_is_found(sizes) -> None:
    draws = np.random.default_rng(1)
    found = [effects.less(*(draws.normal(size=n) for n in sizes)).p < 0.05 for _ in range(1000)]
    assert np.mean(found) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)
    found = [
        effects.more_solved(*(draws.random(n) < 0.5 for n in sizes)).p < 0.05 for _ in range(60)
    ]
    assert sum(found) <= 8
