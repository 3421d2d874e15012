"""What an audit found: its verdict, tables and curves, and how they are shown and saved."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import FptError
from ..files import write_atomic, write_json
from .arms import CONTROLS, LABELS, NO_TRANSFORMER, PRETRAINED
from .engine import Outcome
from .page import figure, page
from .verdict import (
    TestExamples,
    caution,
    difference,
    judge,
    mean_interval,
    nothing_learned,
    power_of_one_deviation,
)


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    `verdict` is one of seven labels, `reason` its sentence, `advice` what to do. `table`
    has a row per arm: its best rate, its test score (accuracy or R²) with a 95% interval,
    the mean step that validation chose, the numbers of runs and draws, and the pretrained
    arm minus it with its interval. `cuts` says what the time did not allow.
    """

    verdict: str
    reason: str
    advice: str
    table: pd.DataFrame
    cuts: tuple[str, ...]
    facts: Mapping[str, Any]
    curves: Mapping[str, list[tuple[float, float]]]
    runs: pd.DataFrame

    def __repr__(self) -> str:
        columns = ["score", "low", "high", "lr", "runs"]
        words = f"{self.verdict}: {self.reason} {self.advice}"
        return f"{words}\n{self.table[columns].to_string()}"

    def plot(self) -> Any:
        """A matplotlib figure: the test score of every run by arm, and the learning
        curves."""
        return figure(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the page of the audit, which needs no other file."""
        write_atomic(Path(path), page(self).encode())
        return Path(path)

    def to_json(self, path: str | Path) -> Path:
        """Write all numbers: verdict, table, runs, curves, and what was held fixed."""
        write_json(Path(path), self.to_dict())
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """All numbers as JSON has them; None for one that does not exist."""
        tables = {"table": self.table.reset_index(), "runs": self.runs}
        rows = {
            name: json.loads(table.to_json(orient="records", double_precision=15))
            for name, table in tables.items()
        }
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "advice": self.advice,
            "cuts": list(self.cuts),
            "facts": dict(self.facts),
            **rows,
            "curves": {
                arm: [list(point) for point in curve] for arm, curve in self.curves.items()
            },
        }


def concluded(outcome: Outcome, test: TestExamples, facts: dict[str, Any]) -> Audit:
    """The verdict, tables and curves of what was trained."""
    if PRETRAINED not in outcome.results:
        raise FptError(
            "The time was over before the pretrained backbone was trained. The same call "
            "again goes on with what is done; else give the audit more minutes, a smaller "
            "backbone or shorter sequences."
        )
    scores = {arm: outcome.scores(arm) for arm in LABELS if arm in outcome.results}
    runs = runs_of(outcome)
    curves = outcome.curves()
    if not test.has_classes:
        # R² of the test examples, 0 for a constant answer: nets are scored in units of the
        # variance of the training examples.
        constant = facts["guess"]
        scores = {arm: r_squared(of_arm, constant) for arm, of_arm in scores.items()}
        runs["score"] = r_squared(runs["score"], constant)
        constant = facts["guess_on_validation"]
        runs["valid_score"] = r_squared(runs["valid_score"], constant)
        curves = {
            arm: [(step, r_squared(score, constant)) for step, score in curve]
            for arm, curve in curves.items()
        }
        facts |= {"guess": 0.0, "guess_on_validation": 0.0}
    differences = {
        arm: difference(scores[PRETRAINED], of_arm, test)
        for arm, of_arm in scores.items()
        if arm != PRETRAINED
    }
    without = runs[runs["arm"].isin(NO_TRANSFORMER)].groupby("arm")["valid_score"].mean()
    # Chosen on validation: the best on the test examples would be best by chance too.
    best_without = str(without.idxmax()) if len(without) else None
    learned = not nothing_learned(scores, facts["guess"], test)
    verdict = judge(differences, facts["margin"], best_without, learned)
    table = runs.groupby("arm")[["best_step"]].mean().reindex([*scores])
    # Over all test examples, as its interval: folds may differ in size.
    table.insert(0, "score", [float(of_arm.mean()) for of_arm in scores.values()])
    table.insert(0, "label", [LABELS[arm] for arm in scores])
    table["runs"] = runs.groupby("arm").size()
    table["draws"] = [len(scores[arm]) if arm in CONTROLS else 0 for arm in scores]
    # Of the control that the time cut most.
    draws = min((len(scores[arm]) for arm in CONTROLS if arm in scores), default=0)
    facts |= {"draws": draws, "power": power_of_one_deviation(draws)}
    table[["low", "high"]] = [mean_interval(of_arm, test) for of_arm in scores.values()]
    # Of an even number of folds, the lower one of the middle: the mean was never tried.
    rates = {
        arm: sorted(by_fold)[(len(by_fold) - 1) // 2]
        for arm, by_fold in outcome.rates.items()
    }
    table["lr"] = pd.Series(rates, dtype=float).reindex(table.index)
    edges = {outcome.tried[0], outcome.tried[-1]}
    table["at_edge"] = [
        not edges.isdisjoint(outcome.rates.get(arm, ())) for arm in table.index
    ]
    gaps = pd.DataFrame({arm: vars(gap) for arm, gap in differences.items()}).T
    for column, name in (("difference", "estimate"), ("least", "low"), ("most", "high")):
        table[column] = gaps[name].reindex(table.index) if len(gaps) else np.nan
    return Audit(
        verdict=verdict.label,
        reason=verdict.reason,
        advice=" ".join(filter(None, [verdict.advice, caution(differences)])),
        table=table,
        cuts=tuple(outcome.cuts),
        facts=facts,
        curves=curves,
        runs=runs,
    )


def r_squared(scores: Any, constant: float) -> Any:
    """Scores, 1 minus the squared error, in units in which the best constant answer, of
    which `constant` is the mean score, has 0."""
    return 1 - (1 - scores) / ((1 - constant) or 1.0)


def runs_of(outcome: Outcome) -> pd.DataFrame:
    """A row per run: arm, draw, fold, seed, test score, validation score and step."""
    columns = ("score", "valid_score", "best_step", "diverged")
    rows = [
        {"arm": arm, "draw": draw, "fold": fold, "seed": seed}
        | {column: getattr(run, column) for column in columns}
        for arm, results in outcome.results.items()
        for (draw, fold, seed), run in results.items()
    ]
    return pd.DataFrame(rows)
