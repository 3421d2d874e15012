"""The first difference of each section: one number, and the curves behind it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from ..files import write_atomic, write_json
from ..sections.comparison import Pair
from .claims import ALPHA, KINDS, LAB, findings
from .effects import Effect
from .gates import depends_on_task
from .study import Study
from .summary import pooled, unequal


def pooled_differences(study: Study) -> Iterator[tuple[Pair, str, list[str], Effect]]:
    """The first differences that the section declares, over all tasks that are measured alike: two
    arms, the measure, those tasks, and the effect. A difference for each task if tasks have
    opposite effects, whose mean is no finding; none if no run reaches a threshold."""
    results = study.results()
    arms = {task: set(runs["arm"]) for task, runs in results.groupby("task")}
    for pair in [pair for it in study.declared.comparisons[:1] for pair in it.pairs]:
        for unit in ("steps", "accuracy"):
            shared = [task for task in study.tasks if set(pair) <= arms.get(task, set())]
            tasks = [task for task in shared if study.measures(task) == unit]
            mine = results[results["task"].isin(tasks) & results["arm"].isin(pair)]
            effect = pooled(mine, pair)
            if effect is None or mine["censored"].all():
                continue
            alone = {task: pooled(mine[mine["task"] == task], pair) for task in tasks}
            by_task = {task: it for task, it in alone.items() if it is not None}
            decided = min(effect.p, effect.against) < ALPHA
            if depends_on_task(by_task, unequal(mine, pair), decided):
                for task, effect_there in by_task.items():
                    yield pair, unit, [task], effect_there
            else:
                yield pair, unit, tasks, effect


def write_headlines(studies: Sequence[Study]) -> None:
    """What DVC compares, metrics.json and curves.csv: the first difference of each section in
    points of accuracy or as a ratio of steps, and in `lab` the verdicts; and the curves behind the
    differences, each the mean over seeds of validation accuracy."""
    headlines: dict[str, dict[str, object]] = {}
    curves, columns = [], ["panel", "arm", "step", "accuracy"]
    for study in studies:
        found = list(pooled_differences(study))
        first = [it for it in found if it[:2] == found[0][:2]]
        for (a, b), unit, tasks, effect in first:
            value = np.exp(effect.estimate) if unit == "steps" else effect.estimate
            name = f"{a} / {b}" if unit == "steps" else f"{a} - {b}"
            if len(first) > 1:  # its tasks have opposite effects
                name += f" on {tasks[0]}"
            headlines.setdefault(study.name, {})[name] = round(float(value), 2)
            means = study.part(tasks, (a, b)).curves().groupby(["task", "arm", "step"], sort=False)
            for (task, *at), accuracy in means["valid_accuracy"].mean().items():
                curves.append((f"{study.name}: {task}", *at, accuracy))
    if studies[0].profile.name == LAB:
        headlines["verdict"] = {it.claim.name: it.label for kind in KINDS for it in findings(kind)}
    write_json(studies[0].folder / "metrics.json", headlines)
    text = pd.DataFrame(curves, columns=columns).to_csv(index=False)
    write_atomic(studies[0].folder / "curves.csv", text.encode())
