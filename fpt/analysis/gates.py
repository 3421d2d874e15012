"""What keeps a claim from being supported or contradicted by its p-value alone.

Each gate answers one question of the registration or of docs/design.md: are its runs here, did its
backbones learn their corpora, did either arm learn the task, is the effect the same on every task,
did enough runs end before their budget? `runs` are those of `fpt.analysis.claim.own_runs`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from ..config import Profile
from ..tasks import get_task
from ..tasks.base import FiniteTask
from ..tasks.datasets import read_manifest
from .claim import ALPHA, Claim, effects_by_task
from .effects import Effect

Label = Literal["supported", "contradicted", "undecided", "depends on the task", "neither learned"]
MEMORYLESS = ("-uniform", "-unigram")  # arms whose corpus has nothing to learn from context
FEWER, MORE = "fewer steps on", "more steps on"
UNCLEAR, NEITHER = "no clear difference on", "neither arm reaches the threshold of"
MOST_CENSORED = 0.1  # of the runs of the arm that is the better one


def missing(claim: Claim, n: Mapping[str, int]) -> str:
    """The arms that lack backbones: `7 of 8 random`."""
    few = {arm: need for arm, need in claim.backbones.items() if n[arm] < need}
    return ", ".join(f"{n[arm]} of {need} {arm}" for arm, need in few.items())


def not_learned(arms: Collection[str], corpora: pd.DataFrame | None) -> list[str]:
    """The arms whose backbones learned nothing from the context of their corpus, though it has
    something."""
    if corpora is None:
        return []
    mine = corpora[corpora.index.isin(arms) & ~corpora.index.str.endswith(MEMORYLESS)]
    return list(mine.index[mine["learned"] <= 0])


def best_baseline(profile: Profile, name: str) -> tuple[str, float] | None:
    """The best trivial baseline of a task of the profile and its accuracy in [0, 1]. None if none
    is recorded: a verdict must not depend on which data happen to be on this machine."""
    settings = profile.tasks.get(name)
    if settings is None:
        return None
    task = get_task(settings.get("name", name), **settings.get("options", {}))
    if isinstance(task, FiniteTask):
        entry = read_manifest().get(task.dataset.key, {})
        if task.name not in entry.get("floors", {}):
            return None
        if entry["examples"]["train"] != task.sizes["train"]:
            return None
    whole = {key: value for key, value in task.floors().items() if ": " not in key}
    best = max(whole, key=lambda key: whole[key])
    return best, whole[best]


def neither_learned(claim: Claim, runs: pd.DataFrame, profile: Profile) -> str:
    """Why there is nothing to compare: no run of either arm reaches the threshold, or both arms are
    at or below the best trivial baseline of every task. Empty if an arm learned something."""
    if claim.measure in ("steps", "solved", "predicts"):
        none = runs["censored"].astype(bool).all()
        return "no run of either arm reaches the threshold" if none else ""
    reasons = []
    for task in claim.tasks:
        best = best_baseline(profile, task)
        means = runs[runs["task"] == task].groupby("arm")["test_accuracy"].mean()
        if best is None or means.max() > best[1]:
            return ""
        first, second = (100 * means[arm] for arm in claim.backbones)
        reasons.append(
            f"{first:.1f}% and {second:.1f}%, both below a trivial baseline ({best[0]}, "
            f"{100 * best[1]:.1f}%)"
        )
    return "; ".join(reasons)


def low_thresholds(claim: Claim, runs: pd.DataFrame, profile: Profile) -> list[str]:
    """A sentence for each task of a claim whose threshold a trivial baseline exceeds. A sentence
    about it has to say so: reaching such a threshold is not yet an achievement."""
    if claim.measure not in ("steps", "solved") or "threshold" not in runs:
        return []
    sentences = []
    for task, threshold in runs.groupby("task", sort=False)["threshold"].first().items():
        best = best_baseline(profile, str(task))
        if best is not None and best[1] >= threshold:
            name, accuracy = best
            sentences.append(
                f"{100 * threshold:g}% on {task} is below a {name} ({100 * accuracy:.1f}%)"
            )
    return sentences


def contradicting(claim: Claim, runs: pd.DataFrame) -> list[str]:
    """The tasks on which the opposite of a pooled claim about steps is significant, at 5% over
    these tasks."""
    effects = effects_by_task(claim, runs)
    return [task for task, effect in effects.items() if effect.against < ALPHA / len(effects)]


def depends_on_task(
    effects: Mapping[str, Effect], heterogeneity: float, decided: bool = False
) -> bool:
    """Whether a mean over tasks would hide that its effects have opposite signs: they differ
    significantly (`heterogeneity` is the adjusted p), or the mean is `decided` though one task
    alone significantly opposes it, at 5% over these tasks."""
    estimates = [effect.estimate for effect in effects.values()]
    if not estimates or not min(estimates) < 0 < max(estimates):
        return False
    if heterogeneity < ALPHA:
        return True
    level = ALPHA / len(effects)
    if np.mean(estimates) <= 0:
        opposed = any(effect.against < level for effect in effects.values())
    else:
        opposed = any(effect.p < level for effect in effects.values())
    return decided and opposed


def ended(claim: Claim, runs: pd.DataFrame) -> dict[tuple[str, str], int]:
    """How many runs of each arm on each task end at their budget, below the threshold."""
    if claim.measure != "steps":
        return {}
    counts = runs["censored"].astype(bool).groupby([runs["arm"], runs["task"]]).sum()
    return {(str(arm), str(task)): int(count) for (arm, task), count in counts.items()}


def too_censored(claim: Claim, runs: pd.DataFrame, arm: str) -> bool:
    """Whether more than a tenth of the runs of `arm`, the better one, end before the threshold."""
    if claim.measure != "steps":
        return False
    return bool(runs.loc[runs["arm"] == arm, "censored"].mean() > MOST_CENSORED)


def bound(first_ended: int, second_ended: int) -> str:
    """What a ratio of steps, first over second, is if so many runs of each arm end at the budget:
    their true steps are more, so the ratio only bounds the true one."""
    if first_ended and second_ended:
        return "roughly "
    if first_ended:
        return "at least "
    return "at most " if second_ended else ""


def sides(claim: Claim, effects: Mapping[str, Effect], ends: Mapping[tuple[str, str], int]) -> str:
    """On which tasks the subject of a pooled claim needs fewer steps, on which more, and on which
    there is no clear difference, each with its ratio; at 5% over these tasks."""
    first, second = claim.backbones
    level = ALPHA / len(effects)
    groups: dict[str, list[str]] = {}
    for task, effect in effects.items():
        ratio, fewer, more = effect.estimate, effect.p, effect.against
        counts = [ends.get((first, task), 0), ends.get((second, task), 0)]
        if claim.is_about_second:
            ratio, fewer, more = -ratio, effect.against, effect.p
            counts.reverse()
        text = f"{task} ({bound(*counts)}{math.exp(ratio):.2f}×)"
        if all(counts) and math.isnan(effect.p):  # every run is at the budget
            groups.setdefault(NEITHER, []).append(task)
        elif fewer < level:
            groups.setdefault(FEWER, []).append(text)
        else:
            groups.setdefault(MORE if more < level else UNCLEAR, []).append(text)
    order = (FEWER, MORE, UNCLEAR, NEITHER)
    return "; ".join(f"{words} {listed(groups[words])}" for words in order if words in groups)


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
