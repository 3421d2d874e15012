"""The verdicts on registered claims: of every profile by `findings`, and how those of the
lab come about.

A primary claim is judged by one number and one p-value; Holm's correction holds the chance
that any true null is called supported at 5%, and that any is called contradicted at another
5%. Secondary claims hold false-discovery rates of 5% instead. A claim whose tasks differ in
the sign of their effects depends on the task: their mean is no finding
(`fpt.claims.gates`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from .. import config
from ..analysis.effects import corrected
from ..analysis.study import Study
from ..pretraining import metadata
from ..profile import Run
from ..records import store
from ..sections.registration import LANGUAGE, registered_seeds
from . import gates, sensitivity
from .claim import KINDS, LAB, Claim, Kind, claims, counted, effects_of, own_runs
from .finding import Finding, listed
from .model_claims import cells, model_claims, model_findings, model_results
from .pooled import Pooled

READ = [  # the columns of results that verdicts rest on
    "arm", "task", "seed", "weights", "threshold", "steps", "accuracy", "censored",
    "test_accuracy", "train_accuracy", "learned", "scale",
]  # fmt: skip


def runs_of(claims: Iterable[Claim]) -> Study:
    """The planned runs that some claims are judged on, each once."""
    profile = config.load(LAB)
    places = {
        (arm, task, seed): None
        for claim in claims
        if not claim.withdrawn
        for arm, count in claim.backbones.items()
        for task in claim.tasks
        for seed in registered_seeds(count)
    }
    runs = [
        Run(arm, task, config.make_spec(profile, arm, task, seed))
        for arm, task, seed in places
    ]
    return Study("claims", profile, tuple(runs))


def results_of(claims: Iterable[Claim]) -> pd.DataFrame:
    """The recorded runs of some claims: the columns of `Study.frame`, and of backbones that
    were pretrained here what they `learned` from context and the logarithm of their weight
    `scale`."""
    frame = runs_of(claims).frame()
    recorded = frame[frame["status"] != "not run"]
    return recorded.join(_pretraining(recorded["weights"], LAB), on="weights")


def corpora(results: pd.DataFrame, profile: str = LAB) -> pd.DataFrame:
    """Per arm, over its backbones: the nats per token that they learned from context
    (entropy of single tokens minus held-out loss) and the logarithm of their weight
    scale."""
    backbones = results[["arm", "weights"]].drop_duplicates()
    frame = backbones.join(_pretraining(results["weights"], profile), on="weights")
    return frame.dropna().groupby("arm")[["learned", "scale"]].mean()


def _pretraining(weights: "pd.Series[str]", profile: str) -> pd.DataFrame:
    """What each backbone learned from context, in nats per token, and the logarithm of its
    weight scale, by name; without those whose metadata do not say."""
    rows = {}
    # Weights from the hub, or made before there was metadata, have none of this.
    for name in weights.dropna().unique():
        content = metadata.read(store(profile).folder, name)
        if "weight_scale" in content and "unigram_entropy" in content:
            learned = content["unigram_entropy"] - content["valid_loss"]
            rows[name] = (learned, math.log(content["weight_scale"]))
    names = pd.Index(list(rows), dtype=str)  # also if there are none
    return pd.DataFrame(list(rows.values()), names, ["learned", "scale"], dtype=float)


def findings(kind: Kind, profile: str = LAB) -> list[Finding]:
    """What the records of a profile say of its registered claims of one kind: the verdicts
    that every page, the index, the README and the metrics show.

    If an arm of the lab has a better rate than the registered one, and with it the verdict
    is another, the claim is undecided: nothing rests on the worse rate."""
    if profile == LANGUAGE:
        return model_findings(kind)
    # All claims of a kind are judged together, since the correction is over all of them.
    registered = claims(kind)
    results = results_of(registered)
    better = sensitivity.better_rates(results)
    at_registered = verdicts(registered, results, kind)
    if better.empty:
        return at_registered
    at_better = verdicts(registered, sensitivity.with_runs(results, better), kind)
    pairs = zip(at_registered, at_better, strict=True)
    return [_at_both_rates(first, second, better) for first, second in pairs]


def registered_claims(kind: Kind, profile: str) -> list[Claim]:
    """The registered claims of a profile of one kind, in their order."""
    return model_claims(kind) if profile == LANGUAGE else claims(kind)


def runs_behind(claim: Claim, profile: str = LAB) -> pd.DataFrame:
    """The recorded runs that a claim of a profile is judged on, as rows of
    `Study.frame`."""
    if profile == LAB:
        return own_runs(claim, results_of([claim]))
    return cells(claim, model_results(*KINDS))


def _at_both_rates(
    registered: Finding, at_better: Finding, better: pd.DataFrame
) -> Finding:
    """A finding with the same claim at better rates of its arms, if there are any."""
    claim = registered.claim
    runs = better[better["arm"].isin(claim.backbones) & better["task"].isin(claim.tasks)]
    if runs.empty:
        return registered
    places = runs[["arm", "task", "lr"]].drop_duplicates().itertuples(index=False)
    rates = listed([f"{arm} on {task} at {lr:g}" for arm, task, lr in places])
    finding = replace(
        registered, elsewhere=at_better, rates=f"with the better rate for {rates}"
    )
    # A verdict that holds at both rates is not in doubt; only its effect is said twice.
    if at_better.label == registered.label:
        return finding
    reason = (
        f"{registered.label} at the registered rates, {at_better.label} {finding.rates}"
    )
    return replace(finding, label="undecided", reason=reason)


def verdicts(
    claims: Sequence[Claim], results: pd.DataFrame, kind: Kind = "primary"
) -> list[Finding]:
    """The findings of all claims of one kind, from the columns READ of `results`: Holm's
    correction over primary ones, Benjamini and Hochberg's over secondary ones. A claim
    whose runs are not all here is undecided, and counts in the correction."""
    # What is not here is NaN, so no gate asks which columns it was given.
    results = results.reindex(columns=READ)
    profile = config.load(LAB)
    tested = [_tested(claim, results, profile) for claim in claims]
    adjusted = corrected([finding.effect.p for finding in tested], kind)
    opposite = corrected([finding.effect.against for finding in tested], kind)
    unequal = corrected([finding.heterogeneity for finding in tested], kind)
    findings = []
    for index, finding in enumerate(tested):
        judged = replace(
            finding,
            adjusted=adjusted[index],
            opposite=opposite[index],
            heterogeneity=unequal[index],
        )
        if not finding.reason:
            runs = own_runs(finding.claim, results)
            judged = gates.judge(judged, runs, profile)
        findings.append(judged)
    return findings


def _tested(claim: Claim, results: pd.DataFrame, profile: config.Profile) -> Finding:
    """A claim with its effects, before any correction, or with the reason why it has
    none."""
    runs = own_runs(claim, results)
    n = counted(claim, runs)
    # Part of the runs would be a choice that was not registered.
    missing = [
        f"{n[arm]} of {count} {arm}"
        for arm, count in claim.backbones.items()
        if n[arm] < count
    ]
    if missing:
        reason = claim.withdrawn or f"present are {', '.join(missing)}"
        return Finding(claim, Pooled().mean, n, reason=reason)
    effects = effects_of(claim, runs)
    return Finding(
        claim,
        effects.mean,
        n,
        heterogeneity=effects.unequal,
        by_task=effects.by_task,
        ended=gates.ended(claim, runs),
        one_backbone=gates.with_one_backbone(claim, runs),
        notes=tuple(gates.low_thresholds(claim, runs, profile)),
    )
