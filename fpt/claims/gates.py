"""What keeps a claim from being supported or contradicted by its p-value alone.

Each gate answers one question of the registration or of docs/design.md: are its runs here,
did its backbones learn their corpora, did either arm learn the task, is the effect the same
on every task, did enough runs end before their budget? `runs` are those of
`fpt.claims.claim.own_runs`.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pandas as pd
from scipy.stats import norm

from ..analysis.compare import Baseline, best_baseline
from ..analysis.effects import Effect
from ..analysis.steps import LEARNED, is_learned
from ..analysis.summary import tested_values
from ..config import task_named
from ..profile import Profile
from ..sections.arms import arm as arm_named
from ..tasks.base import FiniteTask
from .claim import Claim
from .finding import NO_SPREAD, Finding, task_sides
from .pooled import ALPHA, depends_on_task

MEMORYLESS = ("-uniform", "-unigram")  # arms whose corpus has nothing to learn from context
MOST_CENSORED = 0.1  # of the runs of the arm that is the better one


def judge(finding: Finding, runs: pd.DataFrame, profile: Profile) -> Finding:
    """A finding with its verdict. Gates come before p-values."""
    # The gates stand in the order in which they make the next one meaningless.
    claim = finding.claim
    unlearned = _unlearned(claim, runs)
    if unlearned:
        return replace(
            finding, reason=f"not learned by its backbones: {', '.join(unlearned)}"
        )
    reason = neither_learned(claim, runs, profile)
    if reason:
        instead = reason if claim.measure == "accuracy" else "neither arm learned"
        return replace(finding, label="neither learned", reason=reason, instead=instead)
    # The opposite claims are a family of their own, with a correction of their own.
    contradicted = finding.opposite < ALPHA
    decided = contradicted or finding.adjusted < ALPHA
    if depends_on_task(finding.by_task, finding.heterogeneity, decided):
        sides = task_sides(finding)
        return replace(finding, label="depends on the task", reason=sides, instead=sides)
    # Equal values on both sides say nothing of how far other backbones may be.
    if not finding.is_tested:
        return replace(finding, reason=NO_SPREAD)
    if not decided:
        return replace(finding, reason=_undecided(finding))
    # A ratio would be that of the budget if the better arm often ran out of it.
    arms = list(claim.backbones)
    better = arms[-1] if contradicted else arms[0]
    censored = runs.loc[runs["arm"] == better, "censored"].mean()
    if claim.measure == "steps" and censored > MOST_CENSORED:
        reason = f"too many runs of {better} end before the threshold"
        return replace(finding, reason=f"{reason}; a larger budget would decide it")
    return replace(finding, label="contradicted" if contradicted else "supported")


def _undecided(finding: Finding) -> str:
    """Why a claim that passed all gates is undecided, and what would decide it."""
    effect = finding.effect
    reason = "not after the correction"
    if effect.low <= 0 <= effect.high:
        reason = "the interval holds both directions"
    if finding.claim.margin:
        reason += ", or less than the margin"
    return f"{reason}; {enough(effect, finding.n)} would decide an effect of this size"


def enough(effect: Effect, n: Mapping[str, int]) -> str:
    """How many backbones, or corpora, have a power of 80% at a primary claim's level if the
    effect is the one that was measured, whatever its direction; by the normal
    approximation."""
    # Power grows with the square root of the count; a twelfth is the strictest level of
    # Holm.
    quantile = max(norm.isf(min(effect.p, effect.against)), 1e-3)
    units = "backbones of each arm"
    count = min(n.values())
    if len(n) > 2:
        units = "corpora"
        count = len(n)
    needed = count * ((norm.isf(ALPHA / 12) + norm.isf(0.2)) / quantile) ** 2
    return f"more than 1,000 {units}" if needed > 1000 else f"about {needed:.0f} {units}"


def not_learned(arms: Collection[str], corpora: pd.DataFrame) -> list[str]:
    """The arms whose backbones learned nothing from the context of their corpus, though it
    has something. `corpora` has nats `learned` by arm."""
    # Nothing can be learned from independent tokens, so these arms learned what there is.
    with_context = ~corpora.index.str.endswith(MEMORYLESS)
    runs_of_arms = corpora[corpora.index.isin(arms) & with_context]
    return list(runs_of_arms.index[runs_of_arms["learned"] <= 0])


def _unlearned(claim: Claim, runs: pd.DataFrame) -> list[str]:
    """The arms of a claim that compares two corpora whose backbones learned nothing. The
    claim over all corpora has them on purpose."""
    if claim.measure == "predicts":
        return []
    return not_learned(claim.backbones, runs.groupby("arm")[["learned"]].mean())


def recorded_baseline(profile: Profile, name: str) -> Baseline | None:
    """The best trivial baseline of a task of the profile. None if it needs data that are
    fetched and is not recorded: a verdict must not depend on which data happen to be on
    this machine."""
    if name not in profile.tasks:
        return None
    task = task_named(name, profile.tasks[name])
    # What is generated is the same everywhere; other data may not be here.
    if isinstance(task, FiniteTask) and task.needs and task.recorded_floors() is None:
        return None
    return best_baseline(task)


def neither_learned(claim: Claim, runs: pd.DataFrame, profile: Profile) -> str:
    """Why there is nothing to compare: no run of either arm reaches the threshold, or both
    arms are at or below the best trivial baseline of every task, or do no better than
    guessing. Empty if an arm learned something."""
    # An accuracy below a linear classifier is no achievement, however large a difference
    # is.
    if claim.measure in ("steps", "solved", "predicts"):
        no_run = runs["censored"].astype(bool).all()
        return "no run of either arm reaches the threshold" if no_run else ""
    if claim.measure == "area" and not _any_area_learned(claim, runs, profile):
        return f"the areas of both arms are above {LEARNED:g} times that of guessing"
    reasons = []
    for task in claim.tasks:
        best = recorded_baseline(profile, task)
        means = 100 * runs[runs["task"] == task].groupby("arm")["test_accuracy"].mean()
        if best is None or means.max() > best.accuracy:
            return ""
        first, second = (means[arm] for arm in claim.backbones)
        baseline = f"({best.name}, {best.accuracy:.1f}%)"
        reasons.append(
            f"{first:.1f}% and {second:.1f}%, both below a trivial baseline {baseline}"
        )
    return "; ".join(reasons)


def _any_area_learned(claim: Claim, runs: pd.DataFrame, profile: Profile) -> bool:
    """Whether the area of an arm is below that of guessing, as registered."""
    name = claim.tasks[0]
    task = task_named(name, profile.tasks[name])
    by_arm = runs.assign(value=tested_values(runs)).groupby("arm")["value"]
    return any(is_learned(areas, task) for _, areas in by_arm)


def at_baseline(claim: Claim, runs: pd.DataFrame, profile: Profile) -> tuple[str, ...]:
    """The arms of a claim about areas that learned nothing that counts: their mean test
    accuracy is at or below the best trivial baseline."""
    # The area cannot tell: a loss that rises before it falls may have that of guessing.
    best = recorded_baseline(profile, claim.tasks[0])
    if best is None:
        return ()
    means = 100 * runs.groupby("arm")["test_accuracy"].mean()
    return tuple(arm for arm in claim.backbones if means[arm] <= best.accuracy)


def low_thresholds(claim: Claim, runs: pd.DataFrame, profile: Profile) -> list[str]:
    """A sentence for each task of a claim whose threshold a trivial baseline exceeds. A
    sentence about it has to say so: reaching such a threshold is not yet an achievement."""
    if claim.measure not in ("steps", "solved"):
        return []
    sentences = []
    for task, threshold in runs.groupby("task", sort=False)["threshold"].first().items():
        best = recorded_baseline(profile, str(task))
        if best is not None and best.accuracy >= 100 * threshold:
            sentences.append(f"{100 * threshold:g}% on {task} is below a {best}")
    return sentences


def ended(claim: Claim, runs: pd.DataFrame) -> dict[tuple[str, str], int]:
    """How many runs of each arm on each task end at their budget, below the threshold."""
    if claim.measure != "steps":
        return {}
    runs = runs.astype({"censored": int})
    counts: dict[tuple[str, str], int]
    counts = runs.groupby(["arm", "task"])["censored"].sum().to_dict()
    return counts


def with_one_backbone(claim: Claim, runs: pd.DataFrame) -> tuple[str, ...]:
    """The arms whose several runs all freeze one pretrained backbone: their seeds vary the
    nets around it alone."""
    if claim.measure == "predicts":
        return ()
    # Runs without weights have a random backbone each, and draws from the statistics of
    # one backbone are backbones of their own.
    counts = runs.groupby("arm")[["weights", "seed"]].nunique()
    shared = counts.index[(counts["weights"] == 1) & (counts["seed"] > 1)]
    return tuple(
        arm
        for arm in claim.backbones
        if arm in shared and arm_named(arm).init == "pretrained"
    )
