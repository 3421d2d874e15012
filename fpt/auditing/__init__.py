"""Does pretraining help on your data, and what of it? The control that published claims lack.

`audit` trains nets around a frozen pretrained backbone, around random ones that keep its scale, its
statistics or its entries, and without any, each at its best learning rate, and says what suffices.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..backbones.names import choose
from ..files import CACHE, FptError, write_atomic, write_json
from ..tasks.own.inputs import check_length, described
from ..training.progress import progress_bar
from . import engine
from .arms import CONTROLS, LABELS, NO_TRANSFORMER, PRETRAINED, TRAINED, Sizes, body_of
from .data import VALIDATION_SHARE, Fold, folds_of, read_examples
from .engine import Engine, Outcome
from .plan import EVALUATIONS, Layout
from .runs import Results, machine_for
from .verdict import (
    Difference,
    Scores,
    Verdict,
    difference,
    judge,
    mean_part,
    nothing_learned,
    power_of_one_deviation,
)

WIDE = 256  # numbers a token, from which bf16 pays on a CPU
BATCH = 16


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    `verdict` is one of seven labels, `reason` its sentence, `remedy` what would decide an open one.
    `table` has a row per arm: its best rate, its test score (accuracy or R²) with a 95% interval,
    the mean step that validation chose, the numbers of runs and draws, and the pretrained arm minus
    it with its interval. `cuts` says what the time did not allow.
    """

    verdict: str
    reason: str
    remedy: str
    table: pd.DataFrame
    cuts: tuple[str, ...]
    facts: Mapping[str, Any]
    curves: Mapping[str, list[tuple[float, float]]]
    runs: pd.DataFrame

    def __repr__(self) -> str:
        columns = ["score", "low", "high", "lr", "runs"]
        return f"{self.verdict}: {self.reason}\n{self.table[columns].to_string()}"

    def plot(self) -> Any:
        """A matplotlib figure: the test score of every run by arm, and the learning curves."""
        from .page import figure

        return figure(self)

    def to_html(self, path: str | Path) -> Path:
        """Write the page of the audit, which needs no other file."""
        from .page import page

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
            name: table.astype(object).where(table.notna(), None).to_dict("records")
            for name, table in tables.items()
        }
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "remedy": self.remedy,
            "cuts": list(self.cuts),
            "facts": dict(self.facts),
            **rows,
            "curves": {arm: [list(point) for point in curve] for arm, curve in self.curves.items()},
        }


def audit(
    X: Any,
    y: Any,
    backbone: str = "nano",
    minutes: float = 30.0,
    *,
    task: str = "auto",
    cv: Any = None,
    groups: Any = None,
    validation: float = VALIDATION_SHARE,
    margin: float = 0.02,
    steps: int | None = None,
    batch: int = BATCH,
    random_state: int = 0,
    device: str = "auto",
    workers: int | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> Audit:
    """Find out whether pretraining helps on X and y, and what of it.

    Parameters
    ----------
    X, y : sequences and one answer for each, as `fpt.FrozenTransformer` reads them
    backbone : the pretrained backbone that is audited, a name, repository, folder or GGUF file
    minutes : how long the audit may take. Steps, draws and seeds are chosen to fit; what has to be
        cut is said
    task : `classification`, `regression`, or `auto`, by the type of y
    cv : None for a test set of 20%, or as in scikit-learn: a number of folds, a splitter, or pairs
        of rows. `groups` (N,) are never divided between training, validation and test
    validation : the share of the training examples that chooses rates and steps
    margin : how much worse, in units of the score, something simpler may be and still suffice
    steps, batch : gradient steps of a run (None: as many as the time allows), sequences in each
    random_state : the first seed of everything that is drawn
    device, workers : where packs of runs are trained, and how many side by side
    folder : where results are kept, by default `.cache/audits` of the project or the working
        directory. The same call again reads them, and one that was stopped goes on
    progress : whether to show a bar over all runs

    Returns an `Audit`. InputError (a ValueError) for wrong data, FptError for a backbone that is
    not known or has no pretrained weights.
    """
    start = time.time()
    examples = read_examples(X, y, groups, task)
    architecture, weights = choose(backbone, None)
    if weights is None:
        raise FptError(
            f"The backbone {backbone!r} has no pretrained weights to audit; name one that has, "
            "such as nano."
        )
    check_length(int(examples.inputs.lengths.max()), architecture.name, architecture.positions)
    folds = folds_of(examples, cv, validation, random_state)
    facts: dict[str, Any] = {
        "data": [fold.task.digest() for fold in folds],
        "backbone": architecture.name,
        "weights": weights,
        "minutes": minutes,
        "steps": steps,
        "batch": batch,
        "random_state": random_state,
    }
    place = Path(folder) if folder is not None else CACHE / "audits"
    results = Results(place / engine.audit_key(facts))
    machine = machine_for(device, workers, architecture.width >= WIDE)
    bodies = {arm: body_of(arm, architecture, weights) for arm in TRAINED}
    layout = Layout(folds, bodies, batch, Sizes(0, 0, 0, 0), random_state)
    sizes = engine.planned_sizes(layout, machine, results, minutes, steps)
    layout = Layout(folds, bodies, batch, sizes, random_state)
    deadline = start + 60 * minutes
    with progress_bar(engine.planned_steps(layout), "audit, steps", not progress) as bar:
        outcome = Engine(layout, machine, results, deadline, bar.update).run()
    facts |= {
        "task": "regression" if examples.classes is None else "classification",
        "inputs": described(examples.inputs.limits),
        "examples": len(examples.inputs),
        "classes": None if examples.classes is None else len(examples.classes),
        "folds": len(folds),
        "train": folds[0].task.sizes["train"],
        "valid": folds[0].task.sizes["valid"],
        "test": sum(fold.task.sizes["test"] for fold in folds),
        "guess": float(np.mean([fold.guess for fold in folds])),
        "steps": sizes.steps,
        "rates": outcome.tried,
        "margin": margin,
        "draws": sizes.draws,
        "seeds": sizes.seeds,
        "precision": machine.precision,
        "power": power_of_one_deviation(sizes.draws),
        "minutes_taken": (time.time() - start) / 60,
    }
    return concluded(outcome, facts, folds)


def concluded(outcome: Outcome, facts: dict[str, Any], folds: list[Fold]) -> Audit:
    """The verdict, tables and curves of what was trained."""
    if PRETRAINED not in outcome.results:
        raise FptError(
            "The time was over before the pretrained backbone was trained; give the audit more "
            "minutes, a smaller backbone or shorter sequences."
        )
    scores = scores_of(outcome)
    differences = {
        arm: difference(scores[PRETRAINED], of_arm)
        for arm, of_arm in scores.items()
        if arm != PRETRAINED
    }
    without = [arm for arm in NO_TRANSFORMER if arm in scores]
    best_without = max(without, key=lambda arm: mean_valid(outcome, arm), default=None)
    learned = not nothing_learned(scores, facts["guess"])
    verdict: Verdict = judge(differences, facts["margin"], best_without, learned)
    return Audit(
        verdict=verdict.label,
        reason=verdict.reason,
        remedy=verdict.remedy,
        table=table_of(outcome, scores, differences),
        cuts=tuple(outcome.cuts),
        facts=facts,
        curves=curves_of(outcome, facts["steps"]),
        runs=runs_of(outcome),
    )


def scores_of(outcome: Outcome) -> dict[str, Scores]:
    """The scores of the test examples of every arm, by draw, fold and seed."""
    return {
        arm: {
            draw: {place: run.correct for place, run in runs.items()}
            for draw, runs in by_draw.items()
        }
        for arm, by_draw in outcome.results.items()
    }


def mean_valid(outcome: Outcome, arm: str) -> float:
    """The mean validation score of an arm's runs."""
    runs = [run for runs in outcome.results[arm].values() for run in runs.values()]
    return float(np.mean([run.valid_score for run in runs]))


def table_of(
    outcome: Outcome, scores: Mapping[str, Scores], differences: Mapping[str, Difference]
) -> pd.DataFrame:
    """A row per arm, in the order of `LABELS`."""
    rows = {}
    for arm in [arm for arm in LABELS if arm in scores]:
        runs = [run for runs in outcome.results[arm].values() for run in runs.values()]
        low, high = interval_of(scores[arm])
        gap = differences.get(arm)
        rates = outcome.rates.get(arm, [])
        rows[arm] = {
            "label": LABELS[arm],
            "lr": float(np.median(rates)) if rates else np.nan,
            "at_edge": any(rate in (outcome.tried[0], outcome.tried[-1]) for rate in rates),
            "score": float(np.mean([run.score for run in runs])),
            "low": low,
            "high": high,
            "best_step": float(np.mean([run.best_step for run in runs])),
            "runs": len(runs),
            "draws": len(scores[arm]) if arm in CONTROLS else 0,
            "difference": gap.estimate if gap else np.nan,
            "difference_low": gap.low if gap else np.nan,
            "difference_high": gap.high if gap else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def interval_of(scores: Scores) -> tuple[float, float]:
    """The 95% interval of an arm's mean score, over draws or seeds and over test examples."""
    from .verdict import interval

    units = [np.mean([run.mean() for run in runs.values()]) for runs in scores.values()]
    if scores.keys() == {None}:
        units = [run.mean() for run in scores[None].values()]
    folds = sorted({fold for runs in scores.values() for fold, _ in runs})
    items = np.concatenate(
        [
            np.mean(
                [
                    run
                    for runs in scores.values()
                    for (fold, _), run in runs.items()
                    if fold == each
                ],
                axis=0,
            )
            for each in folds
        ]
    )
    parts = [mean_part(items)]
    if len(units) > 1:
        parts.append(mean_part(units))
    gap = interval(float(np.mean(units)), parts)
    return gap.low, gap.high


def runs_of(outcome: Outcome) -> pd.DataFrame:
    """A row per run: arm, fold, seed, draw, test score, validation score and step."""
    rows = [
        {
            "arm": arm,
            "fold": fold,
            "seed": seed,
            "draw": draw,
            "score": run.score,
            "valid_score": run.valid_score,
            "best_step": run.best_step,
            "diverged": run.diverged,
        }
        for arm, by_draw in outcome.results.items()
        for draw, runs in by_draw.items()
        for (fold, seed), run in runs.items()
    ]
    return pd.DataFrame(rows)


def curves_of(outcome: Outcome, steps: int) -> dict[str, list[tuple[float, float]]]:
    """The mean learning curve of each arm that is trained."""
    curves = {}
    for arm, by_draw in outcome.results.items():
        runs = [run for runs in by_draw.values() for run in runs.values()]
        curve = engine.mean_curve(runs, steps)
        if curve:
            curves[arm] = curve
    return curves


__all__ = ["EVALUATIONS", "Audit", "audit"]
