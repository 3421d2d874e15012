"""The search of learning rates for profile `language`, before its claims are registered.

`python -m lab.search train` trains what is missing, a cell (an arm on a task) after the other,
and `--part I/N` takes every N-th cell. `python -m lab.search` prints its runs, and `rates` the
best rates as params.yaml has them. The records lie among those of the profile, rules and settings
in search.yaml.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import yaml

from fpt import config
from fpt.analysis.steps import area, guessing, validation_losses
from fpt.files import read_yaml
from fpt.profile import Profile
from fpt.project import project
from fpt.records import Record, Store
from fpt.sections.registration import LANGUAGE
from fpt.spec import RunSpec
from fpt.training import sweep

STORE = Store(project().records(LANGUAGE))
FILE = Path(__file__).with_suffix(".yaml")
ALONE = 1  # run in a pack: the arithmetic that is registered


@dataclass(frozen=True)
class Cell:
    """One arm on one task."""

    arm: str
    task: str


@cache
def search_settings() -> Mapping[str, Any]:
    """The content of search.yaml."""
    content: Mapping[str, Any] = read_yaml(FILE)
    return content


def cells(profile: Profile) -> list[Cell]:
    """Every arm on every task of the profile's sections, each once; some were searched and are
    planned no longer."""
    blocks = [block for section in profile.sections.values() for block in section]
    places = [
        Cell(arm, task) for block in blocks for task in block["tasks"] for arm in block["arms"]
    ]
    return list(dict.fromkeys(places))


def rates_of(cell: Cell) -> list[float]:
    """The rates that a cell tries: those of the grid, and those beyond its edge that it needs."""
    settings = search_settings()
    return sorted([*settings["rates"], *settings["beyond"].get(cell.arm, {}).get(cell.task, [])])


def search_spec(profile: Profile, cell: Cell, rate: float, seed: int, share: float) -> RunSpec:
    """A run of the search: `share` of the cell's steps at a rate."""
    settings = search_settings()["settings"]
    complete = config.make_spec(profile, cell.arm, cell.task, seed, lr=rate, **settings)
    evaluations = max(1, round(share * complete.steps / complete.eval_every))
    steps = evaluations * complete.eval_every
    return config.make_spec(profile, cell.arm, cell.task, seed, lr=rate, steps=steps, **settings)


def log_area(spec: RunSpec) -> float:
    """The log area of a recorded run; KeyError if it is not recorded."""
    return math.log(area(recorded(spec)))


def recorded(spec: RunSpec) -> Record:
    """The record of a run of the search; KeyError if there is none."""
    record = STORE.read(spec.key)
    if record is None:
        raise KeyError(spec.key)
    return record


def first_look(profile: Profile, cell: Cell) -> dict[float, RunSpec]:
    """The runs that try all rates for a share of the steps."""
    settings = search_settings()
    seed, share = settings["seeds"][0], settings["share"]
    return {rate: search_spec(profile, cell, rate, seed, share) for rate in rates_of(cell)}


def finals(profile: Profile, cell: Cell, rates: Sequence[float]) -> dict[float, list[RunSpec]]:
    """The runs of all steps, on all seeds, at some rates."""
    return {
        rate: [search_spec(profile, cell, rate, seed, 1.0) for seed in search_settings()["seeds"]]
        for rate in rates
    }


def second_look(profile: Profile, cell: Cell) -> dict[float, RunSpec]:
    """The runs of all steps that a cell needs because its first look says nothing: no rate had
    learned by then, so the order is that of how little the loss rose. Empty if one had. KeyError
    if the first look is not recorded."""
    settings = search_settings()
    looks = first_look(profile, cell)
    shares = {rate: share_of_guessing(spec) for rate, spec in looks.items()}
    if min(shares.values()) < settings["learned"]:
        return {}
    rates = [rate for rate, share in shares.items() if share < settings["hopeless"]]
    return {rate: search_spec(profile, cell, rate, settings["seeds"][0], 1.0) for rate in rates}


def share_of_guessing(spec: RunSpec) -> float:
    """The mean validation loss of a recorded run over that of guessing; KeyError if it is not
    recorded."""
    return fmean(validation_losses(recorded(spec))) / guessing(spec)


def finalists(profile: Profile, cell: Cell) -> list[float]:
    """The rates that the looks leave; KeyError if one is not recorded."""
    settings = search_settings()
    looks = second_look(profile, cell) or first_look(profile, cell)
    areas = {rate: log_area(spec) for rate, spec in looks.items()}
    return sorted(sorted(areas, key=areas.__getitem__)[: settings["finalists"]])


def search(profile: Profile, cell: Cell) -> int:
    """Train what is missing of a cell's search; returns the number of new records."""

    def train(specs: Sequence[RunSpec]) -> int:
        return sweep.run(
            specs,
            STORE,
            device="cpu",
            precision=profile.precision,
            workers=1,
            max_runs=ALONE,
        )

    count = train([*first_look(profile, cell).values()])
    count += train([*second_look(profile, cell).values()])
    runs = finals(profile, cell, finalists(profile, cell))
    return count + train([spec for specs in runs.values() for spec in specs])


def best_rate(profile: Profile, cell: Cell) -> float:
    """The rate with the least mean log area; KeyError if the search is not recorded."""
    runs = finals(profile, cell, finalists(profile, cell))
    means = {rate: np.mean([log_area(spec) for spec in specs]) for rate, specs in runs.items()}
    return min(means, key=means.__getitem__)


def best_rates(profile: Profile) -> dict[str, dict[str, dict[str, float]]]:
    """`arms` of the profile in params.yaml, as the search has it: by arm the best rate on each
    task. KeyError if the search is not recorded."""
    arms: dict[str, dict[str, dict[str, float]]] = {}
    for cell in cells(profile):
        rates = arms.setdefault(cell.arm, {"lr": {}})["lr"]
        rates[cell.task] = best_rate(profile, cell)
    return arms


def is_at_edge(cell: Cell, rate: float) -> bool:
    """Whether no lower or no higher rate was tried, so that a better one may lie beyond."""
    rates = rates_of(cell)
    return rate in (min(rates), max(rates))


def best_areas(profile: Profile, cell: Cell) -> list[float]:
    """The log areas of the runs at the best rate, one per seed."""
    (specs,) = finals(profile, cell, [best_rate(profile, cell)]).values()
    return [log_area(spec) for spec in specs]


def results(profile: Profile) -> pd.DataFrame:
    """A row per run of the search that is recorded: arm, task, share, rate, seed, area, accuracy at
    the end, core-seconds."""
    rows = []
    for cell in cells(profile):
        looks = first_look(profile, cell)
        specs = [(search_settings()["share"], spec) for spec in looks.values()]
        # A rate that is no finalist may have a whole run too, from a second look.
        runs = finals(profile, cell, rates_of(cell))
        specs += [(1.0, spec) for group in runs.values() for spec in group]
        for share, spec in specs:
            record = STORE.read(spec.key)
            if record is None:
                continue
            last = record.curve[-1]["valid_accuracy"] if record.curve else math.nan
            seconds = record.cost["process_seconds"]
            rows.append(
                (cell.arm, cell.task, share, spec.lr, spec.seed, area(record), last, seconds)
            )
    columns = ["arm", "task", "share", "lr", "seed", "area", "accuracy", "core_seconds"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.search", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=["train", "rates", "show"], default="show")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="of the cells")
    args = parser.parse_args()
    profile = config.load(LANGUAGE)
    if args.verb == "train":
        for cell in sweep.shard(cells(profile), args.part):
            count = search(profile, cell)
            rate = best_rate(profile, cell)
            place = " (at the edge of the grid)" if is_at_edge(cell, rate) else ""
            name = f"{cell.arm} on {cell.task}"
            print(f"{name}: {count} new records, {rate:g} is best{place}", flush=True)
    elif args.verb == "rates":
        print(yaml.safe_dump({"arms": best_rates(profile)}, sort_keys=False))
    else:
        groups = results(profile).groupby(["task", "arm", "share", "lr"], sort=False)
        print(groups[["area", "accuracy", "core_seconds"]].mean().to_string())


if __name__ == "__main__":
    main()
