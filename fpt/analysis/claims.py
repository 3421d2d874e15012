"""The registered claims of the lab: their runs, and the verdicts on all of them together.

A primary claim is judged by one number and one p-value; Holm's correction holds the chance that any
true null is called supported at 5%, and that any is called contradicted at another 5%. Secondary
claims hold false-discovery rates of 5% instead. A claim whose tasks differ in the sign of their
effects depends on the task: their mean is no finding (`fpt.analysis.gates`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import norm

from .. import config
from ..config import Run
from ..pretraining import metadata
from ..records import store
from ..sections.arms import arm as arm_named
from ..sections.registration import deviations, registered_seeds, registration
from . import gates, sensitivity
from .claim import (
    ALPHA,
    KINDS,
    LAB,
    Claim,
    Kind,
    counted,
    effect_of,
    effects_by_task,
    heterogeneity_of,
    own_runs,
)
from .effects import Effect
from .finding import Finding
from .gates import not_learned
from .study import Study

__all__ = [  # with what notebooks and pages read from here
    "ALPHA",
    "KINDS",
    "LAB",
    "Claim",
    "Finding",
    "Kind",
    "claims",
    "corpora",
    "enough",
    "findings",
    "not_learned",
    "results_of",
    "runs_of",
    "verdicts",
]
UNKNOWN = Effect(math.nan)
READ = (  # the columns of results that verdicts rest on
    *("arm", "task", "seed", "weights", "threshold", "score", "censored"),
    *("test_accuracy", "train_accuracy", "learned", "scale"),
)


def claims(kind: Kind) -> list[Claim]:
    """The registered claims of one kind, in their order."""
    withdrawn = {
        name: f"withdrawn on {it['date']}, before any of its runs (docs/plan.md)"
        for it in deviations()
        for name in it["withdrawn"]
    }
    return [
        Claim(**{**it, "tasks": tuple(it["tasks"])}, name=name, withdrawn=withdrawn.get(name, ""))
        for name, it in registration()[kind].items()
    ]


def runs_of(claims: Sequence[Claim]) -> Study:
    """The planned runs that some claims are judged on, each once."""
    profile = config.load(LAB)
    found: dict[tuple[str, str, int], Run] = {}
    for claim in claims:
        for arm, count in () if claim.withdrawn else claim.backbones.items():
            for task in claim.tasks:
                for seed in registered_seeds(count):
                    spec = config.make_spec(profile, arm, task, seed)
                    found[arm, task, seed] = Run(arm, task, spec)
    return Study("claims", profile, tuple(found.values()))


def results_of(claims: Sequence[Claim]) -> pd.DataFrame:
    """The recorded runs of some claims: the columns of `Study.frame`, and of backbones that were
    pretrained here what they `learned` from context and the logarithm of their weight `scale`."""
    frame = runs_of(claims).frame()
    recorded = frame[frame["status"] != "not run"]
    known = {name: _pretrained(name, LAB) for name in recorded["weights"].dropna().unique()}
    learned, scales = (
        recorded["weights"].map({name: values[index] for name, values in known.items()})
        for index in (0, 1)
    )
    columns = frame.columns.union(["test_accuracy", "train_accuracy"], sort=False)
    return recorded.reindex(columns=columns).assign(
        learned=learned.astype(float), scale=scales.astype(float)
    )


def corpora(results: pd.DataFrame, profile: str = LAB) -> pd.DataFrame:
    """Per arm, over its backbones: the nats per token that they learned from context (entropy of
    single tokens minus held-out loss) and the logarithm of their weight scale."""
    pretrained = results[["arm", "weights"]].dropna().drop_duplicates()
    rows = [(arm, *_pretrained(name, profile)) for arm, name in pretrained.itertuples(index=False)]
    frame = pd.DataFrame(rows, columns=["arm", "learned", "scale"]).dropna()
    return frame.astype({"learned": float, "scale": float}).groupby("arm").mean()


def _pretrained(weights: str, profile: str) -> tuple[float, float]:
    """What a backbone learned from context, in nats per token, and the logarithm of its weight
    scale; NaN if its metadata do not say."""
    content = metadata.read(store(profile).folder, weights)
    if "weight_scale" not in content or "unigram_entropy" not in content:
        return math.nan, math.nan
    learned = content["unigram_entropy"] - content["valid_loss"]
    return float(learned), float(np.log(content["weight_scale"]))


def findings(kind: Kind) -> list[Finding]:
    """What the records of `lab` say of the registered claims of one kind: the verdicts that every
    page, the index, the README and the metrics show.

    If an arm has a better rate than the registered one, and with it the verdict is another, the
    claim is undecided: nothing rests on the worse rate."""
    registered = claims(kind)
    results = results_of(registered)
    replaced = sensitivity.better_rates(results)
    found = verdicts(registered, results)
    if replaced.empty:
        return found
    others = verdicts(registered, sensitivity.with_runs(results, replaced))
    return [
        _at_both_rates(finding, other, replaced)
        for finding, other in zip(found, others, strict=True)
    ]


def _at_both_rates(finding: Finding, other: Finding, replaced: pd.DataFrame) -> Finding:
    """A finding with the same claim at better rates of its arms, if there are any."""
    mine = replaced[
        replaced["arm"].isin(finding.claim.backbones) & replaced["task"].isin(finding.claim.tasks)
    ]
    if mine.empty:
        return finding
    places = mine[["arm", "task", "lr"]].drop_duplicates().itertuples(index=False)
    rates = gates.listed([f"{arm} on {task} at {lr:g}" for arm, task, lr in places])
    whole = replace(finding, elsewhere=other, rates=f"with the better rate for {rates}")
    if other.label == finding.label:
        return whole
    reason = f"{finding.label} at the registered rates, {other.label} {whole.rates}"
    return replace(whole, label="undecided", reason=reason)


def verdicts(
    claims: Sequence[Claim], results: pd.DataFrame, corpora: pd.DataFrame | None = None
) -> list[Finding]:
    """The findings of all claims of one kind: Holm's correction over primary ones, Benjamini and
    Hochberg's over secondary ones (more than twelve). A claim whose runs are not all here is
    undecided, and counts in the correction.

    `results` is that of `results_of`; `corpora`, of the function, takes the place of its columns
    `learned` and `scale`."""
    from statsmodels.stats.multitest import multipletests

    if corpora is not None:
        kept = results.drop(columns=["learned", "scale"], errors="ignore")
        results = kept.join(corpora, on="arm")
    results = results[[name for name in READ if name in results]]
    runs = [own_runs(claim, results) for claim in claims]
    pairs = list(zip(claims, runs, strict=True))
    counts = [counted(*pair) for pair in pairs]
    lacking = [gates.missing(claim, n) for claim, n in zip(claims, counts, strict=True)]
    judged = [UNKNOWN if lack else None for lack in lacking]
    effects = [lack or effect_of(*pair) for lack, pair in zip(judged, pairs, strict=True)]
    differing = [
        math.nan if lack else heterogeneity_of(*pair)
        for lack, pair in zip(lacking, pairs, strict=True)
    ]
    method = "holm" if len(claims) <= 12 else "fdr_bh"
    adjusted, opposite, unequal = (
        multipletests([1.0 if math.isnan(p) else p for p in ps], method=method)[1]
        for ps in ([it.p for it in effects], [it.against for it in effects], differing)
    )
    profile = config.load(LAB)
    found = []
    for index, (claim, own) in enumerate(pairs):
        finding = Finding(claim, effects[index], counts[index], float(adjusted[index]), "undecided")
        if lacking[index]:
            reason = claim.withdrawn or f"present are {lacking[index]}"
            found.append(replace(finding, reason=reason))
            continue
        finding = replace(
            finding,
            heterogeneity=float(unequal[index]),
            by_task=effects_by_task(claim, own),
            ended=gates.ended(claim, own),
            one_backbone=_with_one_backbone(claim, own),
            notes=tuple(gates.low_thresholds(claim, own, profile)),
        )
        found.append(_judged(finding, own, profile, float(opposite[index])))
    return found


def _judged(
    finding: Finding, runs: pd.DataFrame, profile: config.Profile, against: float
) -> Finding:
    """A finding with its verdict. Gates come before p-values."""
    claim = finding.claim
    first = next(iter(claim.backbones))
    if failed := _unlearned(claim, runs):
        return replace(finding, reason=f"not learned by its backbones: {', '.join(failed)}")
    if nothing := gates.neither_learned(claim, runs, profile):
        instead = "neither arm learned" if claim.measure != "accuracy" else nothing
        return replace(finding, label="neither learned", reason=nothing, instead=instead)
    decided = min(finding.adjusted, against) < ALPHA
    if gates.depends_on_task(finding.by_task, finding.heterogeneity, decided):
        sides = gates.sides(claim, finding.by_task, finding.ended)
        return replace(finding, label="depends on the task", reason=sides, instead=sides)
    better = first if against >= ALPHA else list(claim.backbones)[-1]
    censored = gates.too_censored(claim, runs, better)
    if math.isnan(finding.effect.p):
        return replace(finding, reason="there is no spread to test against")
    if not decided:
        within = finding.effect.low <= 0 <= finding.effect.high
        reason = "the interval holds both directions" if within else "not after the correction"
        margin = ", or less than the margin" if claim.margin else ""
        need = f"{enough(finding.effect, finding.n)} would decide an effect of this size"
        return replace(finding, reason=f"{reason}{margin}; {need}")
    if censored:
        reason = f"too many runs of {better} end before the threshold"
        return replace(finding, reason=f"{reason}; a larger budget would decide it")
    return replace(finding, label="contradicted" if against < ALPHA else "supported")


def _unlearned(claim: Claim, runs: pd.DataFrame) -> list[str]:
    """The arms of a claim that compares two corpora whose backbones learned nothing. The claim over
    all corpora has them on purpose."""
    if claim.measure == "predicts" or "learned" not in runs:
        return []
    return not_learned(claim.backbones, runs.groupby("arm")[["learned"]].mean())


def _with_one_backbone(claim: Claim, runs: pd.DataFrame) -> tuple[str, ...]:
    """The arms whose several runs all freeze one pretrained backbone: their seeds vary the nets
    around it alone."""
    if "weights" not in runs or claim.measure == "predicts":
        return ()
    found = []
    for arm in claim.backbones:
        mine = runs[runs["arm"] == arm]
        same = mine["seed"].nunique() > 1 and mine["weights"].nunique(dropna=False) == 1
        # Draws from the statistics of one backbone are backbones of their own.
        if same and arm_named(arm).init == "pretrained":
            found.append(arm)
    return tuple(found)


def enough(effect: Effect, n: Mapping[str, int]) -> str:
    """How many backbones, or corpora, have a power of 80% at a primary claim's level if the effect
    is the one that was found, whatever its direction; by the normal approximation."""
    quantile = norm.isf(min(effect.p, effect.against))
    here, what = (len(n), "corpora") if len(n) > 2 else (min(n.values()), "backbones of each arm")
    count = here * ((norm.isf(ALPHA / 12) + norm.isf(0.2)) / max(quantile, 1e-3)) ** 2
    return f"more than 1,000 {what}" if count > 1000 else f"about {count:.0f} {what}"
