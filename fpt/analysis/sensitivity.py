"""Exploratory runs beside the registered ones: an arm at another learning rate or budget, on the
registered seeds. They were chosen after the registered results were seen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from .. import config, sections
from ..config import Run
from ..files import read_yaml
from ..sections.registration import registered_seeds
from .claim import LAB
from .study import Study

FILE = Path(sections.__file__).with_name("sensitivity.yaml")


@cache
def declared() -> Mapping[str, Any]:
    """The content of sensitivity.yaml: `runs` and `thresholds`."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


def study() -> Study:
    """The exploratory runs of sensitivity.yaml."""
    profile = config.load(LAB)
    runs: list[Run] = []
    for block in declared()["runs"]:
        for seed in registered_seeds(block["count"]):
            spec = config.make_spec(profile, block["arm"], block["task"], seed, **block["settings"])
            if "weights" in block:
                spec = replace(spec, weights=block["weights"])
            runs.append(Run(block["arm"], block["task"], spec))
    return Study("sensitivity", profile, tuple(runs))


def results() -> pd.DataFrame:
    """The recorded exploratory runs: the columns of `Study.frame`, and `settings`, the names of
    the settings that differ from the registered runs."""
    frame = study().frame()
    names = [
        "+".join(block["settings"]) for block in declared()["runs"] for _ in range(block["count"])
    ]
    return frame.assign(settings=names)[frame["status"] != "not run"]


def better_rates(registered: pd.DataFrame) -> pd.DataFrame:
    """The exploratory runs at another learning rate that do better by the reported measure than
    the registered runs of their arm and task: fewer steps, or a higher test accuracy, on average
    over the same seeds. Only whole sets of runs count.

    The rate was chosen on the reported seeds, which favours these runs."""
    explored = results()
    explored = explored[explored["settings"] == "lr"]
    better = [explored.iloc[:0]]
    for (arm, task), runs in explored.groupby(["arm", "task"], sort=False):
        there = registered[(registered["arm"] == arm) & (registered["task"] == task)]
        there = there[there["seed"].isin(runs["seed"])]
        if len(there) != len(runs) or len(runs) < _count(str(arm), str(task)):
            continue
        gain = runs["score"].mean() - there["score"].mean()
        if (runs["threshold"] > 0).any():
            gain = -gain  # fewer steps are better
        if gain > 0:
            better.append(runs)
    return pd.concat(better)


def _count(arm: str, task: str) -> int:
    blocks: Sequence[Mapping[str, Any]] = declared()["runs"]
    return max(it["count"] for it in blocks if (it["arm"], it["task"]) == (arm, task))


def with_runs(registered: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The registered results with `others` in place of the runs of the same arm, task and seed."""
    names = ["arm", "task", "seed"]
    taken = pd.MultiIndex.from_frame(registered[names]).isin(
        pd.MultiIndex.from_frame(others[names])
    )
    return pd.concat([registered[~taken], others], ignore_index=True)
