"""The verdict of an audit: is the pretrained backbone better than simpler things, and by
how much?

A published model exists once, so it is compared with a further draw of a control: the
standard deviation of the draws' means times sqrt(1 + 1/draws), by Student's t. Every draw
is trained with the same seeds, the model with more of them, whose variation adds its part.
Test examples add theirs, since others would give other scores; those of one group, or an
example that is tested in several folds, count as one. Something simpler suffices if it is
at most `margin` worse, by a one-sided interval of 95%.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy import stats

from .arms import CONTROLS, LABELS, NO_TRANSFORMER, PROBE
from .look import effect_text

LEVEL = 0.95  # of every interval, two-sided
MOST_DRAWS = 6  # of each control

NO_TRANSFORMER_NEEDED = "no transformer is needed"
ANY_BODY_SUFFICES = "any frozen body suffices"
SCALE_SUFFICES = "its scale suffices"
STATISTICS_SUFFICE = "its statistics suffice"
# What it means that an arm suffices.
SUFFICES = {
    "random": ANY_BODY_SUFFICES,
    "random-at-scale": SCALE_SUFFICES,
    "statistics-tensor": STATISTICS_SUFFICE,
    "shuffled": STATISTICS_SUFFICE,
}
CONTENT_HELPS = "its content helps"
HURTS = "it hurts"
UNCLEAR = "could not tell"
# What to do after a verdict if that is the same in all cases.
ADVICE = {
    ANY_BODY_SUFFICES: "Use a random backbone, which needs no download, or a smaller one.",
    SCALE_SUFFICES: "Use a random backbone with weights as large as these.",
    STATISTICS_SUFFICE: "Use a backbone drawn from the statistics of these weights.",
    CONTENT_HELPS: "Use the pretrained backbone, and audit others against it.",
    HURTS: "Do not use these weights on these data; take the arm that does better.",
}

Part = tuple[float, float]  # a variance and its degrees of freedom
NOT_LEARNED = (
    "The nets around the pretrained backbone are not clearly better than the best constant "
    "answer: before you trust this, look at the units of X, the rates and the steps."
)


@dataclass(frozen=True)
class TestExamples:
    """What test scores (N,) are of: the `units` (N,) that are independent, numbered from 0,
    and whether an answer is right or wrong (`has_classes`) or a number."""

    __test__ = False  # no test of pytest

    units: np.ndarray
    has_classes: bool

    def mean_part(self, scores: np.ndarray) -> Part:
        """The variance of the mean of scores (N,) over the units, and its degrees of
        freedom."""
        # The deviations of one unit may add up, so they are summed before they are squared.
        deviations = np.bincount(self.units, scores - scores.mean())
        count = len(deviations)
        squares = float((deviations**2).sum())
        variance = squares / len(scores) ** 2 * count / (count - 1)
        # Arms that agree on each of a few examples would not agree on all others: half an
        # example is added on which one is right, and half for the other (Agresti and Min
        # 2005).
        if self.has_classes:
            variance += 1 / (count + 2) ** 2
        return variance, count - 1


@dataclass(frozen=True)
class Difference:
    """The pretrained arm minus another: an estimate, its 95% interval, and the bound that
    it is below with 95%."""

    estimate: float
    low: float
    high: float
    most: float


@dataclass(frozen=True)
class Verdict:
    """One of seven labels, the reason in a sentence, and what to do if that depends on the
    case."""

    label: str
    reason: str
    remedy: str = ""

    @property
    def advice(self) -> str:
        """What to do."""
        return self.remedy or ADVICE[self.label]


def difference(pretrained: np.ndarray, rival: np.ndarray, test: TestExamples) -> Difference:
    """The pretrained arm minus a rival, both (draws, seeds, test examples) of scores. An
    arm that is not drawn has one draw, and one that has no seeds one seed."""
    draws, seeds, _ = rival.shape
    by_example = pretrained.mean((0, 1)) - rival.mean((0, 1))
    parts = [test.mean_part(by_example)]
    by_seed = pretrained.mean((0, 2))
    if draws > 1:
        deviation = float(rival.mean((1, 2)).std(ddof=1))
        parts.append((deviation**2 * (1 + 1 / draws), draws - 1))
        # The model may do worse with other seeds than those of the draws.
        if len(by_seed) > 1:
            parts.append(mean_part(by_seed))
    else:
        # An arm that is trained with the same seeds is compared seed by seed.
        shared = len(by_seed) if seeds == 1 else min(seeds, len(by_seed))
        parts.append(mean_part(by_seed[:shared] - rival.mean((0, 2))[:shared]))
    estimate = float(by_example.mean())
    low, high, most = interval(estimate, parts)
    return Difference(estimate, low, high, most)


def mean_part(values: np.ndarray) -> Part:
    """The variance of a mean of values, NaN for one, and its degrees of freedom."""
    if len(values) < 2:
        return math.nan, 1
    return values.var(ddof=1) / len(values), len(values) - 1


def interval(estimate: float, parts: Sequence[Part]) -> tuple[float, float, float]:
    """The 95% interval of an estimate whose variance is the sum of `parts`, and the bound
    that it is below with 95%, with Welch and Satterthwaite's degrees of freedom. NaN if a
    part is."""
    variance = math.fsum(part for part, _ in parts)
    squares = math.fsum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / squares if squares else math.nan
    # Every run and every example had the same score.
    if variance == 0:
        return estimate, estimate, estimate
    if math.isnan(variance):
        return math.nan, math.nan, math.nan
    error = math.sqrt(variance)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    return (
        estimate - half,
        estimate + half,
        estimate + float(stats.t.ppf(LEVEL, freedom)) * error,
    )


def mean_interval(scores: np.ndarray, test: TestExamples) -> tuple[float, float]:
    """The 95% interval of an arm's mean score (draws, seeds, test examples): over its
    draws, or its seeds if it is not drawn, and over the test examples."""
    units = scores.mean((1, 2)) if len(scores) > 1 else scores.mean((0, 2))
    parts = [test.mean_part(scores.mean((0, 1)))]
    if len(units) > 1:
        parts.append(mean_part(units))
    low, high, _ = interval(float(units.mean()), parts)
    # Neither an accuracy nor R² is above 1.
    return max(low, 0.0) if test.has_classes else low, min(high, 1.0)


def nothing_learned(
    scores: Mapping[str, np.ndarray], guess: float, test: TestExamples
) -> bool:
    """Whether no arm is clearly better than the best constant answer, with Bonferroni's
    correction."""
    # The best of many arms is above the guess by chance more often than one arm is.
    bound = stats.norm.isf((1 - LEVEL) / len(scores))
    for of_arm in scores.values():
        # That of single runs, which is more than the variance of their mean.
        variance = np.mean([test.mean_part(run)[0] for draw in of_arm for run in draw])
        if of_arm.mean() - guess > bound * math.sqrt(variance):
            return False
    return True


def judge(
    differences: Mapping[str, Difference],
    margin: float,
    best_without: str | None,
    learned: bool,
) -> Verdict:
    """The first verdict that holds, from the simplest. `best_without` is the arm without a
    transformer that validation prefers."""
    # Arms that guess differ by chance alone.
    if not learned:
        return Verdict(
            UNCLEAR,
            "No arm is clearly better than the best constant answer, so there is nothing "
            "to compare.",
            "More steps, more examples or other tokens might let an arm learn.",
        )
    # If a probe of the frozen features beats the nets and this arm, a transformer helps.
    needs_features = (
        best_without is not None
        and probe_is_better(differences)
        and differences[PROBE].estimate < differences[best_without].estimate
    )
    if (
        best_without is not None
        and differences[best_without].most < margin
        and not needs_features
    ):
        return Verdict(
            NO_TRANSFORMER_NEEDED,
            f"“{LABELS[best_without]}” is better than the pretrained backbone, or at most "
            f"{100 * margin:g} points worse ({gap_text(differences[best_without])}).",
            f"Use “{LABELS[best_without]}”; it costs less.",
        )
    controls = [arm for arm in CONTROLS if arm in differences]
    # Before “suffices”, which would be true as well, and say less.
    if "random" in differences and differences["random"].high < 0:
        return Verdict(
            HURTS,
            "A random backbone does better than the pretrained one "
            f"({gap_text(differences['random'])}).",
        )
    for arm in controls:
        if differences[arm].most < margin:
            return Verdict(
                SUFFICES[arm],
                f"One more backbone of the kind “{LABELS[arm]}” is better, or at most "
                f"{100 * margin:g} points worse ({gap_text(differences[arm])}).",
            )
    # A probe reads the content of the weights, so it is no rival.
    rivals = [*controls, *(arm for arm in NO_TRANSFORMER if arm in differences)]
    open_rivals = [arm for arm in rivals if not differences[arm].low > 0]
    cut = [f"“{LABELS[arm]}”" for arm in CONTROLS if arm not in differences]
    if not open_rivals and not cut:
        closest = min(controls, key=lambda arm: differences[arm].low)
        return Verdict(
            CONTENT_HELPS,
            "The pretrained backbone is better than every arm without its content; the "
            f"closest control is “{LABELS[closest]}” ({gap_text(differences[closest])}).",
        )
    if not controls:
        return Verdict(
            UNCLEAR,
            "No control was trained in the time that the audit had.",
            "Give it more minutes, a smaller backbone or shorter sequences.",
        )
    if not open_rivals:
        return Verdict(
            UNCLEAR,
            "The pretrained backbone is better than what was trained, but there was no "
            f"time for {', '.join(cut)}.",
            "The same call again goes on with what is missing.",
        )
    # The one that the model least surely beats.
    rival = min(open_rivals, key=lambda arm: differences[arm].low)
    return Verdict(
        UNCLEAR,
        f"The pretrained backbone may be better or worse than “{LABELS[rival]}” "
        f"({gap_text(differences[rival])}).",
        f"More test examples, folds (cv), steps or draws (at most {MOST_DRAWS}) would "
        "narrow the interval.",
    )


def probe_is_better(differences: Mapping[str, Difference]) -> bool:
    """Whether a linear probe of the frozen features clearly beats the nets around them."""
    return PROBE in differences and differences[PROBE].high < 0


def caution(differences: Mapping[str, Difference]) -> str:
    """A sentence if the frozen features hold more than the nets around them have learned to
    use: then a verdict on these nets may be another with more steps."""
    if not probe_is_better(differences):
        return ""
    return (
        "A linear probe of the pretrained features does better than the nets that were "
        f"trained around them ({gap_text(differences[PROBE])}), so more steps may change "
        "the verdict."
    )


def power_of_one_deviation(draws: int) -> float:
    """How often a model that is one standard deviation of the draws above their mean is
    found to differ from a further draw."""
    if draws < 2:
        return 0.0
    shift = 1 / math.sqrt(1 + 1 / draws)
    bound = stats.t.ppf((1 + LEVEL) / 2, draws - 1)
    above: float = stats.nct.sf(bound, draws - 1, shift)
    below: float = stats.nct.cdf(-bound, draws - 1, shift)
    return float(above + below)


def gap_text(gap: Difference) -> str:
    """A difference in points with its interval."""
    points = {name: 100 * number for name, number in asdict(gap).items()}
    text = f"pretrained minus this: {effect_text(points, ' points')}"
    return f"{text}, too few to give an interval" if math.isnan(gap.low) else text
