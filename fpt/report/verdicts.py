"""The tables of the registered claims and of the exploratory runs, for the notebook `verdict`."""

import math
from typing import Any

import numpy as np
import pandas as pd

from ..analysis.claims import ALPHA, LAB, Finding, Kind, findings
from ..files import read_json
from ..records import read_archive, store
from ..training.train import task_of
from .table import NONE, Table


def claims_table(kind: Kind) -> Table:
    """A row for each registered claim of one kind: verdict, effect, n, p and power."""
    rows = findings(kind)
    numbers = pd.DataFrame([_numbers(finding) for finding in rows])
    texts = [finding.effect_text if finding.is_judged else NONE for finding in rows]
    shown = pd.DataFrame({"verdict": numbers["verdict"], "effect": texts, "n": numbers["n"]})
    for name, digits in (("p", ".2g"), ("adjusted", ".2g"), ("power", ".2f")):
        if numbers[name].notna().any():
            shown[name] = [
                NONE if math.isnan(value) else f"{value:{digits}}" for value in numbers[name]
            ]
    shown.index = numbers["claim"]
    caption = "Effects with 95% intervals; p of the claimed direction, and adjusted for all claims."
    if not all(finding.is_judged or finding.claim.withdrawn for finding in rows):
        caption += " A claim without an effect lacks runs."
    for finding in rows:
        overruled = finding.label == "undecided" and finding.adjusted < ALPHA
        if finding.claim.withdrawn or overruled:
            caption += f" {finding.claim.name} is undecided: {finding.reason}."
    return Table(kind, f"Registered {kind} claims", shown, numbers, caption)


def _numbers(finding: Finding) -> dict[str, Any]:
    """The tidy row of a finding; the effect is in the direction of the claim's sentence."""
    claim = finding.claim
    effect, low, high = finding.values
    waits = bool(np.isnan(effect))
    if claim.measure == "predicts":
        complete = sum(count >= claim.backbones[arm] for arm, count in finding.n.items())
        n = f"{complete} of {len(finding.n)} corpora" if waits else f"{len(finding.n)} corpora"
    elif waits:
        n = " and ".join(f"{count} of {claim.backbones[arm]}" for arm, count in finding.n.items())
    else:
        n = " and ".join(str(count) for count in finding.n.values())
    return {
        "claim": claim.name,
        "verdict": finding.label,
        "effect": effect,
        "low": low,
        "high": high,
        "n": n,
        "p": finding.effect.p,
        "adjusted": math.nan if waits else finding.adjusted,
        "power": claim.power,
        "reason": finding.reason,
    }


def exploratory_table() -> Table | None:
    """The runs of the lab that no plan expects, a row for each setting; None if there are none."""
    rows = [*_exploratory_runs(), *_exploratory_english()]
    if not rows:
        return None
    runs = pd.DataFrame(rows)
    runs["setting"] = runs["setting"].str.replace(r"-\d+$", "", regex=True)  # the backbone's seed
    settings = runs.groupby(["task", "unit", "setting", "trained", "rate"])["score"]
    numbers = settings.agg(runs="size", mean="mean").reset_index()
    shown = numbers.groupby(["task", "unit"]).agg(
        runs=("runs", "sum"),
        settings=("runs", "size"),
        lowest=("mean", "min"),
        highest=("mean", "max"),
    )
    caption = (
        "Runs that no plan expects: the lowest and the highest mean of any setting of a task. "
        "`tables/verdict/exploratory.csv` has a row for each setting. Fitting: training sees "
        "every test input."
    )
    shown = shown.round(3).reset_index("unit")
    return Table("exploratory", "Exploratory runs", shown, numbers, caption)


def _exploratory_runs() -> list[dict[str, Any]]:
    rows = []
    archive = read_archive(store(LAB).folder / "exploratory.jsonl.xz")
    for record in archive.records().values():
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
