"""Does pretraining help on your data, and which part of it? The control that published
claims lack.

`audit` trains nets around a frozen pretrained backbone, around random ones that keep its
scale, its statistics or its entries, and without any, each at its best learning rate, and
says what suffices.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..backbones.choice import choose
from ..backbones.weights import digest, files
from ..errors import FptError, check_names
from ..files import write_atomic, write_json
from ..project import project
from ..tasks.own.inputs import described
from ..training.model import check_length
from ..training.progress import progress_bar
from ..training.settings import SEED, SETTINGS, Allowed, check_value
from ..training.sweep import worker_pool
from . import engine, plan
from .arms import CONTROLS, LABELS, NO_TRANSFORMER, PRETRAINED, TRAINED, Sizes, body_of
from .data import VALIDATION_SHARE, folds_of, read_examples
from .engine import Engine, Outcome
from .page import figure, page
from .plan import FEWEST_PLANNED, Layout
from .runs import Results, machine_for
from .verdict import (
    MOST_DRAWS,
    difference,
    judge,
    mean_interval,
    nothing_learned,
    power_of_one_deviation,
)

WIDE = 256  # numbers a token, from which bf16 pays on a CPU
BATCH = 16
TASKS = ("auto", "classification", "regression")
ALLOWED: Mapping[str, Allowed] = {
    "minutes": (float, 0, 10**6),
    "validation": (float, 0.01, 0.99),
    "margin": (float, 0, 10**6),
    "steps": SETTINGS["steps"],
    "draws": (int, FEWEST_PLANNED, MOST_DRAWS),
    "batch": SETTINGS["batch"],
    "random_state": SEED,
}


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


def audit(
    X: Any,
    y: Any,
    backbone: str = "nano",
    minutes: float = 30.0,
    *,
    weights: str | None = None,
    task: str = "auto",
    cv: Any = None,
    groups: Any = None,
    validation: float = VALIDATION_SHARE,
    margin: float = 0.02,
    steps: int | None = None,
    draws: int | None = None,
    batch: int = BATCH,
    random_state: int = 0,
    device: str = "auto",
    workers: int | None = None,
    folder: str | Path | None = None,
    progress: bool = True,
) -> Audit:
    """Find out whether pretraining helps on X and y, and which part of it.

    Parameters
    ----------
    X, y : sequences and one answer for each, as `fpt.FrozenTransformer` reads them
    backbone : the pretrained backbone that is audited, a name, repository, folder or GGUF
        file
    minutes : how long the audit may take. Steps, draws and seeds are chosen to fit; what
        has to be cut is said
    weights : the identity of others than the backbone's own, as of `fpt.FrozenTransformer`
    task : `classification`, `regression`, or `auto`, by the type of y
    cv : None for a test set of 20%, or as in scikit-learn: a number of folds, a splitter,
        or pairs of rows. `groups` (N,) are never divided between training, validation and
        test
    validation : the share of the training examples that chooses rates and steps
    margin : how much worse, in units of the score, something simpler may be and still
        suffice
    steps, draws : gradient steps of a run and draws of each control, 3 to 6; None: as many
        as the time allows
    batch : sequences in each step
    random_state : the first seed of everything that is drawn
    device, workers : where packs of runs are trained, and how many side by side
    folder : where results are kept, by default `.cache/audits` of the project or the
        working directory. The same call again reads them, and one that was stopped goes on
    progress : whether to show a bar over all runs

    Returns an `Audit`. InputError (a ValueError) for wrong data, FptError for a backbone
    that is not known or has no pretrained weights.
    """
    start = time.monotonic()
    check_names("task", [task], TASKS)
    minutes = checked("minutes", minutes)
    validation = checked("validation", validation)
    margin = checked("margin", margin)
    batch = checked("batch", batch)
    random_state = checked("random_state", random_state)
    # Else the time chooses them.
    if steps is not None:
        steps = checked("steps", steps)
    if draws is not None:
        draws = checked("draws", draws)
    examples = read_examples(X, y, groups, task)
    architecture, weights = choose(backbone, weights)
    folds = folds_of(examples, cv, validation, random_state)
    for fold in folds:
        check_length(architecture, fold.task)
    machine = machine_for(device, workers, architecture.width >= WIDE)
    # What the results depend on, and so what names them.
    facts: dict[str, Any] = {
        "data": [fold.task.digest() for fold in folds],
        "backbone": architecture.name,
        "weights": weights,
        # A folder may hold other weights tomorrow, and rounding is no treatment.
        "weights_digest": digest(files(weights, architecture.folder)),
        "precision": machine.arithmetic,
        "minutes": minutes,
        "steps": steps,
        "draws": draws,
        "batch": batch,
        "random_state": random_state,
    }
    place = Path(folder) if folder is not None else project().cache / "audits"
    results = Results(place / engine.audit_key(facts))
    bodies = {arm: body_of(arm, architecture, weights) for arm in TRAINED}
    layout = Layout(folds, bodies, batch, Sizes(0, 0, 0, 0), random_state)
    sizes = engine.planned_sizes(layout, machine, results, minutes, steps, draws)
    layout = replace(layout, sizes=sizes)
    deadline = start + 60 * minutes
    with (
        worker_pool(machine.workers) as pool,
        progress_bar(plan.planned_steps(layout), "audit, steps", not progress) as bar,
    ):
        outcome = Engine(layout, machine, results, deadline, pool, bar.update).run()
    facts |= {
        "task": "regression" if examples.classes is None else "classification",
        "inputs": described(examples.inputs.limits),
        "examples": len(examples.inputs),
        "classes": None if examples.classes is None else len(examples.classes),
        "folds": len(folds),
        "train": folds[0].task.sizes["train"],
        "valid": folds[0].task.sizes["valid"],
        "test": sum(fold.task.sizes["test"] for fold in folds),
        "guess": float(np.concatenate([fold.guesses("test") for fold in folds]).mean()),
        "steps": sizes.steps,
        "rates": outcome.tried,
        "margin": margin,
        "draws": sizes.draws,
        "seeds": sizes.seeds,
        "power": power_of_one_deviation(sizes.draws),
        "minutes_taken": results.minutes(),
    }
    return concluded(outcome, facts)


def checked(name: str, number: Any) -> Any:
    """A number that `audit` was called with, in its type; FptError if it is not allowed."""
    return check_value(f"audit.{name}", number, ALLOWED[name])


def concluded(outcome: Outcome, facts: dict[str, Any]) -> Audit:
    """The verdict, tables and curves of what was trained."""
    if PRETRAINED not in outcome.results:
        raise FptError(
            "The time was over before the pretrained backbone was trained; give the audit "
            "more minutes, a smaller backbone or shorter sequences."
        )
    scores = {arm: outcome.scores(arm) for arm in LABELS if arm in outcome.results}
    differences = {
        arm: difference(scores[PRETRAINED], of_arm)
        for arm, of_arm in scores.items()
        if arm != PRETRAINED
    }
    runs = runs_of(outcome)
    without = runs[runs["arm"].isin(NO_TRANSFORMER)].groupby("arm")["valid_score"].mean()
    # Chosen on validation: the best on the test examples would be best by chance too.
    best_without = str(without.idxmax()) if len(without) else None
    learned = not nothing_learned(scores, facts["guess"])
    verdict = judge(differences, facts["margin"], best_without, learned)
    table = runs.groupby("arm")[["score", "best_step"]].mean().reindex([*scores])
    table.insert(0, "label", [LABELS[arm] for arm in scores])
    table["runs"] = runs.groupby("arm").size()
    table["draws"] = [len(scores[arm]) if arm in CONTROLS else 0 for arm in scores]
    table[["low", "high"]] = [mean_interval(of_arm) for of_arm in scores.values()]
    rates = pd.Series(
        {arm: float(np.median(of_arm)) for arm, of_arm in outcome.rates.items()}
    )
    table["lr"] = rates.reindex(table.index)
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
        advice=verdict.advice,
        table=table,
        cuts=tuple(outcome.cuts),
        facts=facts,
        curves=outcome.curves(),
        runs=runs,
    )


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
