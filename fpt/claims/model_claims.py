"""The registered claims of profile `language` and their verdicts: one published model, one
control, one task.

The measure is the area under the validation loss over a fixed number of steps
(`fpt.analysis.steps.area`), as a logarithm, so that a difference is a ratio. The tests are
those of `fpt.analysis.crossed`. Both directions of a primary claim are news, so its p-value
is two-sided.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from .. import config
from ..analysis import crossed
from ..analysis.effects import UNKNOWN, Effect, corrected
from ..analysis.study import Study
from ..analysis.summary import tested_values
from ..profile import Profile, Run
from ..sections.arms import label
from ..sections.registration import LANGUAGE, registration, withdrawal
from . import gates
from .claim import Claim, Kind, Test
from .finding import NO_SPREAD, Finding, Label
from .pooled import ALPHA

# What the names of a model's arms end in -> the model.
MODELS = {"": "SmolLM2", "@6": "SmolLM2@6", "-minilm": "MiniLM"}
STATEMENTS: Mapping[Test, str] = {
    "difference": "On {task}, the areas of “{first}” and “{second}” differ.",
    "suffices": (
        "On {task}, the area of “{first}” is at most {margin:g} times that of “{second}”."
    ),
    "rank": (
        "On {task}, the area of “{first}” is not one that a draw of “{second}” could have."
    ),
}


@cache
def planned_runs() -> tuple[Run, ...]:
    """Every run that the sections of profile `language` plan, each once."""
    profile = config.load(LANGUAGE)
    runs = [run for name in profile.sections for run in config.expand(profile, name)]
    return tuple({run.key: run for run in runs}.values())


def model_claims(kind: Kind) -> list[Claim]:
    """The registered claims of one kind, in their order: of each entry, each of its arms
    `second` on each of its `tasks`."""
    claims = []
    for entry in registration(LANGUAGE)[kind]:
        # One entry may be several claims, each of its own in the correction.
        settings: dict[str, Any] = {"test": "difference", "margin": 1.0, **entry}
        first = settings.pop("first")
        seconds = settings.pop("second")
        for task in settings.pop("tasks"):
            claims += [_claim(first, second, task, **settings) for second in seconds]
    return claims


def _claim(
    first: str, second: str, task: str, test: Test, margin: float, **power: Any
) -> Claim:
    names = {"first": label(first), "second": label(second), "task": task, "margin": margin}
    planned = Counter(run.arm for run in planned_runs() if run.task == task)
    name = "/".join([first, second, task, *([test] if test != "difference" else [])])
    return Claim(
        name=name,
        statement=STATEMENTS[test].format(**names),
        source="",
        measure="area",
        backbones={arm: planned[arm] for arm in (first, second)},
        tasks=(task,),
        margin=margin,
        test=test,
        withdrawn=withdrawal(LANGUAGE, name, (first, second), (task,)),
        **power,
    )


def runs_of(claims: Iterable[Claim], planned: Iterable[Run]) -> list[Run]:
    """The planned runs that some claims are judged on."""
    cells = {
        (arm, task) for claim in claims for task in claim.tasks for arm in claim.backbones
    }
    return [run for run in planned if (run.arm, run.task) in cells]


def model_results(*kinds: Kind) -> pd.DataFrame:
    """The recorded runs that the claims of some kinds are judged on, each once: the columns
    of `Study.frame`."""
    profile = config.load(LANGUAGE)
    claims = [claim for kind in kinds for claim in model_claims(kind)]
    runs = runs_of(claims, planned_runs())
    frame = Study("claims", profile, tuple(runs)).frame()
    return frame[frame["status"] != "not run"]


def model_findings(kind: Kind, results: pd.DataFrame | None = None) -> list[Finding]:
    """The verdicts on the claims of one kind; `results` are by default those that are
    recorded. A claim whose runs are not all here is undecided, and counts in the
    correction."""
    results = model_results(kind) if results is None else results
    profile = config.load(LANGUAGE)
    tested = [
        _tested(claim, cells(claim, results), profile) for claim in model_claims(kind)
    ]
    adjusted = corrected([finding.effect.p for finding in tested], kind)
    waiting = sum(not (finding.is_judged or finding.claim.withdrawn) for finding in tested)
    judged = [
        _judged(finding, p, waiting) for finding, p in zip(tested, adjusted, strict=True)
    ]
    return with_fragility(judged, results) if kind == "primary" else judged


def with_fragility(findings: Sequence[Finding], results: pd.DataFrame) -> list[Finding]:
    """The same verdicts on primary claims; one that would not pass without one of its
    seeds says so. It decides nothing."""
    checked = []
    for finding in findings:
        if not finding.adjusted < ALPHA:
            checked.append(finding)
            continue
        # What Holm's correction asks of this claim, given those with a smaller p.
        p = finding.effect.p
        level = ALPHA / sum(not other.effect.p < p for other in findings)
        ps = without_each_seed(finding.claim, cells(finding.claim, results))
        failing = sorted(value for value in ps.values() if value >= level)
        text = ""
        if failing:
            low, high = (f"{value:.2g}" for value in (failing[0], failing[-1]))
            text = (
                f"without any one of {len(failing)} of its {len(ps)} seeds it would not "
                f"pass (p {low} to {high}, needed {level:.2g})"
            )
        notes = (*finding.notes, text) if text else finding.notes
        checked.append(replace(finding, fragile=text, notes=notes))
    return checked


def without_each_seed(claim: Claim, runs: pd.DataFrame) -> dict[int, float]:
    """The p-value of a claim without one of the seeds that its arms share, by this
    seed."""
    of_arms = (runs[runs["arm"] == arm] for arm in claim.backbones)
    first, second = crossed.on_shared_seeds(*of_arms)
    return {
        int(seed): effect_of(claim, first.drop(columns=seed), second.drop(columns=seed)).p
        for seed in first
    }


def cells(claim: Claim, results: pd.DataFrame) -> pd.DataFrame:
    """The runs of both arms on the task of a claim."""
    runs = results[results["arm"].isin(claim.backbones) & results["task"].isin(claim.tasks)]
    return runs.assign(value=tested_values(runs))


def _tested(claim: Claim, runs: pd.DataFrame, profile: Profile) -> Finding:
    """A claim with its effect, before any correction, or with the reason why it has
    none."""
    counts = runs["arm"].value_counts()
    n = {arm: int(counts.get(arm, 0)) for arm in claim.backbones}
    if claim.withdrawn:
        return Finding(claim, UNKNOWN, n, reason=claim.withdrawn)
    if n != claim.backbones:
        planned = sum(claim.backbones.values())
        return Finding(
            claim, UNKNOWN, n, reason=f"{len(runs)} of {planned} runs are recorded"
        )
    reason = gates.neither_learned(claim, runs, profile)
    if reason:
        words = "neither arm learned"
        return Finding(
            claim, UNKNOWN, n, label="neither learned", reason=reason, instead=words
        )
    of_arms = (runs[runs["arm"] == arm] for arm in claim.backbones)
    tables = crossed.on_shared_seeds(*of_arms)
    # Other runs play no part in the test.
    used = dict(zip(claim.backbones, (table.size for table in tables), strict=True))
    return Finding(
        claim,
        effect_of(claim, *tables),
        used,
        at_baseline=gates.at_baseline(claim, runs, profile),
        notes=tuple(_notes(claim, *tables)),
    )


def effect_of(claim: Claim, first: pd.DataFrame, second: pd.DataFrame) -> Effect:
    """The effect of a claim, the logarithm of a ratio, first over second, and its p-value,
    from tables of logarithms."""
    effect = crossed.difference(first, second, math.log(claim.margin))
    if claim.test == "suffices":
        return effect
    if claim.test == "rank":
        draws = list(second.mean(axis=1))
        return replace(effect, p=crossed.rank_among(first.mean().mean(), draws))
    return replace(effect, p=crossed.two_sided(effect))


def _notes(claim: Claim, first: pd.DataFrame, second: pd.DataFrame) -> Iterable[str]:
    """What stands beside a verdict and decides nothing."""
    if claim.test == "rank":
        above = int((second.mean(axis=1) > first.mean().mean()).sum())
        yield (
            f"{above} of {len(second)} draws have a larger area than the model; the least "
            f"p that so many draws can give is {2 / (len(second) + 1):.2g}"
        )
    elif claim.test == "difference" and len(second) > 1:
        place = "outside" if crossed.is_unlike_draws(first, second) else "within"
        yield f"the model lies {place} the interval of one more draw of the control"


def _judged(finding: Finding, adjusted: float, waiting: int) -> Finding:
    """A finding with its adjusted p and its verdict; `waiting`: the claims of its kind that
    wait for runs."""
    finding = replace(finding, adjusted=adjusted)
    if not finding.is_judged or finding.label == "neither learned":
        return finding
    if adjusted < ALPHA:
        label: Label = "helps" if finding.effect.estimate < 0 else "hurts"
        # One-sided: the first arm may have a larger area, within the margin.
        if finding.claim.test == "suffices":
            label = "suffices"
        return replace(finding, label=label)
    # A claim that waits has a p-value of 1 in the correction; judged, it may have a lower
    # one, and then this claim may pass.
    if waiting and finding.effect.p < ALPHA:
        reason = f"{waiting} claims of its correction lack runs"
        return replace(finding, reason=reason, notes=(*finding.notes, reason))
    if not finding.is_tested:
        finding = replace(finding, reason=NO_SPREAD)
    notes = finding.notes
    # The registered words are these also where the two arms differ clearly.
    if finding.claim.test == "suffices":
        notes = (*notes, "not shown to suffice")
    return replace(finding, label="no clear difference", notes=notes)


def model_of(claim: Claim) -> str:
    """The real language model that a claim is about."""
    first = next(iter(claim.backbones))
    suffixes = [suffix for suffix in MODELS if first.endswith(suffix)]
    return MODELS[max(suffixes, key=len)]
