"""Draws crossed with seeds: runs, packs and keys, the area under a curve, and the tests on them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from made import make_record
from scipy import stats
from tiny import loop_of, pretrained, spec

from fpt import config
from fpt.analysis.crossed import (
    difference,
    is_unlike_draws,
    on_shared_seeds,
    rank_among,
    two_sided,
)
from fpt.analysis.steps import area
from fpt.errors import FptError
from fpt.profile import Run
from fpt.training.settings import check_spec
from fpt.training.sweep import backbone_identity

pytestmark = pytest.mark.usefixtures("tiny")


def first_rows(run):
    """The trained values and one frozen matrix that a run starts from."""
    loop = loop_of(run)
    frozen = loop.model.backbone.get_parameter("gpt2.h.0.mlp.c_fc.weight")
    return loop.rows.values.clone(), frozen.clone()


def test_a_draw_fixes_the_backbone_and_the_seed_everything_else():
    runs = [spec(seed=seed, draw=draw) for seed, draw in ((1, 7), (2, 7), (1, 8))]
    nets, frozen = zip(*map(first_rows, runs), strict=True)
    assert torch.equal(frozen[0], frozen[1])
    assert not torch.equal(frozen[0], frozen[2])
    assert not torch.equal(nets[0], nets[1])
    assert torch.equal(frozen[0], first_rows(spec(seed=7))[1])
    assert backbone_identity(runs[0]) == backbone_identity(runs[1]) != backbone_identity(runs[2])


def test_what_draws_nothing_has_no_draw():
    with pytest.raises(FptError, match="draws nothing"):
        check_spec("run", pretrained(draw=3))
    with pytest.raises(FptError, match="draw: expected a whole number"):
        check_spec("run", spec(draw=-1))


def test_a_block_crosses_draws_with_seeds_where_something_is_drawn():
    profile = config.load("smoke")
    block = {"tasks": ["bit-xor"], "arms": ["fpt", "random"], "seeds": [0, 1], "draws": [5, 6, 7]}
    runs = config.expand(replace(profile, sections={"transfer": (block,)}), "transfer")
    places = [(run.arm, run.spec.draw, run.spec.seed) for run in runs]
    drawn = [("random", draw, seed) for draw in (5, 6, 7) for seed in (0, 1)]
    assert sorted(places, key=str) == sorted([("fpt", None, 0), ("fpt", None, 1), *drawn], key=str)


@pytest.mark.parametrize(
    ("losses", "status", "mean"),
    [
        ([0.8, 0.4, 0.2, 0.2], "done", (math.log(2) / 2 + 1.4 + 0.1) / 4),
        ([0.8, 0.4], "diverged", (1.2 + 2 * math.log(2)) / 4),  # it guesses from there on
        ([0.0, 0.0, 0.0, 0.0], "done", math.log(2) / 2 / 4),  # learned before the first evaluation
    ],
)
def test_the_area_begins_at_guessing_and_goes_through_all_evaluations(losses, status, mean):
    record = make_record(Run("random", "bit-xor", spec(steps=4 * 3, eval_every=3)), 0.5)
    curve = [
        {**record.curve[0], "step": 3 * index, "valid_loss": loss}
        for index, loss in enumerate(losses, 1)
    ]
    assert area(replace(record, curve=curve, status=status)) == pytest.approx(mean)


def table(rng, draws, seeds=6, mean=0.0, by_draw=0.0):
    """Log areas of an arm, draws by seeds."""
    rows = by_draw * rng.normal(size=(draws, 1)) if draws > 1 else 0.0
    return pd.DataFrame(mean + rows + 0.1 * rng.normal(size=(draws, seeds)))


def test_a_difference_between_models_that_are_not_drawn_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    first = table(rng, 1)
    second = table(rng, 1, mean=0.1)
    effect = difference(first, second)
    paired = stats.ttest_rel(first.iloc[0], second.iloc[0])
    assert two_sided(effect) == pytest.approx(paired.pvalue)
    assert (effect.low, effect.high) == pytest.approx(tuple(paired.confidence_interval(0.95)))


def test_seeds_that_act_on_both_arms_alike_cancel():
    rng = np.random.default_rng(1)
    first = table(rng, 1)
    second = table(rng, 4, mean=0.3, by_draw=0.1)
    of_seed = pd.Series(10.0 * np.arange(6))
    p = difference(first + of_seed, second + of_seed).p
    assert p == pytest.approx(difference(first, second).p)


# Seeds alone as the unit would take one lucky draw for an effect.
@pytest.mark.parametrize("by_draw", [0.02, 0.1, 0.5])
def test_a_true_null_is_rarely_called_a_difference(by_draw):
    rng = np.random.default_rng(3)
    p_values = [
        two_sided(difference(table(rng, 1), table(rng, 6, by_draw=by_draw))) for _ in range(400)
    ]
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_a_margin_asks_for_more_than_a_difference():
    rng = np.random.default_rng(4)
    first = table(rng, 1, mean=0.1)
    second = table(rng, 6, by_draw=0.01)
    assert difference(first, second).p > 0.5
    assert difference(first, second, math.log(1.5)).p < 0.01


def test_without_two_seeds_or_any_spread_nothing_is_tested():
    for values in ([[1.0]], [[1.0, 1.0]]):
        same = pd.DataFrame(values)
        assert math.isnan(difference(same, same).p)


@pytest.mark.parametrize(
    ("value", "p"), [(-1.0, 0.05), (0.5, 0.1), (19.5, 1.0), (37.5, 0.1), (99.0, 0.05)]
)
def test_a_rank_is_as_unlikely_as_the_share_of_draws_beyond_it(value, p):
    assert rank_among(value, list(map(float, range(39)))) == pytest.approx(p)


def test_a_model_is_unlike_draws_beyond_the_interval_of_one_more_draw():
    draws = pd.DataFrame([[-0.1] * 4, [0.0] * 4, [0.1] * 4])
    half = stats.t.isf(0.025, 2) * 0.1 * math.sqrt(4 / 3)
    for share, is_unlike in ((0.99, False), (1.01, True)):
        model = pd.DataFrame([[half * share] * 4])
        assert is_unlike_draws(model, draws) == is_unlike


def test_an_arm_beside_itself_has_no_effect():
    runs = pd.DataFrame({"draw": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "value": [1.0, 2.0, 4.0, 9.0]})
    effect = difference(*on_shared_seeds(runs, runs))
    assert effect.estimate == 0
