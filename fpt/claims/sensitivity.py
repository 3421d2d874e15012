"""Exploratory runs beside the registered ones: an arm at another learning rate, on the
registered seeds. They were chosen after the registered results were seen."""

from collections.abc import Iterator, Mapping
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
Block = Mapping[str, Any]  # one of `runs` in sensitivity.yaml


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
                profile, block["arm"], block["task"], seed, lr=block["lr"]
            )
            spec = replace(spec, weights=block.get("weights", spec.weights))
            runs.append(Run(block["arm"], block["task"], spec))
    return Study("sensitivity", profile, tuple(runs))


def compared(
    registered: pd.DataFrame,
) -> Iterator[tuple[Block, pd.DataFrame, pd.DataFrame]]:
    """Each block of sensitivity.yaml with the `registered` runs of its arm and task, and
    with its own, on the same seeds: rows of `Study.frame`. Only where all are recorded."""
    explored = study().frame()
    for block in declared()["runs"]:
        usual = _recorded(registered, block)
        tried = _recorded(explored[explored["lr"] == block["lr"]], block)
        # The same seeds on both sides, so that no rate is compared on luckier ones.
        usual = usual[usual["seed"].isin(tried["seed"])]
        # Half a set would show the first seeds alone.
        if len(usual) == len(tried) == block["count"]:
            yield block, usual, tried


def _recorded(runs: pd.DataFrame, block: Block) -> pd.DataFrame:
    """The recorded ones of the runs of a block's arm on its task."""
    of_block = (runs["arm"] == block["arm"]) & (runs["task"] == block["task"])
    return runs[of_block & (runs["status"] != "not run")]


def better_rates(registered: pd.DataFrame) -> pd.DataFrame:
    """The exploratory runs at another learning rate that do better by the reported measure
    than the registered runs of their arm and task: fewer steps, or a higher test accuracy,
    on average over the same seeds. Only whole sets of runs count.

    The rate was chosen on the reported seeds, which favours these runs."""
    gains: dict[tuple[str, str], float] = {}
    better = {}
    for block, usual, tried in compared(registered):
        gain = tested_values(tried).mean() - tested_values(usual).mean()
        if (tried["threshold"] > 0).any():
            gain = -gain  # fewer steps are better
        place = (block["arm"], block["task"])
        # Of several rates, the best.
        if gain > gains.get(place, 0.0):
            gains[place] = gain
            better[place] = tried
    return pd.concat(better.values()) if better else registered.iloc[:0]


def with_runs(registered: pd.DataFrame, better: pd.DataFrame) -> pd.DataFrame:
    """The registered results with `better` runs in place of those of the same arm, task and
    seed."""
    runs = pd.concat([registered, better])
    return runs.drop_duplicates(["arm", "task", "seed"], keep="last", ignore_index=True)
