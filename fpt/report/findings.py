"""The registered claims on the pages: their tables."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..analysis.effects import power
from ..claims.claim import LAB, Kind
from ..claims.finding import Finding
from ..claims.pooled import ALPHA
from ..claims.verdicts import findings
from ..files import read_json
from ..records import store
from ..tasks import task_of
from .table import NONE, Table, markdown_table

RECORDED = "power, recorded spread"  # a column


def table(findings: Sequence[Finding]) -> str:
    """Markdown: a row per claim."""
    rows = []
    for finding in findings:
        verdict: str = finding.label
        if finding.reason and finding.reason != finding.instead:
            verdict += f": {finding.reason}"
        if finding.fragile:
            verdict += f"; {finding.fragile}"
        judged = finding.is_judged
        row = {
            "claim": finding.claim.statement,
            "verdict": verdict,
            "effect": finding.effect_text if judged else "",
            "n": finding.n_text if judged else "",
            "adjusted p": _p_text(finding) if judged else "",
        }
        rows.append(row)
    return markdown_table(rows)


def _p_text(finding: Finding) -> str:
    """The adjusted p of what the verdict rests on."""
    if finding.label == "neither learned" or not finding.is_tested:
        return NONE
    if finding.label == "depends on the task":
        return f"{finding.heterogeneity:.2g} (of equal effects)"
    return f"{finding.adjusted:.2g}"


def claims_table(kind: Kind, profile: str = LAB) -> Table:
    """A row for each registered claim of one kind: verdict, effect, n, p and power."""
    rows = findings(kind, profile)
    numbers = pd.DataFrame([_numbers(finding, len(rows)) for finding in rows])
    effects = [finding.effect_text if finding.is_judged else NONE for finding in rows]
    texts = pd.DataFrame(
        {"verdict": numbers["verdict"], "effect": effects, "n": numbers["n"]}
    )
    withdrawn = [bool(finding.claim.withdrawn) for finding in rows]
    texts.loc[withdrawn, ["verdict", "n"]] = ["withdrawn", NONE]
    digits_by_name = {"p": ".2g", "adjusted": ".2g", "power": ".2f", RECORDED: ".2f"}
    for name, digits in digits_by_name.items():
        if numbers[name].notna().any():
            texts[name] = [
                NONE if math.isnan(value) else f"{value:{digits}}"
                for value in numbers[name]
            ]
    texts.index = numbers["claim"]
    direction = (
        "of the claimed direction" if profile == LAB else "two-sided except for “suffices”"
    )
    caption = f"Effects with 95% intervals; p {direction}, and adjusted for all claims."
    if RECORDED in texts:
        caption += (
            " “power” was simulated with the spread of the few runs of the search of "
            f"rates; “{RECORDED}” has the spread of these runs."
        )
    if not all(finding.is_judged or finding.claim.withdrawn for finding in rows):
        caption += " A claim without an effect lacks runs."
    reasons = Counter(finding.reason for finding in rows if finding.claim.withdrawn)
    for reason, count in reasons.items():
        caption += f" Of these claims, {count} {'was' if count == 1 else 'were'} {reason}."
    # A claim with a small p that is undecided all the same needs its reason beside it.
    for finding in rows:
        overruled = finding.label == "undecided" and finding.adjusted < ALPHA
        if overruled:
            caption += f" {finding.claim.name} is undecided: {finding.reason}."
        # Other effects without a p are words that say why.
        if finding.is_judged and not finding.is_tested and not finding.instead:
            caption += f" {finding.claim.name} has no p: {finding.reason}."
    return Table(kind, f"Registered {kind} claims", texts, numbers, caption)


def _numbers(finding: Finding, claims: int) -> dict[str, Any]:
    """The tidy row of a finding; the effect is in the direction of the claim's sentence,
    and `claims` is how many are corrected together."""
    claim = finding.claim
    effect, low, high = finding.values
    waits = not finding.is_judged
    if claim.measure == "predicts":
        complete = sum(count >= claim.backbones[arm] for arm, count in finding.n.items())
        recorded = f"{complete} of " if waits else ""
        n = f"{recorded}{len(finding.n)} corpora"
    else:
        n = " and ".join(
            f"{count} of {claim.backbones[arm]}" if waits else str(count)
            for arm, count in finding.n.items()
        )
    return {
        "claim": claim.name,
        "verdict": finding.label,
        "effect": effect,
        "low": low,
        "high": high,
        "n": n,
        "p": finding.effect.p,
        # A claim without a test counts in the correction with a p of 1.
        "adjusted": math.nan if waits else finding.adjusted,
        "power": claim.power,
        RECORDED: _recorded_power(finding, claims),
        "reason": finding.reason,
    }


def _recorded_power(finding: Finding, claims: int) -> float:
    """The power for the registered effect on areas with the spread of the recorded runs, at
    the strictest level of Holm; NaN for another measure."""
    if finding.claim.measure != "area":
        return math.nan
    return power(finding.effect, math.log(finding.claim.expected), ALPHA / claims)


def exploratory_table() -> Table | None:
    """The runs of the lab that no plan expects, a row for each setting; None if there are
    none."""
    rows = [*_exploratory_runs(), *_exploratory_english()]
    if not rows:
        return None
    runs = pd.DataFrame(rows)
    # The backbone's seed.
    runs["setting"] = runs["setting"].str.replace(r"-\d+$", "", regex=True)
    # Seeds of one setting are one row: they differ in their draw alone.
    settings = runs.groupby(["task", "unit", "setting", "trained", "rate"])["score"]
    numbers = settings.agg(runs="size", mean="mean").reset_index()
    texts = numbers.groupby(["task", "unit"]).agg(
        runs=("runs", "sum"),
        settings=("runs", "size"),
        lowest=("mean", "min"),
        highest=("mean", "max"),
    )
    caption = (
        "Runs that no plan expects: the lowest and the highest mean of any setting of a "
        "task. `tables/verdict/exploratory.csv` has a row for each setting. Fitting: "
        "training sees every test input."
    )
    texts = texts.round(3).reset_index("unit")
    return Table("exploratory", "Exploratory runs", texts, numbers, caption)


def _exploratory_runs() -> list[dict[str, Any]]:
    rows = []
    records = store(LAB)
    # Those of another section stand beside its results.
    keys = records.keys_of("exploratory", "verdict")
    for record in records.read_all(sorted(keys)).values():
        spec = record.spec
        options = f"n {spec.options['n']}, " if "n" in spec.options else ""
        fitting = ", fitting" if task_of(spec).fitting else ""
        rows.append(
            {
                "task": f"{spec.task} ({options}{spec.steps:,} steps{fitting})",
                "setting": f"{spec.init}: {spec.weights or spec.backbone}",
                "rate": spec.lr,
                "trained": "+".join(spec.trainable),
                "score": record.metrics.get("test_accuracy", math.nan),
                "unit": "accuracy",
            }
        )
    return rows


def _exploratory_english() -> list[dict[str, Any]]:
    """Models of English text, from before English was a task and had records."""
    rows = []
    for path in sorted(store(LAB).folder.glob("exploratory-english/*.json")):
        content = read_json(path)
        plan = content["plan"]
        rows.append(
            {
                "task": f"English ({plan['tokens']:,} tokens)",
                "setting": plan["weights"] or "random",
                "rate": plan["lr"],
                "trained": "norms, positions, words" if plan["frozen"] else "all",
                "score": content["bits_per_byte"],
                "unit": "bits per byte",
            }
        )
    return rows
