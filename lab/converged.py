"""The experiment `converged`: its runs, how rates are chosen, and the measure.

The plan is converged.yaml beside this file; `lab.launch` trains it. The registration, in
reports/experiments/converged, covers all three.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fpt import config
from fpt.backbones import backbone
from fpt.files import read_yaml
from fpt.records import Record, Store
from fpt.sections.registration import registered_seeds, seed_from
from fpt.spec import RunSpec, canonical
from fpt.tasks import get_task
from fpt.training.progress import reached
from fpt.training.settings import check_spec, semantics_of

FOLDER = Path(__file__).parents[1] / "reports" / "experiments" / "converged"
REGISTRATION = FOLDER / "registration.yaml"
STORE = Store(FOLDER)
PLAN = Path(__file__).with_suffix(".yaml")
FROZEN = ("input", "layernorm", "output", "positions")  # the paper's four groups
THRESHOLD = 0.95  # validation accuracy, of the measure on bit tasks


@cache
def plan() -> Mapping[str, Any]:
    """The content of converged.yaml."""
    content: Mapping[str, Any] = read_yaml(PLAN)
    return content


# ----------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Cell:
    """One arm on one task in a block, whose number counts from 1."""

    block: int
    arm: str
    task: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the plan says of the block."""
        settings: Mapping[str, Any] = plan()["blocks"][self.block - 1]
        return settings

    @property
    def model(self) -> str:
        """The name of what is frozen or trained."""
        return "LSTM" if self.arm == "LSTM" else self.settings.get("model", "nano GPT-2")

    @property
    def is_full(self) -> bool:
        """Whether all parameters are trained."""
        return self.arm in ("fully trained", "LSTM")

    @property
    def is_of_steps(self) -> bool:
        """Whether the measure is the steps to a threshold; else the accuracy at the end."""
        return "profile" in self.settings or "threshold" in plan()["tasks"][self.task]


@dataclass(frozen=True)
class Planned:
    """A run of the plan and its role: `search` or `reported`."""

    cell: Cell
    role: str
    spec: RunSpec


@dataclass(frozen=True, order=True)
class Rate:
    """A learning rate and the steps in which it rises."""

    lr: float
    warmup: int = 0


def cells(block: int) -> list[Cell]:
    """Every arm of a block on each of its tasks."""
    settings = plan()["blocks"][block - 1]
    return [Cell(block, arm, task) for task in settings["tasks"] for arm in settings["arms"]]


def make_spec(cell: Cell, rate: Rate, seed: int, **changed: Any) -> RunSpec:
    """The spec of one run; `changed` settings override those of its task."""
    rates = {"lr": rate.lr, "warmup": rate.warmup}
    if "profile" in cell.settings:
        profile = config.load(cell.settings["profile"])
        return config.make_spec(profile, "full", cell.task, seed, **rates)
    model = plan()["models"][cell.model]
    arm = plan()["arms"].get(cell.arm, plan()["arms"]["fully trained"])
    of_task = dict(plan()["tasks"][cell.task])
    task = get_task(of_task.pop("name", cell.task), **of_task.pop("options"))
    architecture = backbone(model["backbone"])
    groups = architecture.groups if cell.is_full else FROZEN
    # An LSTM knows the order by itself; everything else has or gets a table of positions.
    if cell.model != "LSTM":
        groups = tuple({*groups, "positions"})
    reads_weights = arm["init"] not in ("random", "random-own")
    spec = RunSpec(
        data=canonical(task.identity),
        backbone=model["backbone"],
        init=arm["init"],
        weights=model["weights"] if reads_weights else None,
        trainable=tuple(sorted(groups)),
        seed=seed,
        augment=False,
        prefix=cell.settings.get("prefix"),
        **{**plan()["defaults"], **of_task, **rates, **changed},
    )
    spec = replace(spec, semantics=semantics_of(spec))
    check_spec(f"{cell.arm} on {cell.task}", spec)
    return spec


def grid(cell: Cell) -> Mapping[str, Any]:
    """The rates, those beyond their edges, and the warm-ups that a cell tries."""
    settings: Mapping[str, Any] = plan()["search"]["fully trained" if cell.is_full else "frozen"]
    # Only a transformer is said to need a warm-up.
    return {**settings, "warmups": [0]} if cell.arm == "LSTM" else settings


def search_specs(cell: Cell, rate: Rate, seeds: Sequence[int] = ()) -> list[RunSpec]:
    """The runs that try a rate, one per seed."""
    search = plan()["search"]
    if "profile" in cell.settings:
        return [make_spec(cell, rate, seed) for seed in seeds or search["seeds"]]
    steps = round(plan()["tasks"][cell.task]["steps"] * search["shares"].get(cell.task, 1.0))
    changed: dict[str, Any] = {"steps": steps}
    if cell.task in search["thresholds"]:
        changed["threshold"] = search["thresholds"][cell.task]
    chosen = (seeds or search["seeds"])[: search["counts"][cell.task]]
    return [make_spec(cell, rate, seed, **changed) for seed in chosen]


def first_rates(cell: Cell) -> list[Rate]:
    """The rates that a cell tries first."""
    return [Rate(lr, warmup) for warmup in grid(cell)["warmups"] for lr in grid(cell)["rates"]]


def rates_of(cell: Cell) -> list[Rate] | None:
    """All rates that a cell tries: if the best one is at an edge, one more beyond it. None as long
    as the first ones are not recorded."""
    rates = first_rates(cell)
    best = best_of(cell, rates)
    if best is None:
        return None
    lrs = grid(cell)["rates"]
    if best.lr in (lrs[0], lrs[-1]):
        below, above = grid(cell)["beyond"]
        rates.append(replace(best, lr=below if best.lr == lrs[0] else above))
    return rates


def best_rate(cell: Cell) -> Rate | None:
    """The rate that is reported; None as long as the search is not recorded."""
    rates = rates_of(cell)
    return rates and best_of(cell, rates)


def best_of(cell: Cell, rates: Sequence[Rate]) -> Rate | None:
    """The best of some rates by the measure that is reported: the least mean of log steps. If more
    than half of the runs at that rate never reach the threshold, or if the measure is accuracy, the
    best mean of the highest validation accuracies. Of equals, the lower rate. None if a run is not
    recorded."""
    records = {}
    for rate in rates:
        found = [STORE.read(spec.key) for spec in search_specs(cell, rate)]
        records[rate] = [record for record in found if record is not None]
        if len(records[rate]) < len(found):
            return None
    if cell.is_of_steps:
        best = min(sorted(rates), key=lambda rate: np.mean([log_steps(r) for r in records[rate]]))
        censored = [steps_to_threshold(record)[1] for record in records[best]]
        if np.mean(censored) <= 0.5:
            return best
    return max(
        sorted(rates, reverse=True),
        key=lambda rate: (np.mean([r.metrics["valid_accuracy"] for r in records[rate]]), -rate.lr),
    )


@cache
def digest() -> str:
    """SHA-256 of the registration."""
    return hashlib.sha256(REGISTRATION.read_bytes()).hexdigest()


def seeds_of(cell: Cell) -> list[int]:
    """The seeds of a cell's reported runs: they follow from the registration, so that none of these
    runs can be older. Those of nano GPT-2 are the registered ones of `lab`."""
    count = cell.settings.get("seeds_by_arm", {}).get(cell.arm, cell.settings["seeds"])
    if "profile" in cell.settings:
        return registered_seeds(count, cell.settings["profile"])
    return [seed_from(f"{digest()}/{index}") for index in range(count)]


def reported_specs(cell: Cell, rate: Rate) -> list[RunSpec]:
    """The runs that are reported, one per seed."""
    return [make_spec(cell, rate, seed) for seed in seeds_of(cell)]


def known_runs() -> Iterator[Planned]:
    """The runs that are known by now, in the order of training: of each block the search, the rates
    beyond an edge, and when all rates are chosen the reported runs, seed by seed, in an order that
    has nothing to do with the arms, so that neither the day nor the machine can go with an arm."""
    for number in range(1, len(plan()["blocks"]) + 1):
        rates = {cell: rates_of(cell) for cell in cells(number)}
        for cell, of_cell in rates.items():
            for rate in of_cell or first_rates(cell):
                for spec in search_specs(cell, rate):
                    yield Planned(cell, "search", spec)
        chosen = {cell: best_rate(cell) for cell in rates}
        runs = [
            (index, spec.key, Planned(cell, "reported", spec))
            for cell, rate in chosen.items()
            if rate is not None and None not in chosen.values()
            for index, spec in enumerate(reported_specs(cell, rate))
        ]
        yield from (run for _, _, run in sorted(runs, key=lambda row: row[:2]))


# -------------------------------------------------------------------------------------- measure


def steps_to_threshold(record: Record) -> tuple[float, bool]:
    """The steps to the threshold, and whether they are a lower bound.

    The threshold is 95% validation accuracy, of nano GPT-2 that of the run. The first of two
    consecutive evaluations at it counts, interpolated from the evaluation before. If it is never
    reached, the bound is the last step that was planned.
    """
    spec = record.spec
    threshold = min(THRESHOLD, spec.threshold or THRESHOLD)
    if spec.backbone == "nano":
        threshold = spec.threshold
    accuracies = [point["valid_accuracy"] for point in record.curve]
    index = reached(accuracies, threshold)
    if index is None or record.status != "done":
        return float(spec.steps), True
    step = record.curve[index]["step"]
    if index == 0:
        return step, False
    before = record.curve[index - 1]
    rise = (threshold - accuracies[index - 1]) / (accuracies[index] - accuracies[index - 1])
    return before["step"] + rise * (step - before["step"]), False


def log_steps(record: Record) -> float:
    """The logarithm of `steps_to_threshold`."""
    return math.log(steps_to_threshold(record)[0])
