"""The registered claims of the lab: the test of each, and the verdicts of all of them together.

A primary claim is judged by one number and one p-value; Holm's correction holds the chance that any
true null is called supported at 5%. A claim that pools tasks is undecided if one of its tasks
contradicts it significantly. Secondary claims hold a false-discovery rate of 5% instead.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy.stats import norm

from .. import config
from ..config import Run
from ..pretraining import metadata
from ..records import store
from ..sections.registration import deviations, registered_seeds, registration
from .effects import Effect, difference, falls_with, more_solved
from .study import Study
from .summary import backbone_means

LAB = "lab"  # the profile of registered claims
ALPHA = 0.05
MEMORYLESS = ("-uniform", "-unigram")  # arms whose corpus has nothing to learn from context
MOST_CENSORED = 0.1  # of the runs of the arm that is claimed to be the better one
Kind = Literal["primary", "secondary"]
KINDS: tuple[Kind, ...] = ("primary", "secondary")
Label = Literal["supported", "contradicted", "undecided"]
UNKNOWN = Effect(math.nan, math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Claim:
    """One registered claim.

    `measure` is `steps` (to the threshold: the first arm needs fewer), `accuracy` (on the test set:
    the first has more), `gap` (training minus test accuracy: the first has less), `solved` (a
    larger share of runs of the first is at the threshold) or `predicts` (over corpora, what was
    learned from context goes with fewer steps). `margin`: the ratio of steps or the points of
    accuracy that the difference must exceed. `backbones`: arm -> number of them. `expected`: the
    effect for which `power` was simulated. `withdrawn`: why none of its runs is planned any more.
    """

    name: str
    statement: str
    source: str
    measure: Literal["steps", "accuracy", "gap", "solved", "predicts"]
    backbones: Mapping[str, int]
    tasks: tuple[str, ...]
    margin: float = 0.0
    expected: float = math.nan
    power: float = math.nan
    error: float = math.nan
    withdrawn: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim with what its runs say: its effect (natural log of a ratio of steps, a difference of
    accuracies or shares, or a correlation), adjusted p and verdict, and why it is undecided."""

    claim: Claim
    effect: Effect
    n: Mapping[str, int]
    adjusted: float
    label: Label
    reason: str = ""

    @property
    def effect_text(self) -> str:
        """`0.55× the steps [0.40, 0.76]`, or points, or a correlation, with a 95% interval."""
        values = np.array([self.effect.estimate, self.effect.low, self.effect.high])
        if self.claim.measure == "predicts":
            return "rank correlation {:.2f} [{:.2f}, {:.2f}]".format(*values)
        if self.claim.measure == "steps":
            text = "{:.2f}× the steps [{:.2f}, {:.2f}]".format(*np.exp(values))
            return text.removesuffix(" [nan, nan]")
        if self.claim.measure == "accuracy":  # the test is on minus the accuracy
            values = -values[[0, 2, 1]]
        return "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*(100 * values))

    @property
    def in_numbers(self) -> str:
        """Effect, n and verdict, within a sentence."""
        gated = self.label == "undecided" and self.adjusted < ALPHA
        because = f", since {self.reason.partition(';')[0]}" if gated else ""
        return f"{self.effect_text} ({self.n_text}; {self.label}{because})"

    @property
    def is_judged(self) -> bool:
        """Whether all runs of the claim are recorded."""
        return not math.isnan(self.effect.estimate)

    @property
    def n_text(self) -> str:
        """`n = 12 and 12` backbones, or `17 corpora`."""
        if self.claim.measure == "predicts":
            return f"{len(self.n)} corpora"
        if len(counts := {*self.n.values()}) == 1:
            return f"n = {counts.pop()} each"
        return "n = " + " and ".join(str(count) for count in self.n.values())


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


def runs_of(them: Sequence[Claim]) -> Study:
    """The planned runs that some claims are judged on, each once."""
    profile = config.load(LAB)
    found: dict[tuple[str, str, int], Run] = {}
    for it in them:
        for arm, count in () if it.withdrawn else it.backbones.items():
            for task in it.tasks:
                for seed in registered_seeds(count):
                    spec = config.make_spec(profile, arm, task, seed)
                    found[arm, task, seed] = Run(arm, task, spec)
    return Study("claims", profile, tuple(found.values()))


def results_of(them: Sequence[Claim]) -> pd.DataFrame:
    """The recorded runs of some claims: the columns of `Study.frame`."""
    frame = runs_of(them).frame()
    recorded = frame[frame["status"] != "not run"]
    return recorded.reindex(columns=frame.columns.union(["test_accuracy", "train_accuracy"]))


def corpora(results: pd.DataFrame, profile: str = LAB) -> pd.DataFrame:
    """Per arm, over its backbones: the nats per token that they learned from context (entropy of
    single tokens minus held-out loss) and the logarithm of their weight scale."""
    rows = []
    pretrained = results[["arm", "weights"]].dropna().drop_duplicates()
    for arm, name in pretrained.itertuples(index=False):
        found = metadata.read(store(profile).folder, name)
        if "weight_scale" in found and "unigram_entropy" in found:
            learned = found["unigram_entropy"] - found["valid_loss"]
            rows.append({"arm": arm, "learned": learned, "scale": np.log(found["weight_scale"])})
    return pd.DataFrame(rows, columns=["arm", "learned", "scale"]).groupby("arm").mean()


def findings(kind: Kind) -> list[Finding]:
    """What the records of `lab` say of the registered claims of one kind: the verdicts that every
    page, the index, the README and the metrics show."""
    them = claims(kind)
    results = results_of(them)
    return verdicts(them, results, corpora(results))


def effect_of(it: Claim, results: pd.DataFrame, corpora: pd.DataFrame | None = None) -> Effect:
    """The test of a claim on `results`; `corpora`, for `predicts`, is that of the function."""
    mine = results[results["arm"].isin(it.backbones) & results["task"].isin(it.tasks)]
    if it.measure == "predicts":
        assert corpora is not None
        means = backbone_means(mine, it.tasks).groupby("arm").mean()
        known = corpora.loc[[arm for arm in it.backbones if arm in means.index]]
        return falls_with(known["learned"], means[known.index], known["scale"])
    first, second = it.backbones
    if it.measure == "solved":
        reached = ~mine["censored"].astype(bool)
        return more_solved(*(list(reached[mine["arm"] == arm]) for arm in (first, second)))
    gap = mine["train_accuracy"] - mine["test_accuracy"] if it.measure == "gap" else None
    if it.measure == "steps":
        value, margin = mine["score"], math.log(it.margin or 1.0)
    else:
        value, margin = -mine["test_accuracy"] if gap is None else gap, it.margin
    means = backbone_means(mine.assign(value=value), it.tasks, "value")
    return difference(_of(means, first), _of(means, second), margin)


def _of(means: pd.Series, arm: str) -> list[float]:
    return list(means[means.index.get_level_values("arm") == arm])


def contradicting(it: Claim, results: pd.DataFrame) -> list[str]:
    """The tasks on which the opposite of a pooled claim about steps is significant, at 5% over
    these tasks."""
    if it.measure != "steps" or len(it.tasks) < 2:
        return []
    first, second = it.backbones
    found = []
    for task in it.tasks:
        means = backbone_means(results[results["task"] == task], [task])
        if difference(_of(means, second), _of(means, first)).p < ALPHA / len(it.tasks):
            found.append(task)
    return found


def counted(it: Claim, results: pd.DataFrame) -> dict[str, int]:
    """How many backbones of each arm have all the tasks of a claim."""
    mine = results[results["arm"].isin(it.backbones) & results["task"].isin(it.tasks)]
    tasks = mine.groupby(["arm", "seed"])["task"].nunique()
    whole = tasks[tasks == len(it.tasks)].groupby("arm").size()
    return {arm: int(whole.get(arm, 0)) for arm in it.backbones}


def verdicts(
    them: Sequence[Claim], results: pd.DataFrame, corpora: pd.DataFrame | None = None
) -> list[Finding]:
    """The findings of all claims of one kind: Holm's correction over primary ones, Benjamini and
    Hochberg's over secondary ones (more than twelve). A claim whose runs are not all here is
    undecided, and counts in the correction."""
    from statsmodels.stats.multitest import multipletests

    counts = [counted(it, results) for it in them]
    missing = [_missing(it, n) for it, n in zip(them, counts, strict=True)]
    effects = [
        UNKNOWN if lack else effect_of(it, results, corpora)
        for it, lack in zip(them, missing, strict=True)
    ]
    method = "holm" if len(them) <= 12 else "fdr_bh"
    adjusted, opposite = (
        multipletests([1.0 if math.isnan(p) else p for p in ps], method=method)[1]
        for ps in ([e.p for e in effects], [e.against for e in effects])
    )
    found = []
    for it, n, lack, effect, p, against in zip(
        them, counts, missing, effects, adjusted, opposite, strict=True
    ):
        label, reason = _judged(it, results, p, against)
        if lack:
            label, reason = "undecided", it.withdrawn or f"present are {lack}"
        elif it.measure != "predicts" and (failed := not_learned(it.backbones, corpora)):
            label, reason = "undecided", f"not learned by its backbones: {', '.join(failed)}"
        elif math.isnan(effect.p):
            reason = "no run of either arm reaches the threshold; a larger budget would decide it"
        elif label == "undecided" and p >= ALPHA:
            reason += f"; {enough(effect, n)} would decide an effect of this size"
        found.append(Finding(it, effect, n, float(p), label, reason))
    return found


def _missing(it: Claim, n: Mapping[str, int]) -> str:
    few = {arm: need for arm, need in it.backbones.items() if n[arm] < need}
    return ", ".join(f"{n[arm]} of {need} {arm}" for arm, need in few.items())


def not_learned(arms: Collection[str], corpora: pd.DataFrame | None) -> list[str]:
    """The arms whose backbones learned nothing from the context of their corpus, though it has
    something."""
    if corpora is None:
        return []
    mine = corpora[corpora.index.isin(arms) & ~corpora.index.str.endswith(MEMORYLESS)]
    return list(mine.index[mine["learned"] <= 0])


def enough(effect: Effect, n: Mapping[str, int]) -> str:
    """How many backbones, or corpora, have a power of 80% at a primary claim's level if the effect
    is the one that was found, whatever its direction; by the normal approximation."""
    found = norm.isf(min(effect.p, effect.against))
    here, what = (len(n), "corpora") if len(n) > 2 else (min(n.values()), "backbones of each arm")
    count = here * ((norm.isf(ALPHA / 12) + norm.isf(0.2)) / max(found, 1e-3)) ** 2
    return f"more than 1,000 {what}" if count > 1000 else f"about {count:.0f} {what}"


def _judged(it: Claim, results: pd.DataFrame, p: float, against: float) -> tuple[Label, str]:
    if against < ALPHA:
        return "contradicted", ""
    margin = ", or less than the margin" if it.margin else ""
    if p >= ALPHA:
        return "undecided", "the interval holds both directions" + margin
    if opposed := contradicting(it, results):
        return (
            "undecided",
            f"the opposite holds on {', '.join(opposed)}; one claim per task would be decided",
        )
    if it.measure == "steps":
        better = results[
            (results["arm"] == next(iter(it.backbones))) & results["task"].isin(it.tasks)
        ]
        if better["censored"].mean() > MOST_CENSORED:
            reason = "too many runs of the first arm end before the threshold"
            return "undecided", f"{reason}; a larger budget would decide it"
    return "supported", ""
