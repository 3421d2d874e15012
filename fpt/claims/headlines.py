"""The first difference of each section: one number, and the curves behind it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..analysis.effects import Effect
from ..analysis.study import Study
from ..analysis.summary import tested_values
from ..files import write_atomic, write_json
from ..sections.comparison import Pair
from .claim import KINDS, REGISTERED
from .pooled import ALPHA, depends_on_task, pooled
from .verdicts import findings

# Two arms, the measure, its tasks, the effect.
Headline = tuple[Pair, str, list[str], Effect]


def pooled_differences(study: Study) -> Iterator[Headline]:
    """The first differences that the section declares, over all tasks that are measured
    alike. A difference for each task if tasks have opposite effects, whose mean is no
    finding; none until every run is recorded, and none if no run reaches a threshold."""
    results = study.results()
    results["value"] = tested_values(results)
    # Steps and percent have no common mean.
    for pair in study.main_pairs:
        runs = results[results["arm"].isin(pair)]
        runs = runs[runs.groupby("task")["arm"].transform("nunique") == 2]
        for unit in ("steps", "accuracy"):
            of_unit = runs[runs["task"].map(study.measures) == unit]
            if of_unit["value"].isna().any() or of_unit["censored"].all():
                continue
            tasks = list(of_unit["task"].unique())
            effects = pooled(of_unit, pair, tasks)
            if np.isnan(effects.mean.estimate):  # no backbone has all the tasks
                continue
            decided = min(effects.mean.p, effects.mean.against) < ALPHA
            if depends_on_task(effects.by_task, effects.unequal, decided):
                for task, effect in effects.by_task.items():
                    yield pair, unit, [task], effect
            else:
                yield pair, unit, tasks, effects.mean


def write_headlines(studies: Sequence[Study]) -> None:
    """What DVC compares, metrics.json and curves.csv: the first difference of each section
    in points of accuracy or as a ratio of steps, and the verdicts on registered claims; and
    the curves behind the differences, each the mean over seeds of validation accuracy."""
    numbers: dict[str, dict[str, object]] = {}
    curves = []
    for study in studies:
        differences = list(pooled_differences(study))
        first = [line for line in differences if line[:2] == differences[0][:2]]
        for pair, unit, tasks, effect in first:
            name = " / ".join(pair) if unit == "steps" else " - ".join(pair)
            value = np.exp(effect.estimate) if unit == "steps" else effect.estimate
            if len(first) > 1:  # its tasks have opposite effects
                name += f" on {tasks[0]}"
            numbers.setdefault(study.name, {})[name] = round(float(value), 2)
            runs = (
                study.part(tasks, pair)
                .curves()
                .groupby(["task", "arm", "step"], sort=False)
            )
            means = runs["valid_accuracy"].mean().reset_index()
            curves.append(means.assign(task=f"{study.name}: " + means["task"]))
    profile = studies[0].profile.name
    if profile in REGISTERED:
        verdicts = [finding for kind in KINDS for finding in findings(kind, profile)]
        numbers["verdict"] = {finding.claim.name: finding.label for finding in verdicts}
    write_json(studies[0].folder / "metrics.json", numbers)
    columns = {"task": "panel", "valid_accuracy": "accuracy"}
    # DVC needs the columns of its plot even if there is no curve.
    empty = pd.DataFrame(columns=["task", "arm", "step", "valid_accuracy"])
    text = pd.concat([empty, *curves]).rename(columns=columns).to_csv(index=False)
    write_atomic(studies[0].folder / "curves.csv", text.encode())
