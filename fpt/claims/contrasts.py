"""What stands beside the registered claims of the lab, and was not registered: the same comparison
at lower thresholds, and comparisons that the claims do not have. All of it is descriptive, from the
records of the registered runs; its intervals are not corrected for their number."""

import numpy as np
import pandas as pd

from ..analysis.effects import Effect, difference
from ..analysis.steps import steps_to
from ..analysis.summary import tested_values
from ..sections.comparison import Pair
from . import sensitivity
from .claim import KINDS, Claim, claims
from .pooled import Pooled, backbone_means, pooled
from .verdicts import results_of, runs_of

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
BY_THRESHOLD = ["task", "threshold", "registered", "ratio", "low", "high"]


def battery() -> tuple[str, ...]:
    """The tasks on which each arm has its registered rate."""
    return _claim(BATTERY).tasks


def contrasts() -> dict[str, Pooled]:
    """The ratio of steps, in logarithms, of each of PAIRS whose runs are all recorded, by name, in
    this order; once more where one of its arms has a better rate than the registered one."""
    results = _battery_results()
    better = sensitivity.better_rates(results)
    replaced = sensitivity.with_runs(results, better)
    by_name = {}
    for name, pair in PAIRS.items():
        if set(pair) <= set(results["arm"]):
            by_name[name] = _contrast(results, pair)
            if better["arm"].isin(pair).any():
                by_name[f"{name}, at the better rate"] = _contrast(replaced, pair)
    return by_name


def _contrast(results: pd.DataFrame, pair: Pair) -> Pooled:
    return pooled(results.assign(value=tested_values(results)), pair, results["task"].unique())


def interaction() -> Effect | None:
    """How the ratio of English's steps to random's at one rate compares with the ratio at the
    registered rate of each arm: the logarithm of their quotient, over backbones. Below zero, one
    rate flatters English. None until all runs are recorded."""
    results = results_of([_claim(BATTERY), _claim(ONE_RATE)])
    results["value"] = tested_values(results)
    at_best = backbone_means(results, battery())
    at_one = backbone_means(results, _claim(ONE_RATE).tasks)
    if not {"fpt", "random"} <= set(at_one.index.get_level_values("arm")):
        return None
    if not {"fpt-english", "random"} <= set(at_best.index.get_level_values("arm")):
        return None
    # Both ratios are on the same backbones, so what is special to one cancels.
    english = at_one["fpt"] - at_best["fpt-english"]
    random = at_one["random"] - at_best["random"]
    return difference(list(english.dropna()), list(random.dropna()))


def by_threshold(pair: Pair) -> pd.DataFrame:
    """The ratio of the steps of two arms to each threshold of sensitivity.yaml and to the
    registered one, from the curves of the registered runs: one row per task and threshold with
    `threshold`, `registered`, `ratio`, `low` and `high`; none until all runs are recorded. The
    rates are those that were chosen for the registered threshold."""
    study = runs_of(claims("primary")).part(battery(), pair)
    records = study.records()
    rows = []
    for task in battery() if not study.missing() else ():
        runs = [run for run in study.runs if run.task == task]
        registered = runs[0].spec.threshold
        lower = sensitivity.declared()["thresholds"].get(task, ())
        for threshold in [*lower, registered]:
            first, second = (
                [
                    np.log(steps_to(records[run.key], threshold).count)
                    for run in runs
                    if run.arm == arm
                ]
                for arm in pair
            )
            effect = difference(first, second)
            ratio = np.exp([effect.estimate, effect.low, effect.high])
            rows.append((task, threshold, threshold == registered, *ratio))
    return pd.DataFrame(rows, columns=BY_THRESHOLD)


def _claim(name: str) -> Claim:
    return next(claim for claim in claims("primary") if claim.name == name)


def _battery_results() -> pd.DataFrame:
    """The recorded runs of every arm of PAIRS on the battery, each once."""
    # A run that several claims share is recorded once.
    arms = {arm for pair in PAIRS.values() for arm in pair}
    every_claim = [claim for kind in KINDS for claim in claims(kind)]
    results = results_of([claim for claim in every_claim if arms & set(claim.backbones)])
    of_battery = results["arm"].isin(arms) & results["task"].isin(battery())
    return results[of_battery].reset_index(drop=True)
