"""Does pretraining help on your data, and which part of it? The control that published
claims lack.

`audit` trains nets around a frozen pretrained backbone, around random ones that keep its
scale, its statistics or its entries, and without any, each at its best learning rate, and
says what suffices.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..backbones.choice import choose
from ..backbones.weights import digest, files
from ..errors import check_names
from ..files import lock
from ..project import project
from ..tasks.own.inputs import described
from ..training.model import check_length
from ..training.progress import progress_bar
from ..training.settings import SETTINGS, Allowed, check_value
from ..training.sweep import worker_pool
from . import engine, plan
from .arms import TRAINED, Sizes, body_of
from .data import read_examples
from .engine import Engine
from .folds import VALIDATION_SHARE, constant_score, folds_of, test_examples
from .plan import FEWEST_PLANNED, Layout
from .result import Audit, concluded
from .runs import Results, machine_for
from .verdict import MOST_DRAWS

WIDE = 256  # numbers a token, from which bf16 pays on a CPU
BATCH = 16
SHARE_OF_BASELINES = 0.1  # of the time, for models that are not trained by gradients
TASKS = ("auto", "classification", "regression")
ALLOWED: Mapping[str, Allowed] = {
    "minutes": (float, 0, 10**6),
    "validation": (float, 0.01, 0.99),
    "margin": (float, 0, 10**6),
    "steps": SETTINGS["steps"],
    "draws": (int, FEWEST_PLANNED, MOST_DRAWS),
    "batch": SETTINGS["batch"],
    # As scikit-learn's splitters take it.
    "random_state": (int, 0, 2**32 - 1),
    "workers": (int, 1, 1000),
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
    progress : whether to say what X and y were taken for, and to show a bar over all runs

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
    if workers is not None:
        workers = checked("workers", workers)
    examples = read_examples(X, y, groups, task)
    architecture, weights = choose(backbone, weights)
    folds = folds_of(examples, cv, validation, random_state)
    test = test_examples(examples, folds)
    for fold in folds:
        check_length(architecture, fold.task)
    inputs = described(examples.inputs.limits)
    answers = "numbers to predict"
    if examples.classes is not None:
        answers = f"{len(examples.classes)} classes"
    if progress:
        # Numbers that were taken for symbols or classes are noticed before a long audit.
        print(f"X was taken for {inputs}, and y for {answers}.", file=sys.stderr)
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
    # An earlier version took some encoders for causal, so their audits have a new name.
    if architecture.bidirectional:
        facts["bidirectional"] = True
    place = Path(folder) if folder is not None else project().cache / "audits"
    results = Results(place / engine.audit_key(facts))
    bodies = {arm: body_of(arm, architecture, weights) for arm in TRAINED}
    layout = Layout(folds, bodies, batch, Sizes(0, 0, 0, 0), random_state)
    before = time.monotonic()
    # Two processes at once would train everything twice.
    with lock(results.folder.with_suffix(".lock"), wait=True):
        start += time.monotonic() - before
        sizes = engine.planned_sizes(layout, machine, results, minutes, steps, draws)
        layout = replace(layout, sizes=sizes)
        deadline = start + 60 * minutes
        search_end = start + 60 * minutes * plan.share_of_search(layout, machine.workers)
        baselines_end = start + 60 * minutes * SHARE_OF_BASELINES
        with (
            worker_pool(machine.workers) as pool,
            progress_bar(plan.planned_steps(layout), "audit, steps", not progress) as bar,
        ):
            outcome = Engine(
                layout,
                machine,
                results,
                deadline,
                baselines_end,
                search_end,
                pool,
                bar.update,
            ).run()
    facts |= {
        "task": "regression" if examples.classes is None else "classification",
        "inputs": inputs,
        "examples": len(examples.inputs),
        "classes": None if examples.classes is None else len(examples.classes),
        "folds": len(folds),
        "train": [fold.task.sizes["train"] for fold in folds],
        "valid": [fold.task.sizes["valid"] for fold in folds],
        "test": len(np.unique(np.concatenate([fold.rows["test"] for fold in folds]))),
        # What intervals count: groups, or examples.
        "independent": len(np.unique(test.units)),
        "guess": constant_score(folds, "test"),
        "guess_on_validation": constant_score(folds, "valid"),
        "steps": sizes.steps,
        "rates": outcome.tried,
        "margin": margin,
        "seeds": sizes.seeds,
        "minutes_taken": results.minutes(),
    }
    return concluded(outcome, test, facts)


def checked(name: str, number: Any) -> Any:
    """A number that `audit` was called with, in its type; FptError if it is not allowed."""
    return check_value(f"audit.{name}", number, ALLOWED[name])
