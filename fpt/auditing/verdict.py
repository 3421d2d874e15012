"""The verdict of an audit: the simplest thing that suffices, or that the content helps.

Arms are paired by seed (`fpt.reading.effect`), and the variance that test examples bring is
added, since others would give other scores; those of one group count as one. Something
suffices if language is less than `margin` better in all of its 95% interval. A published
model exists once, so it helps or hurts only if it differs from a further draw of a body,
and not only from the mean of its draws.
"""

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd

from ..reading.effect import ALPHA, NOTHING, Effect, paired
from .data import Examples
from .runs import BODIES, FULL, LANGUAGE, LINEAR, TRIVIAL, Records

HELPS = "its content helps"
HURTS = "it hurts"
UNCLEAR = "could not tell"
ERRORS = 1.98  # standard errors of a hundred examples, in half an interval of 95%
ALL_RIGHT = 0.999  # a score from which on nothing is left to learn
REPEATED = 0.5  # of the tokens
COLUMNS = ["score", "low", "high", "difference", "least", "most", "rate"]
Scores = Mapping[str, pd.DataFrame]  # by arm, (seeds, test examples)


def variance_of(scores: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """That of the mean of the scores (N,) of test examples over other such examples, and
    its degrees of freedom. Those of one group, numbered from 0, depend on each other."""
    # The deviations of one group may add up, so they are summed before they are squared.
    deviations = np.bincount(groups, scores - scores.mean())
    count = len(deviations)
    variance = float((deviations**2).sum()) / len(scores) ** 2 * count / (count - 1)
    return variance, count - 1


def unseen(scores: pd.DataFrame, count: float) -> float:
    """The variance of arms that agree on each of `count` examples: they would not agree on
    all others. Half an example is added on which one is right, and half for the other
    (Agresti and Min 2005); none if scores are of numbers."""
    return 1 / (count + 2) ** 2 if np.isin(scores, (0, 1)).all() else 0.0


def difference(
    first: pd.DataFrame, second: pd.DataFrame, groups: np.ndarray, further: bool = False
) -> Effect:
    """The scores (seeds, test examples) of one arm minus another's; `further` as in
    `paired`."""
    seeds = first.index.intersection(second.index)
    by_example = (first.loc[seeds] - second.loc[seeds]).to_numpy().mean(axis=0)
    variance, freedom = variance_of(by_example, groups)
    more = variance + unseen(first, freedom + 1), freedom
    return paired(first.mean(axis=1), second.mean(axis=1), more, further)


def has_learned(scores: Scores, groups: np.ndarray) -> bool:
    """Whether an arm is clearly better than the trivial rule, with Bonferroni's
    correction."""
    gaps = (difference(of_arm, scores[TRIVIAL], groups) for of_arm in scores.values())
    return any(gap.estimate > 0 and gap.p < 2 * ALPHA / len(scores) for gap in gaps)


def judge(
    scores: Scores, groups: np.ndarray, margin: float, cuts: Collection[str] = ()
) -> tuple[str, str, str]:
    """The first verdict that holds, from the simplest: a label, its reason in a sentence,
    and what to do. With `cuts`, something was not trained."""
    if not has_learned(scores, groups):
        return (
            NOTHING,
            "No arm is clearly better than the trivial rule.",
            "More steps, more examples or other tokens might let an arm learn.",
        )
    language = scores[LANGUAGE]
    bodies = [arm for arm in BODIES if arm in scores]
    no_body = scores.keys() - {LANGUAGE, FULL, TRIVIAL, *BODIES}
    without = [arm for arm in (LINEAR, *scores) if arm in no_body]
    gaps = {arm: difference(language, scores[arm], groups) for arm in (*without, *bodies)}
    surely = gaps | {
        arm: difference(language, scores[arm], groups, further=True) for arm in bodies
    }
    for arm in (*without, *bodies):
        # Before “suffices”, which would be true as well, and say less.
        if arm == BODIES[0] and surely[arm].high < 0:
            return (
                HURTS,
                f"“{arm}” does better than language ({text(surely[arm])}).",
                "Do not use these weights on these data; take the arm that does better.",
            )
        if gaps[arm].high < margin:
            return (
                f"{arm} suffices",
                f"“{arm}” is better than language, or at most {100 * margin:g} points "
                f"worse ({text(gaps[arm])}).",
                f"Use “{arm}” in the place of the weights.",
            )
    closest = min(gaps, key=lambda arm: surely[arm].low)
    if cuts:
        return (
            UNCLEAR,
            "There was no time for every arm.",
            "The same call again goes on with what is missing.",
        )
    if surely[closest].low > 0:
        return (
            HELPS,
            "Language is better than every arm without its content, also than a further "
            f"draw; the closest is “{closest}” ({text(gaps[closest])}).",
            "Use these weights, and audit others against them.",
        )
    least = math.ceil(ERRORS / margin)
    count = groups.max() + 1
    limit = f"; below {least}, here {count}, nothing can be shown to be as good"
    return (
        UNCLEAR,
        f"Language may be better or worse than “{closest}”, or than a further draw of it "
        f"({text(gaps[closest])}).",
        "More test examples, draws or steps would narrow the interval"
        f"{limit if unseen(language, count) and count < least else ''}.",
    )


def text(gap: Effect) -> str:
    """A difference in points with its interval."""
    estimate, low, high = (100 * value for value in (gap.estimate, gap.low, gap.high))
    return f"language minus it: {estimate:+.1f} points [{low:+.1f}, {high:+.1f}]"


def table_of(scores: Scores, records: Records, groups: np.ndarray) -> pd.DataFrame:
    """A row for each arm (see `Audit`)."""
    rows = {}
    for arm, of_arm in scores.items():
        own = difference(of_arm, 0 * scores[TRIVIAL], groups)
        gap = difference(scores[LANGUAGE], of_arm, groups)
        rate = records[arm][0].spec.lr if arm in records else np.nan
        numbers = own.estimate, own.low, min(own.high, 1.0)
        rows[arm] = *numbers, gap.estimate, gap.low, gap.high, rate
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table.loc[LANGUAGE, ["difference", "least", "most"]] = np.nan
    return table.rename_axis(index="arm")


def cautions(table: pd.DataFrame, records: Records, examples: Examples) -> Iterator[str]:
    """Sentences on what may make a verdict mean something else."""
    if examples.copies:
        yield (
            f"{examples.copies} of {len(examples.groups)} test examples have the very "
            "tokens of a training example, so memory may answer them: give groups that "
            "keep copies together."
        )
    for arm in table.index.difference([LANGUAGE, FULL, *BODIES]):
        if table["score"][arm] >= ALL_RIGHT:
            yield f"“{arm}” answers everything: look for the answer in X."
    for arm, of_arm in records.items():
        share = np.mean([r.metrics.get("start_coordinate_share", 0.0) for r in of_arm])
        if share > REPEATED:
            yield (
                f"The body of “{arm}” begins in the state of a repeated token ({share:.0%} "
                "of the tokens have nearly all their norm in one coordinate), and a "
                "difference may be one of this state."
            )
