"""The verdict of an audit: is the pretrained backbone better than simpler things, and by how much?

A published model exists once, so it is compared with one more draw of a control: the standard
deviation of the draws' means times sqrt(1 + 1/draws), by Student's t. Every draw is trained with the
same seeds as the model. Test examples add their part, since other examples would give other scores.
Something simpler suffices if it is at most `margin` worse, by a one-sided interval of 95%.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .arms import CONTROLS, LABELS, NO_TRANSFORMER, PRETRAINED

LEVEL = 0.95
MOST_DRAWS = 100
Place = tuple[int, int]  # a fold and a seed
# The scores of the test examples by draw (None: not drawn), and by fold and seed.
Scores = Mapping[int | None, Mapping[Place, np.ndarray]]

NO_TRANSFORMER_NEEDED = "no transformer is needed"
SUFFICES = {
    "random": "any frozen body suffices",
    "random-at-scale": "its scale suffices",
    "statistics-tensor": "its statistics suffice",
    "shuffled": "its statistics suffice",
}
CONTENT_HELPS = "its content helps"
HURTS = "it hurts"
UNCLEAR = "no clear difference"


@dataclass(frozen=True)
class Difference:
    """The pretrained arm minus another: an estimate, its 95% interval, and the bound that it is
    below with 95%. `deviation` is that of the means of the other's draws, NaN if it has none."""

    estimate: float
    low: float
    high: float
    most: float
    draws: int = 0
    deviation: float = math.nan


@dataclass(frozen=True)
class Verdict:
    """One of seven labels, the reason in a sentence, and what would decide an open case."""

    label: str
    reason: str
    remedy: str = ""


def difference(pretrained: Scores, other: Scores) -> Difference:
    """Compare on the folds and seeds that both have; NaN without two runs of either."""
    (model,) = pretrained.values()
    places = sorted(set(model).intersection(*other.values()))
    if other.keys() == {None} and len(next(iter(other.values()))) == len({f for f, _ in model}):
        return against_fixed(model, next(iter(other.values())))
    means = {
        draw: np.mean([runs[place].mean() for place in places]) for draw, runs in other.items()
    }
    estimate = float(
        np.mean([model[place].mean() for place in places]) - np.mean([*means.values()])
    )
    parts = [items_part(model, other, places)]
    draws, deviation = 0, math.nan
    if other.keys() == {None}:
        runs = next(iter(other.values()))
        by_seed = [model[place].mean() - runs[place].mean() for place in places]
        parts.append(mean_part(by_seed))
    else:
        draws, deviation = len(means), float(np.std([*means.values()], ddof=1))
        parts.append((deviation**2 * (1 + 1 / draws), draws - 1))
    return interval(estimate, parts, draws, deviation)


def against_fixed(
    model: Mapping[Place, np.ndarray], fixed: Mapping[Place, np.ndarray]
) -> Difference:
    """Compare with an arm that has one run a fold, since nothing in it is drawn."""
    of_fold = {fold: scores for (fold, _), scores in fixed.items()}
    by_run = [scores.mean() - of_fold[fold].mean() for (fold, _), scores in model.items()]
    items = np.concatenate(
        [
            np.mean([scores for (place, _), scores in model.items() if place == fold], axis=0)
            - of_fold[fold]
            for fold in sorted(of_fold)
        ]
    )
    return interval(float(np.mean(by_run)), [mean_part(by_run), mean_part(items)])


def items_part(
    model: Mapping[Place, np.ndarray], other: Scores, places: Sequence[Place]
) -> tuple[float, int]:
    """The part of the variance that comes from the test examples, and its degrees of freedom."""
    by_fold = []
    for fold in sorted({fold for fold, _ in places}):
        chosen = [place for place in places if place[0] == fold]
        ours = np.mean([model[place] for place in chosen], axis=0)
        theirs = np.mean([runs[place] for runs in other.values() for place in chosen], axis=0)
        by_fold.append(ours - theirs)
    return mean_part(np.concatenate(by_fold))


def mean_part(values: Sequence[float] | np.ndarray) -> tuple[float, int]:
    """The variance of a mean of independent values, and its degrees of freedom."""
    if len(values) < 2:
        return math.nan, 1
    return float(np.var(values, ddof=1)) / len(values), len(values) - 1


def interval(
    estimate: float,
    parts: Sequence[tuple[float, int]],
    draws: int = 0,
    deviation: float = math.nan,
) -> Difference:
    """The difference whose variance is the sum of `parts`, with Welch and Satterthwaite's degrees
    of freedom."""
    variance = math.fsum(part for part, _ in parts)
    if math.isnan(variance):
        return Difference(estimate, math.nan, math.nan, math.nan, draws, deviation)
    if variance == 0:
        return Difference(estimate, estimate, estimate, estimate, draws, deviation)
    freedom = variance**2 / math.fsum(part**2 / degrees for part, degrees in parts)
    error = math.sqrt(variance)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
    most = estimate + float(stats.t.ppf(LEVEL, freedom)) * error
    return Difference(estimate, estimate - half, estimate + half, most, draws, deviation)


def nothing_learned(scores: Mapping[str, Scores], guess: float) -> bool:
    """Whether no arm is better than the best constant answer, with Bonferroni's correction."""
    for arm_scores in scores.values():
        runs = [run for by_place in arm_scores.values() for run in by_place.values()]
        mean = float(np.mean([run.mean() for run in runs]))
        items = np.concatenate([run for run in next(iter(arm_scores.values())).values()])
        examples = len(items) / len(next(iter(arm_scores.values())))
        error = float(items.std()) / math.sqrt(max(1.0, examples))
        if mean - guess > float(stats.norm.isf(0.05 / len(scores))) * error:
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
    unit = "points"
    if not learned:
        return Verdict(
            UNCLEAR,
            "No arm is better than the best constant answer, so there is nothing to compare.",
            "More steps, more examples or other tokens might let an arm learn.",
        )
    if best_without is not None and differences[best_without].most < margin:
        return Verdict(
            NO_TRANSFORMER_NEEDED,
            f"{LABELS[best_without].capitalize()} is at most {100 * margin:g} {unit} worse than the "
            f"pretrained backbone ({told(differences[best_without])}).",
        )
    controls = [arm for arm in CONTROLS if arm in differences]
    clearly_worse = "random" in differences and differences["random"].high < 0
    if clearly_worse:
        return Verdict(
            HURTS,
            "A random backbone does better than the pretrained one "
            f"({told(differences['random'])}).",
        )
    for arm in controls:
        if differences[arm].most < margin:
            return Verdict(
                SUFFICES[arm],
                f"One more backbone of the kind «{LABELS[arm]}» is at most {100 * margin:g} {unit} "
                f"worse ({told(differences[arm])}).",
            )
    if controls and all(gap.low > 0 for gap in differences.values() if not math.isnan(gap.low)):
        closest = min(controls, key=lambda arm: differences[arm].low)
        return Verdict(
            CONTENT_HELPS,
            "The pretrained backbone is better than every arm without its content; the closest is "
            f"«{LABELS[closest]}» ({told(differences[closest])}).",
        )
    hurting = [arm for arm in controls if differences[arm].high < 0]
    if hurting:
        return Verdict(
            HURTS,
            f"«{LABELS[hurting[0]]}» does better than the pretrained backbone "
            f"({told(differences[hurting[0]])}).",
        )
    return Verdict(UNCLEAR, *open_case(differences, controls, margin))


def open_case(
    differences: Mapping[str, Difference], controls: Sequence[str], margin: float
) -> tuple[str, str]:
    """Why nothing is decided, and what would decide it."""
    if not controls:
        return (
            "No control was trained in the time that the audit had.",
            "Give it more minutes, a smaller backbone or shorter sequences.",
        )
    widest = max(controls, key=lambda arm: differences[arm].high - differences[arm].low)
    gap = differences[widest]
    reason = f"The interval against «{LABELS[widest]}» holds both signs ({told(gap)})."
    draws = draws_to_decide(gap)
    if draws is None:
        return reason, (
            f"More draws would not decide it: draws of «{LABELS[widest]}» differ among themselves "
            f"by a standard deviation of {100 * gap.deviation:.1f} points. More training steps or "
            "examples might."
        )
    return reason, f"If the difference stays as it is, about {draws} draws would decide it."


def draws_to_decide(gap: Difference) -> int | None:
    """The number of draws at which a difference of this size would be clear; None if at none."""
    for draws in range(gap.draws + 1, MOST_DRAWS):
        half = stats.t.ppf((1 + LEVEL) / 2, draws - 1) * gap.deviation * math.sqrt(1 + 1 / draws)
        if half < abs(gap.estimate):
            return draws
    return None


def power_of_one_deviation(draws: int) -> float:
    """How often a model that is one standard deviation of the draws above their mean is found to
    differ from one more draw."""
    if draws < 2:
        return 0.0
    shift = 1 / math.sqrt(1 + 1 / draws)
    bound = stats.t.ppf((1 + LEVEL) / 2, draws - 1)
    above: float = stats.nct.sf(bound, draws - 1, shift)
    below: float = stats.nct.cdf(-bound, draws - 1, shift)
    return float(above + below)


def told(gap: Difference) -> str:
    """A difference in points with its interval."""
    if math.isnan(gap.low):
        return f"{100 * gap.estimate:+.1f} points, one run"
    return f"{100 * gap.estimate:+.1f} points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"


__all__ = ["NO_TRANSFORMER", "PRETRAINED", "Difference", "Verdict", "difference", "judge"]
