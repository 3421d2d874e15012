"""The first difference of each section: a number for each task, and the curves behind
it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..analysis.compare import refusal
from ..analysis.study import Study
from ..analysis.summary import RATIOS, tested_values
from ..files import write_atomic, write_json
from ..sections.comparison import Pair
from .claim import KINDS, REGISTERED
from .verdicts import findings


def first_differences(study: Study) -> Iterator[tuple[Pair, str, float]]:
    """The first pair of arms that the section declares and that has runs, and on each task
    the difference of their means: of accuracies in points, of steps and areas the logarithm
    of a ratio. None on a task until every run of both is recorded, or if no table compares
    them."""
    results = study.results()
    results["value"] = tested_values(results)
    by_task_and_arm = results.groupby(["task", "arm"], sort=False)["value"]
    means = by_task_and_arm.agg(lambda values: values.mean(skipna=False)).unstack("arm")
    pairs = [pair for pair in study.main_pairs if set(pair) <= set(means.columns)]
    for first, second in pairs[:1]:
        differences = means[first] - means[second]
        for task, difference in differences.dropna().items():
            runs = results[results["task"] == task].groupby("arm")
            if not refusal(study, task, runs.get_group(first), runs.get_group(second)):
                yield (first, second), str(task), float(difference)


def write_headlines(studies: Sequence[Study]) -> None:
    """What DVC compares, metrics.json and curves.csv: the first difference of each section
    on each task, in points of accuracy or as a ratio of steps or areas, and the verdicts on
    registered claims; and the curves behind the differences, each the mean over seeds of
    validation accuracy."""
    numbers: dict[str, dict[str, object]] = {}
    curves = []
    for study in studies:
        for pair, task, difference in first_differences(study):
            sign = "-"
            if study.measures(task) in RATIOS:
                sign = "/"
                difference = np.exp(difference)
            name = f" {sign} ".join(pair) + f" on {task}"
            numbers.setdefault(study.name, {})[name] = round(float(difference), 2)
            points = study.part([task], pair).curves()
            groups = points.groupby(["task", "arm", "step"], sort=False)
            means = groups["valid_accuracy"].mean().reset_index()
            curves.append(means.assign(task=f"{study.name}: {task}"))
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
