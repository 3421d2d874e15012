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
    NOT_LEARNED,
    Difference,
    TestExamples,
    caution,
    difference,
    judge,
    mean_interval,
    nothing_learned,
    power_of_one_deviation,
)

# Of the frame of runs.
COLUMNS = ["arm", "draw", "fold", "seed", "score", "valid_score", "best_step", "diverged"]


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    `verdict` is one of seven labels, `reason` its sentence, `advice` what to do. `table`
    has a row per arm: its best rate, its test score (accuracy or R²) with a 95% interval,
    the mean step that validation chose, the numbers of runs and draws, and the pretrained
    arm minus it with its interval. `cuts` says what the time did not allow. `runs` has a
    row per run; the scores of a regression are in units of the variance in all folds, so
    their mean over folds is R², and that of one fold need not be.
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
        facts = self.facts
        unit = "R²" if facts["task"] == "regression" else "accuracy"
        # By the names that the page has.
        table = self.table.set_index("label").rename_axis(index=None)
        lines = [
            f"{self.verdict}: {self.reason} {self.advice}",
            table[columns].rename(columns={"score": unit}).to_string(),
            f"A constant answer has the {unit} {facts['guess']:.3f}. There are "
            f"{facts['test']} test examples, and a run has {facts['steps']} steps.",
            *self.cuts,
        ]
        return "\n".join(lines)

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
        content: dict[str, Any] = json.loads(json.dumps(vars(self) | rows))
        return content


def concluded(outcome: Outcome, test: TestExamples, facts: dict[str, Any]) -> Audit:
    """The verdict, tables and curves of what was trained."""
    arms = {run["arm"] for run in outcome.runs}
    if PRETRAINED not in arms:
        raise FptError(
            "The time was over before the pretrained backbone was trained. The same call "
            "again goes on with what is done; else give the audit more minutes, a smaller "
            "backbone or shorter sequences."
        )
    contents = pd.DataFrame(outcome.runs)
    scores = {
        arm: scores_of(contents[contents["arm"] == arm]) for arm in LABELS if arm in arms
    }
    curves = curves_of(contents)
    contents["score"] = contents["correct"].map(np.mean)
    runs = contents[COLUMNS].copy()
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
    # Of the control that the time cut most.
    draws = min((len(scores[arm]) for arm in CONTROLS if arm in scores), default=0)
    facts |= {"draws": draws, "power": power_of_one_deviation(draws)}
    advice = [verdict.advice, caution(differences)]
    if learned and nothing_learned({PRETRAINED: scores[PRETRAINED]}, facts["guess"], test):
        advice.append(NOT_LEARNED)
    return Audit(
        verdict=verdict.label,
        reason=verdict.reason,
        advice=" ".join(filter(None, advice)),
        table=table_of(outcome, runs, scores, differences, test),
        cuts=tuple(outcome.cuts),
        facts=facts,
        curves=curves,
        runs=runs,
    )


def table_of(
    outcome: Outcome,
    runs: pd.DataFrame,
    scores: Mapping[str, np.ndarray],
    differences: Mapping[str, Difference],
    test: TestExamples,
) -> pd.DataFrame:
    """A row per arm (see `Audit`)."""
    table = runs.groupby("arm")[["best_step"]].mean().reindex([*scores])
    # Over all test examples, as its interval: folds may differ in size.
    table.insert(0, "score", [float(of_arm.mean()) for of_arm in scores.values()])
    table.insert(0, "label", [LABELS[arm] for arm in scores])
    table["runs"] = runs.groupby("arm").size()
    table["draws"] = [len(scores[arm]) if arm in CONTROLS else 0 for arm in scores]
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
    return table


def r_squared(scores: Any, constant: float) -> Any:
    """Scores, 1 minus the squared error, in units in which the best constant answer, of
    which `constant` is the mean score, has 0."""
    return 1 - (1 - scores) / (1 - constant)


def scores_of(runs: pd.DataFrame) -> np.ndarray:
    """(draws, seeds, test examples of all folds): how right an arm's runs are."""
    by_run = runs.groupby(["draw", "seed"], sort=False, dropna=False)["correct"]
    scores = [np.concatenate([*of_folds]) for _, of_folds in by_run]
    return np.reshape(
        scores, (runs["draw"].nunique(dropna=False), runs["seed"].nunique(), -1)
    )


def curves_of(runs: pd.DataFrame) -> dict[str, list[tuple[float, float]]]:
    """The mean validation score of each trained arm at each step that was evaluated, of the
    runs that did not diverge."""
    curves = {}
    complete = runs[~runs["diverged"] & runs["curve"].map(bool)]
    for arm, of_arm in complete.groupby("arm", sort=False)["curve"]:
        steps = [point["step"] for point in of_arm.iloc[0]]
        scores = [[point["valid_accuracy"] for point in curve] for curve in of_arm]
        curves[str(arm)] = list(zip(steps, np.mean(scores, axis=0).tolist(), strict=True))
    return curves
