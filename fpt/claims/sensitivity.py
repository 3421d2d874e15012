"""Exploratory runs beside the registered ones: an arm at another learning rate or budget,
on the registered seeds. They were chosen after the registered results were seen."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from .. import config, sections
from ..analysis.study import Study
from ..analysis.summary import tested_values
from ..files import read_yaml
from ..profile import Run
from ..sections.registration import registered_seeds
from .claim import LAB

FILE = Path(sections.__file__).with_name("sensitivity.yaml")
PLACE = ["arm", "task", "seed"]


@cache
def declared() -> Mapping[str, Any]:
    """The content of sensitivity.yaml: `runs` and `thresholds`."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


def study() -> Study:
    """The exploratory runs of sensitivity.yaml."""
    profile = config.load(LAB)
    runs = []
    for block in declared()["runs"]:
        for seed in registered_seeds(block["count"]):
            spec = config.make_spec(
                profile, block["arm"], block["task"], seed, **block["settings"]
            )
            spec = replace(spec, weights=block.get("weights", spec.weights))
            runs.append(Run(block["arm"], block["task"], spec))
    return Study("sensitivity", profile, tuple(runs))


def results() -> pd.DataFrame:
    """The recorded exploratory runs: the columns of `Study.frame`, `settings`, the names of
    the settings that differ from the registered runs, and `count`, how many runs are
    declared."""
    # Runs are in the order of their blocks.
    frame = study().frame()
    blocks = [block for block in declared()["runs"] for _ in range(block["count"])]
    frame["settings"] = ["+".join(block["settings"]) for block in blocks]
    frame["count"] = [block["count"] for block in blocks]
    return frame[frame["status"] != "not run"]


def better_rates(registered: pd.DataFrame) -> pd.DataFrame:
    """The exploratory runs at another learning rate that do better by the reported measure
    than the registered runs of their arm and task: fewer steps, or a higher test accuracy,
    on average over the same seeds. Only whole sets of runs count.

    The rate was chosen on the reported seeds, which favours these runs."""
    explored = results()
    explored = explored[explored["settings"] == "lr"]
    better = [explored.iloc[:0]]
    for _, runs in explored.groupby(["arm", "task"], sort=False):
        # The same seeds on both sides, so that no rate is compared on luckier ones.
        same_places = registered[_places(registered).isin(_places(runs))]
        if len(same_places) != len(runs) or len(runs) < runs["count"].max():
            continue
        gain = tested_values(runs).mean() - tested_values(same_places).mean()
        if (runs["threshold"] > 0).any():
            gain = -gain  # fewer steps are better
        if gain > 0:
            better.append(runs)
    return pd.concat(better)


def _places(runs: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(runs[PLACE])


def with_runs(registered: pd.DataFrame, better: pd.DataFrame) -> pd.DataFrame:
    """The registered results with `better` runs in place of those of the same arm, task and
    seed."""
    kept = registered[~_places(registered).isin(_places(better))]
    return pd.concat([kept, better], ignore_index=True)
