"""Statistics against simulated data with known answers, and hand-worked examples."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from fpt.analysis.convergence import Convergence, median_steps, speedup, steps_to_convergence
from fpt.analysis.stats import Verdict, contrast, difference, holm, ledger, mean_interval, verdict
from fpt.files import FptError

RUNS = 2000
NOISE = 3 * math.sqrt(0.05 * 0.95 / RUNS)  # three standard errors of a 5% rate


def covered(interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


# --- one arm


def test_the_interval_is_students_over_seeds() -> None:
    values = [1.0, 2.0, 4.0]
    found = mean_interval(values)
    half = scipy_stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / math.sqrt(3)
    assert (found.mean, found.n) == (pytest.approx(7 / 3), 3)
    assert found.sd == pytest.approx(np.std(values, ddof=1))
    assert (found.low, found.high) == pytest.approx((7 / 3 - half, 7 / 3 + half))


@pytest.mark.parametrize("values", [[0.9], [0.7] * 3])
def test_one_seed_and_seeds_without_spread_have_no_interval(values: list[float]) -> None:
    found = mean_interval(values)
    assert found.mean == pytest.approx(values[0])
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_mean_interval_covers(n: int) -> None:
    values = np.random.default_rng(n).normal(0.7, 0.05, (RUNS, n))
    rate = np.mean([covered(mean_interval(list(v)), 0.7) for v in values])
    assert abs(rate - 0.95) <= NOISE


# --- two arms


def test_difference_is_welchs_and_takes_a_constant() -> None:
    a, b = [0.91, 0.93, 0.96, 0.92], [0.85, 0.90, 0.80]
    found = difference(a, b)
    welch = scipy_stats.ttest_ind(a, b, equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert found.p == pytest.approx(welch.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.df == pytest.approx(welch.df)
    one = difference(a, 0.9)
    assert one.p == pytest.approx(scipy_stats.ttest_1samp(a, 0.9).pvalue, rel=1e-6)


def test_a_contrast_is_welchs_test_on_two_differences() -> None:
    """Of constants, it is the plain difference of the two samples."""
    a, b = [0.31, 0.33, 0.36, 0.32], [0.15, 0.20, 0.10]
    found, plain = contrast(difference(a, 0.2), difference(b, 0.1)), difference(a, b)
    assert found.effect == pytest.approx(plain.effect - 0.1)
    assert (found.se, found.df) == (pytest.approx(plain.se), pytest.approx(plain.df))
    assert found.high - found.low == pytest.approx(plain.high - plain.low)
    assert math.isnan(contrast(difference([0.3], 0.2), difference(b, 0.1)).low)


def test_arms_without_spread_are_not_tested() -> None:
    """Three runs at 100% against three at 50% are no certainty, against a number neither."""
    for other in ([0.5] * 3, [1.0] * 3, 0.99):
        found = difference([1.0] * 3, other)
        assert found.effect == pytest.approx(1 - np.mean(other))
        assert all(map(math.isnan, (found.low, found.high, found.p)))
        for direction in ("greater", "equal"):
            assert verdict(found, direction, 0.05) == Verdict("inconclusive", 1.0)
    assert math.isnan(difference([0.7] * 3, 0.5).p)  # a mean of 0.7 has rounding of its own
    assert math.isnan(difference([0.9], [0.5, 0.6]).p)
    assert math.isnan(contrast(difference([1.0] * 3, 0.5), difference([0.7] * 3, 0.5)).p)


def test_one_arm_without_spread_is_a_constant() -> None:
    a = [0.91, 0.93, 0.96]
    found, against = difference(a, [1.0] * 3), difference(a, 1.0)
    assert (found.p, found.low) == (pytest.approx(against.p), pytest.approx(against.low))
    assert found.df == pytest.approx(2)


# --- verdicts


def labels(effect: float, n: int, direction, margin: float = 0.0, ratio: float = 1.0) -> dict:
    """Rates of each label over simulated pairs of arms; `effect` in units of their rms sd."""
    rng = np.random.default_rng(7)
    scale = math.sqrt((1 + ratio**2) / 2)
    a = rng.normal(effect * scale, 1, (RUNS, n))
    b = rng.normal(0, ratio, (RUNS, n))
    found = [
        verdict(difference(list(x), list(y)), direction, margin * scale).label
        for x, y in zip(a, b, strict=True)
    ]
    return {name: found.count(name) / RUNS for name in set(found)}


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize(("direction", "margin"), [("greater", 0.0), ("less", 0.0), ("equal", 2.0)])
def test_a_truth_at_the_edge_is_decided_at_most_five_percent_of_the_time(
    n: int, ratio: float, direction, margin: float
) -> None:
    rates = labels(margin, n, direction, margin, ratio)
    assert 1 - rates["inconclusive"] <= 0.05 + NOISE


@pytest.mark.parametrize("counts", [(2, 2), (2, 5)])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
def test_two_values_an_arm_support_no_more_often(counts: tuple[int, int], ratio: float) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.normal(0, 1, (RUNS, counts[0])), rng.normal(0, ratio, (RUNS, counts[1]))
    found = [
        verdict(difference(list(x), list(y)), "greater").label for x, y in zip(a, b, strict=True)
    ]
    assert found.count("supported") / RUNS <= 0.05 + NOISE


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_two_sd_at_five_seeds_is_mostly_decided(ratio: float) -> None:
    assert labels(2.0, 5, "greater", ratio=ratio)["supported"] >= 0.7
    assert labels(-2.0, 5, "less", ratio=ratio)["supported"] >= 0.7
    assert labels(-2.0, 5, "greater", ratio=ratio)["contradicted"] >= 0.7


@pytest.mark.parametrize(
    ("direction", "margin"), [("greater", 0.0), ("less", 0.0), ("equal", 0.03)]
)
def test_a_verdict_can_be_read_off_the_interval(direction, margin: float) -> None:
    rng = np.random.default_rng(17)
    seen = set()
    for effect in np.linspace(-0.1, 0.1, 81):
        a, b = rng.normal(effect, 0.01, 4), rng.normal(0, 0.01, 4)
        it = difference(list(a), list(b))
        inside = {
            "greater": it.low > 0,
            "less": it.high < 0,
            "equal": -margin < it.low < it.high < margin,
        }[direction]
        outside = {
            "greater": it.high < 0,
            "less": it.low > 0,
            "equal": it.low > margin or it.high < -margin,
        }[direction]
        label = "supported" if inside else "contradicted" if outside else "inconclusive"
        assert verdict(it, direction, margin).label == label
        seen.add(label)
    assert len(seen) == 3


def test_equivalence_supports_contradicts_and_abstains() -> None:
    close = [0.980, 0.981, 0.979, 0.980]

    def equal(other: list[float], margin: float) -> str:
        return verdict(difference(close, other), "equal", margin).label

    assert equal([0.981, 0.980, 0.980, 0.979], 0.01) == "supported"
    assert equal([0.94, 0.941, 0.939, 0.94], 0.01) == "contradicted"
    assert equal([0.99, 0.97, 0.985, 0.975], 0.005) == "inconclusive"
    with pytest.raises(FptError, match="margin of 0"):
        equal(close, 0)


def test_equivalence_p_is_two_one_sided_tests() -> None:
    a, b, margin = [0.98, 0.97, 0.985], [0.975, 0.985, 0.96], 0.03
    low = scipy_stats.ttest_ind(np.add(a, margin), b, equal_var=False, alternative="greater")
    high = scipy_stats.ttest_ind(np.subtract(a, margin), b, equal_var=False, alternative="less")
    expected = 2 * max(low.pvalue, high.pvalue)
    assert verdict(difference(a, b), "equal", margin).p == pytest.approx(expected, rel=1e-5)


def test_missing_data_is_not_run_and_wrong_questions_are_refused() -> None:
    nothing = verdict(None, "greater")
    assert nothing.label == "not run"
    assert math.isnan(nothing.p)
    with pytest.raises(FptError, match="allowed are greater, less, equal"):
        verdict(None, "bigger")  # type: ignore[arg-type]
    with pytest.raises(FptError, match="no measurements"):
        difference([0.5, math.nan], [0.5, 0.6])


def test_holm_by_hand() -> None:
    # sorted .005 .01 .03 .04 times 4 3 2 1 gives .02 .03 .06 .04, made monotone .02 .03 .06 .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.01, math.nan, 0.03, 0.005], tests=4)[::3] == pytest.approx([0.03, 0.02])
    adjusted = holm([0.02, math.nan, 0.04])
    assert adjusted[::2] == pytest.approx([0.04, 0.04])
    assert math.isnan(adjusted[1])
    assert holm([]) == []


def test_holm_holds_the_familywise_rate() -> None:
    p = np.random.default_rng(5).uniform(size=(RUNS, 20))
    assert np.mean([min(holm(list(row))) <= 0.05 for row in p]) <= 0.05 + NOISE


def test_ledger_demotes_what_does_not_survive_and_keeps_not_run() -> None:
    found = ledger(
        [
            Verdict("supported", 0.001),
            Verdict("contradicted", 0.03),
            Verdict("not run", math.nan),
            Verdict("inconclusive", 0.5),
        ]
    )
    assert [it.label for it in found] == ["supported", "inconclusive", "not run", "inconclusive"]
    assert found[0].p == pytest.approx(0.003)


# --- convergence

STEPS = list(range(100, 1300, 100))


def test_converged_at_the_first_trailing_mean_within_the_slack() -> None:
    curve = [0.1, 0.3, 0.5, 0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]
    # trailing means of three: .3 .5 .7 .83 .9 ...; the level .9 less 1% is first met at step 700
    assert steps_to_convergence(STEPS, curve) == Convergence(700.0, False)
    assert steps_to_convergence(STEPS, curve, window=1) == Convergence(500.0, False)


def test_a_common_target_moves_and_censors() -> None:
    curve = [0.5, 0.6, 0.7, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
    assert steps_to_convergence(STEPS, curve) == Convergence(600.0, False)
    assert steps_to_convergence(STEPS, curve, target=0.6) == Convergence(300.0, False, first=True)
    assert steps_to_convergence(STEPS, curve, target=0.99) == Convergence(1200.0, True)


def test_a_run_that_still_rises_is_censored_and_a_diverged_one_never_arrives() -> None:
    rising = list(np.linspace(0.1, 0.9, 12))
    assert steps_to_convergence(STEPS, rising) == Convergence(1200.0, True)
    assert steps_to_convergence(STEPS, rising, plateau=True) == Convergence(1200.0, False)
    diverged = [0.5] * 11 + [math.nan]
    assert steps_to_convergence(STEPS, diverged) == Convergence(math.inf, True)
    with pytest.raises(FptError, match="at least 6"):
        steps_to_convergence(STEPS[:5], rising[:5])


def runs(*steps: float, censored: tuple[float, ...] = ()) -> list[Convergence]:
    return [Convergence(s, False) for s in steps] + [Convergence(s, True) for s in censored]


def test_median_keeps_censored_runs_in_the_order() -> None:
    assert median_steps(runs(3, 1, 2)).median == 2
    assert median_steps(runs(1, 2, 3, 4)).median == 2.5
    some = median_steps(runs(1, 2, 3, censored=(10, 10)))
    assert (some.median, some.low, some.high, some.censored) == (3, 1, math.inf, 2)
    assert median_steps(runs(1, censored=(10, 10))).median == math.inf
    # one run stopped at 5, so nothing is known of the order beyond
    cut = median_steps(runs(1, 8, 9, censored=(5,)))
    assert (cut.median, cut.censored) == (math.inf, 3)
    # a diverged run stopped early but shortens nobody's budget
    assert median_steps(runs(1, 8, 9, censored=(math.inf,))).median == 8.5
    with pytest.raises(FptError, match="at least one run"):
        median_steps([])


def test_median_says_what_its_interval_covers() -> None:
    assert median_steps(runs(*range(5))).level == pytest.approx(1 - 2 / 2**5)
    assert median_steps(runs(7)).level == 0
    # for n = 10 the second and ninth order statistics cover 97.9%, the third and eighth 89.1%
    ten = median_steps(runs(*range(10)))
    assert (ten.low, ten.high) == (1, 8)
    assert ten.level == pytest.approx(1 - 2 * 11 / 2**10)


@pytest.mark.parametrize("n", [5, 9])
def test_median_interval_covers_as_it_says_under_censoring(n: int) -> None:
    rng = np.random.default_rng(n)
    truth, budget, hits, level = 1000.0, 1200.0, 0, 0.0
    for times in truth * rng.lognormal(0, 0.5, (RUNS, n)):
        found = median_steps([Convergence(min(t, budget), bool(t > budget)) for t in times])
        hits += covered(found, truth)
        level = found.level
    assert hits / RUNS == pytest.approx(level, abs=NOISE)


# --- speed-ups


def test_a_speed_up_is_the_median_ratio_of_all_pairs() -> None:
    found = speedup(runs(400, 800, 1600), runs(100, 100, 200))
    # ratios 2 4 4 4 8 8 8 16 16
    assert found.least == found.most == pytest.approx(8)
    assert (found.low, found.high) == pytest.approx((2, 16))
    assert found.level == pytest.approx(0.9)  # 1 - 2 / (6 over 3)
    assert found.runs == (3, 3)
    back = speedup(runs(100, 100, 200), runs(400, 800, 1600))
    assert (back.least, back.low, back.high) == pytest.approx((1 / 8, 1 / 16, 1 / 2))
    two = speedup(runs(400, 800), runs(100, 200))
    assert two.least == two.most == pytest.approx(4)  # the geometric mean of the middle two
    with pytest.raises(FptError, match="each side"):
        speedup(runs(1), [])


def test_censored_runs_bound_a_speed_up() -> None:
    fast = runs(100, 100, 200)
    some = speedup(runs(400, 800, censored=(1600,)), fast)
    assert some.least == some.most == pytest.approx(8)  # the median is known all the same
    assert (some.low, some.high) == (pytest.approx(2), math.inf)
    most = speedup(runs(400, censored=(1600, 1600)), fast)
    assert (most.least, most.most) == (pytest.approx(8), math.inf)
    never = speedup(runs(censored=(math.inf,) * 3), fast)
    assert never.least == never.most == math.inf
    slower = speedup(runs(400, 400, 400), runs(censored=(800, 800, 800)))
    assert (slower.least, slower.most) == (0, pytest.approx(0.5))
    neither = speedup(runs(censored=(math.inf,)), runs(censored=(math.inf, 5)))
    assert (neither.least, neither.most) == (0, math.inf)
    early = speedup(runs(400), [Convergence(100.0, False, first=True)])
    assert (early.least, early.most) == (pytest.approx(4), math.inf)


@pytest.mark.parametrize(("n", "m"), [(3, 4), (5, 5), (8, 6)])
def test_the_interval_of_a_speed_up_covers_as_it_says(n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    factor, budget, hits, level = 3.0, 4000.0, 0, 0.0
    for _ in range(RUNS):
        slow, fast = (
            [Convergence(min(t, budget), bool(t > budget)) for t in rng.lognormal(7, 0.5, k) * f]
            for k, f in ((n, factor), (m, 1.0))
        )
        found = speedup(slow, fast)
        hits += found.low <= factor <= found.high
        level = found.level
    assert hits / RUNS >= level - 3 * math.sqrt(level * (1 - level) / RUNS)
