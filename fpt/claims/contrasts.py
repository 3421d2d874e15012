"""What stands beside the registered claims of the lab, and was not registered: the same
comparison at lower thresholds. It is descriptive, from the records of the registered runs;
its intervals are not corrected for their number."""

import numpy as np
import pandas as pd

from ..analysis.effects import difference
from ..analysis.steps import steps_to
from ..sections.comparison import Pair
from . import sensitivity
from .claim import claims
from .verdicts import runs_of

BATTERY = "english-sooner"  # the claim that has the tasks, each arm at its registered rate
PAIRS = {
    "English / random": ("fpt-english", "random"),
    "English / random at English's scale": ("fpt-english", "random-at-scale"),
    "random at English's scale / random": ("random-at-scale", "random"),
}
BY_THRESHOLD = ["task", "threshold", "registered", "ratio", "low", "high"]


def battery() -> tuple[str, ...]:
    """The tasks on which each arm has its registered rate."""
    return next(claim.tasks for claim in claims("primary") if claim.name == BATTERY)


def by_threshold(pair: Pair) -> pd.DataFrame:
    """The ratio of the steps of two arms to each threshold of sensitivity.yaml and to the
    registered one, from the curves of the registered runs: one row per task and threshold
    with `threshold`, `registered`, `ratio`, `low` and `high`; none until all runs are
    recorded. The rates are those that were chosen for the registered threshold."""
    study = runs_of(claims("primary")).part(battery(), pair)
    records = study.records()
    rows = []
    for task in [] if study.missing() else battery():
        runs = [run for run in study.runs if run.task == task]
        registered = runs[0].spec.threshold
        lower = sensitivity.declared()["thresholds"].get(task, ())
        for threshold in [*lower, registered]:
            log_steps: dict[str, list[float]] = {arm: [] for arm in pair}
            for run in runs:
                steps = steps_to(records[run.key], threshold)
                log_steps[run.arm].append(np.log(steps.count))
            first, second = log_steps.values()
            effect = difference(first, second)
            ratio = np.exp([effect.estimate, effect.low, effect.high])
            rows.append((task, threshold, threshold == registered, *ratio))
    return pd.DataFrame(rows, columns=BY_THRESHOLD)
