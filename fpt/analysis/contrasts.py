"""What stands beside the registered claims of the lab, and was not registered: the same comparison
at lower thresholds, and comparisons that the claims do not have. All of it is descriptive, from the
records of the registered runs; its intervals are not corrected for their number."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..records import Record
from . import sensitivity
from .claim import Claim
from .claims import KINDS, claims, results_of, runs_of
from .effects import Effect, difference, heterogeneity
from .gates import depends_on_task
from .steps import steps_to
from .summary import backbone_means

BATTERY = "english-sooner"  # the claim that has the tasks, each arm at its registered rate
ONE_RATE = "english-sooner-at-one-rate"
PAIRS = {
    "English / random": ("fpt-english", "random"),
    "English / draws of its statistics": ("fpt-english", "statistics-english"),
    "draws of English's statistics / random": ("statistics-english", "random"),
    "English / random at English's scale": ("fpt-english", "random-at-scale"),
    "draws of English's statistics / random at English's scale": (
        "statistics-english",
        "random-at-scale",
    ),
    "random at English's scale / random": ("random-at-scale", "random"),
    "fully trained from random weights / frozen English": ("full", "fpt-english"),
    "frozen English / fully trained from English": ("fpt-english", "full-pretrained"),
    "fully trained from English / fully trained from random weights": ("full-pretrained", "full"),
}


@dataclass(frozen=True)
class Contrast:
    """How many steps one arm needs, as a ratio of another's, on each task and over all of them:
    natural logarithms. `unequal` is the p-value of the hypothesis that all tasks have one ratio,
    not corrected."""

    name: str
    by_task: dict[str, Effect]
    mean: Effect
    unequal: float

    @property
    def depends(self) -> bool:
        """Whether tasks differ in the sign of their effects, so that the mean is no finding."""
        return depends_on_task(self.by_task, self.unequal)


def battery() -> tuple[str, ...]:
    """The tasks on which each arm has its registered rate."""
    return _claim(BATTERY).tasks


def contrasts() -> list[Contrast]:
    """Each of PAIRS whose runs are all recorded, in this order; once more where one of its arms has
    a better rate than the registered one (`fpt.analysis.sensitivity`)."""
    results = _battery_results()
    better = sensitivity.better_rates(results)
    replaced = sensitivity.with_runs(results, better)
    found = []
    for name, pair in PAIRS.items():
        if set(pair) <= set(results["arm"]):
            found.append(contrast(name, results, pair))
            if better["arm"].isin(pair).any():
                found.append(contrast(f"{name}, at the better rate", replaced, pair))
    return found


def contrast(name: str, results: pd.DataFrame, pair: tuple[str, str]) -> Contrast:
    """A pair of arms on the tasks of `results`, whose `score` is a logarithm of steps."""
    tasks = list(dict.fromkeys(results["task"]))
    groups = {task: _values(results, pair, [task]) for task in tasks}
    return Contrast(
        name,
        {task: difference(*sides) for task, sides in groups.items()},
        difference(*_values(results, pair, tasks)),
        heterogeneity(list(groups.values())),
    )


def interaction() -> Effect | None:
    """How the ratio of English's steps to random's at one rate compares with the ratio at the
    registered rate of each arm: the logarithm of their quotient, over backbones. Below zero, one
    rate flatters English. None until all runs are recorded."""
    arms = {"fpt": "fpt-english", "random": "random"}  # at one rate, and at the rate of each
    results = results_of([_claim(BATTERY), _claim(ONE_RATE)])
    means = backbone_means(results, battery())
    at_one = backbone_means(results, _claim(ONE_RATE).tasks)
    sides = []
    for one, best in arms.items():
        if one not in at_one.index or best not in means.index:
            return None
        sides.append(list((at_one.loc[one] - means.loc[best]).dropna()))
    first, second = sides
    return difference(first, second)


def by_threshold(pair: tuple[str, str]) -> pd.DataFrame:
    """The ratio of the steps of two arms to each threshold of sensitivity.yaml and to the
    registered one, from the curves of the registered runs: one row per task and threshold with
    `threshold`, `registered`, `ratio`, `low`, `high`, `runs` and `ended` (runs of both arms that
    do not get there). The rates are those that were chosen for the registered threshold."""
    study = runs_of(claims("primary")).part(battery(), pair)
    records = study.records()
    columns = ["task", "threshold", "registered", "ratio", "low", "high", "runs", "ended"]
    rows: list[tuple[object, ...]] = []
    if len(records) < len(study.keys):
        return pd.DataFrame(rows, columns=columns)
    for task in battery():
        runs = [run for run in study.runs if run.task == task]
        registered = runs[0].spec.threshold
        for threshold in [*sensitivity.declared()["thresholds"].get(task, ()), registered]:
            sides, ended = [], 0
            for arm in pair:
                mine: list[Record] = [records[run.key] for run in runs if run.arm == arm]
                steps = [steps_to(record, threshold) for record in mine]
                ended += sum(it.censored for it in steps)
                sides.append([float(np.log(it.count)) for it in steps])
            effect = difference(sides[0], sides[1])
            values = np.exp([effect.estimate, effect.low, effect.high])
            known = (task, threshold, threshold == registered)
            rows.append((*known, *values, len(sides[0]) + len(sides[1]), ended))
    return pd.DataFrame(rows, columns=columns)


def _claim(name: str) -> Claim:
    return next(claim for claim in claims("primary") if claim.name == name)


def _battery_results() -> pd.DataFrame:
    """The recorded runs of every arm of PAIRS on the battery, each once."""
    wanted = {arm for pair in PAIRS.values() for arm in pair}
    every = [claim for kind in KINDS for claim in claims(kind)]
    frame = results_of([claim for claim in every if wanted & set(claim.backbones)])
    mine = frame[frame["arm"].isin(wanted) & frame["task"].isin(battery())]
    return mine.reset_index(drop=True)


def _values(
    results: pd.DataFrame, pair: tuple[str, str], tasks: list[str]
) -> tuple[list[float], list[float]]:
    means = backbone_means(results, tasks)
    first, second = (list(means[means.index.get_level_values("arm") == arm]) for arm in pair)
    return first, second
