"""One arm against another over several tasks, a backbone being the unit: the mean of the
effects, the effect on each task, and whether the tasks agree."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..analysis.effects import UNKNOWN, Effect, difference, heterogeneity
from ..sections.comparison import Pair

ALPHA = 0.05


@dataclass(frozen=True)
class Pooled:
    """The effect on the mean over tasks and on each of them; `unequal` is the p-value of
    the hypothesis that it is the same on every task, NaN with one task."""

    mean: Effect = UNKNOWN
    by_task: Mapping[str, Effect] = field(default_factory=dict)
    unequal: float = math.nan


def pooled(
    runs: pd.DataFrame, pair: Pair, tasks: Iterable[str], margin: float = 0.0
) -> Pooled:
    """The first arm of `pair` minus the second, of column `value` of `runs`. The mean is
    over the backbones that have all `tasks`, and is tested against `margin`."""
    tasks = list(tasks)
    # Only the mean is tested against a margin; tasks are looked at for their sign.
    by_task = {task: _sides(runs, pair, [task]) for task in tasks}
    return Pooled(
        mean=difference(*_sides(runs, pair, tasks), margin),
        by_task={task: difference(*sides) for task, sides in by_task.items()},
        unequal=heterogeneity(list(by_task.values())),
    )


def _sides(
    runs: pd.DataFrame, pair: Pair, tasks: Sequence[str]
) -> tuple[list[float], list[float]]:
    """A value per backbone of the first arm and of the second."""
    means = backbone_means(runs, tasks)
    arms = means.index.get_level_values("arm")
    return list(means[arms == pair[0]]), list(means[arms == pair[1]])


def backbone_means(runs: pd.DataFrame, tasks: Iterable[str]) -> pd.Series:
    """The mean over `tasks` of column `value`, per arm and seed; without seeds that lack a
    task."""
    # A mean over other tasks would be another quantity.
    wide = runs.pivot_table(index=["arm", "seed"], columns="task", values="value")
    means: pd.Series = wide.reindex(columns=list(tasks)).dropna().mean(axis=1)
    return means


def depends_on_task(by_task: Mapping[str, Effect], unequal: float, decided: bool) -> bool:
    """Whether a mean over tasks would hide that its effects have opposite signs: they
    differ significantly (`unequal`), or the mean is `decided` though one task alone
    significantly opposes it, at 5% over these tasks."""
    # Unequal effects of one sign are no reason to withhold their mean.
    estimates = [effect.estimate for effect in by_task.values()]
    if not estimates or not min(estimates) < 0 < max(estimates):
        return False
    if unequal < ALPHA:
        return True
    if np.mean(estimates) <= 0:
        opposing = [effect.against for effect in by_task.values()]
    else:
        opposing = [effect.p for effect in by_task.values()]
    return decided and any(p < ALPHA / len(estimates) for p in opposing)
