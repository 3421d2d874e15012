"""Verdicts of an audit, and how often they are wrong."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fpt.auditing.runs import BODIES
from fpt.auditing.verdict import HELPS, HURTS, UNCLEAR, difference, judge
from fpt.reading.effect import NOTHING, paired

ARMS = ("linear", *BODIES)


def scores(means, examples, draw):
    """(seeds, test examples) of 1 for right, by the mean accuracy of each seed."""
    return pd.DataFrame(draw.uniform(size=examples) < np.reshape(means, (-1, 1))).astype(float)


def judged(draw, language, sd=0.0, examples=1000, seeds=5, margin=0.02, cuts=(), **arms):
    """The verdict where each body has draws around its mean; those that are not named are far
    below."""
    means = {arm: arms.get(f"arm{place}", 0.6) for place, arm in enumerate(ARMS)}
    made = {
        arm: scores(mean + sd * (arm in BODIES) * draw.normal(size=seeds), examples, draw)
        for arm, mean in means.items()
    }
    made["language"] = scores(language + sd / 10 * draw.normal(size=seeds), examples, draw)
    made["trivial rule"] = scores([0.5] * seeds, examples, draw)
    return judge(made, np.arange(examples), margin, cuts)


@pytest.mark.parametrize(
    ("label", "truth"),
    [
        ("linear suffices", {"language": 0.95, "arm0": 0.99}),
        ("N(0, 0.02) suffices", {"language": 0.95, "arm1": 0.95, "margin": 0.05}),
        ("model's default suffices", {"language": 0.95, "arm2": 0.99}),
        ("same mean and sd suffices", {"language": 0.95, "arm4": 0.97}),
        (HELPS, {"language": 0.95}),
        (UNCLEAR, {"language": 0.95, "cuts": ["“same scale” was not trained."]}),
        (UNCLEAR, {"language": 0.95, "arm4": 0.95, "examples": 60}),
        (HURTS, {"language": 0.8, "arm1": 0.95}),
        (NOTHING, {"language": 0.5, **{f"arm{place}": 0.5 for place in range(5)}}),
    ],
)
def test_the_first_verdict_that_holds_is_given(label, truth):
    assert judged(np.random.default_rng(0), **truth)[0] == label


# With 4 draws of 3 points each: of a mean of draws alone, 16% would be beaten by a further one.
@pytest.mark.parametrize("others", [0.8, 0.65])
def test_a_model_that_is_a_further_draw_is_rarely_called_better(others):
    """Of every control, or of same mean and sd alone, where the others are worse."""
    draw = np.random.default_rng(0)
    truth = {f"arm{place}": others for place in range(1, 4)}
    words = Counter(
        judged(draw, 0.8 + 0.03 * draw.normal(), sd=0.03, examples=300, arm4=0.8, **truth)[0]
        for _ in range(150)
    )
    assert words[HELPS] <= 0.05 * 150
    assert words[HURTS] <= 0.05 * 150


def test_labels_that_mean_nothing_are_rarely_learned():
    draw = np.random.default_rng(0)
    guesses = {f"arm{place}": 0.5 for place in range(5)}
    words = Counter(judged(draw, 0.5, sd=0.02, examples=200, **guesses)[0] for _ in range(150))
    assert words[NOTHING] >= 0.93 * 150
    assert not words[HELPS]


@pytest.mark.parametrize("count", [20, 50])
def test_agreement_on_a_few_examples_is_no_proof_that_something_suffices(count):
    """An arm of 95% beside one of 100%, and a margin of 2 points."""
    draw = np.random.default_rng(0)
    words = [judged(draw, 1.0, examples=count, arm4=0.95) for _ in range(100)]
    assert sum("suffices" in label for label, *_ in words) <= 5
    advice = [advice for label, _, advice in words if label == UNCLEAR]
    assert advice
    assert all("below 99" in sentence for sentence in advice)


@pytest.mark.parametrize("times", [1, 25])
def test_examples_of_one_group_count_as_one(times):
    """20 groups, two equal arms: 95% of the 95% intervals hold no difference."""
    draw = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), times)
    containing = 0
    for _ in range(200):
        shift = draw.normal(size=20)[groups] + draw.normal(size=20 * times)
        runs = pd.DataFrame([shift] * 3)
        gap = difference(runs, 0 * runs, groups)
        containing += gap.low < 0 < gap.high
    assert containing / 200 > 0.92
    # Nothing is added for examples that are not there: these scores are numbers.
    assert difference(runs, runs, groups).high == 0


def test_an_interval_has_the_variance_of_seeds_of_examples_and_of_a_further_draw():
    first, second = pd.Series([0.5, 0.6, 0.7]), pd.Series([0.0, 0, 0])
    plain, further = paired(first, second), paired(first, second, further=True)
    assert further.high - 0.6 == pytest.approx(2 * (plain.high - 0.6))  # sd² (1 + 1/3)
    wide = paired(first, second, more=(1e6, 9))  # examples alone
    assert wide.high == pytest.approx(0.6 + 2.2622 * 1e3, rel=1e-3)
