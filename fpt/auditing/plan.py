"""How many runs of how many steps an audit can pay for, and which runs these are.

All arms share everything but what they freeze: steps, batch, the grid of rates, and the
batches of equal seeds. The rate of each arm is chosen on validation by successive halving:
all rates with one seed for a quarter of the steps, then the best two with two seeds for all
of them. An arm that has learned nothing in a quarter of the steps tries all rates for all
steps: its first look has no order but that of chance. If one of an arm's best two is the
edge of the grid, all arms try the next rate beyond. Seeds and draws of the search are not
those of the reported runs.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..isolation import usual_settings
from ..spec import FOUR_GROUPS, RunSpec, canonical
from ..training import device as devices
from ..training.loop import Loop
from ..training.probe import now
from ..training.train import memory_for
from .arms import CONTROLS, NETS, PRETRAINED, Body, Sizes, units_of
from .folds import Fold
from .runs import SMALLER, Machine, Pack, Results
from .verdict import MOST_DRAWS

RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
LOWER, HIGHER = (0.0001, 0.00003), (0.1, 0.3)  # tried by all arms if one is best at an edge
SHARE_OF_FIRST_LOOK = 0.25
FINALISTS = 2
ERRORS = 3  # standard errors above the best constant answer, from which an arm has learned
SEARCH_SEEDS = (1_000_000, 1_000_001)  # and draws: none of the reported runs has them
EVALUATIONS = 10  # of each run at most, on at most `EVALUATED` validation examples
EVALUATED = 256
STEPS_BETWEEN = 20  # at least: an evaluation costs as much as about ten steps
FEWEST_STEPS = 40
FEWEST_PLANNED = 3  # draws of each control
STEPS = (2000, 1500, 1000, 700, 500, 350, 250, 175, 125, 90, 60, FEWEST_STEPS)
# The sizes of an audit from the best, and the steps below which the next is preferred.
SIZES = (
    (500, Sizes(0, draws=MOST_DRAWS, seeds=3, repeats=6)),
    (250, Sizes(0, draws=5, seeds=2, repeats=5)),
    (125, Sizes(0, draws=4, seeds=2, repeats=4)),
    (FEWEST_STEPS, Sizes(0, draws=FEWEST_PLANNED, seeds=2, repeats=4)),
)
# Of the time; measured costs are those of a machine that may be busier later.
SHARE_PLANNED = 0.75
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cost:
    """Seconds of one run of an arm, on one core or a GPU: a training step, an evaluation,
    building the model, and reading the test examples."""

    step: float
    evaluation: float
    building: float
    test: float

    def of_training(self, steps: int) -> float:
        evaluations = math.ceil(steps / steps_between(steps))
        return steps * self.step + evaluations * self.evaluation + self.building


def steps_between(steps: int) -> int:
    """The number of steps between two evaluations of a run."""
    return min(steps, max(STEPS_BETWEEN, steps // EVALUATIONS))


@dataclass(frozen=True)
class Layout:
    """What makes the runs of an audit: its folds, bodies by arm, batch and sizes."""

    folds: Sequence[Fold]
    bodies: Mapping[str, Body]
    batch: int
    sizes: Sizes
    random_state: int

    def spec(
        self, fold: int, arm: str, rate: float, seed: int, draw: int | None, steps: int
    ) -> RunSpec:
        """One run. `steps` may be fewer than all, for a first look."""
        task = self.folds[fold].task
        body = self.bodies[arm]
        groups = body.architecture.groups
        return RunSpec(
            data=canonical(task.identity),
            backbone=body.architecture.name,
            init=body.init,
            weights=body.weights,
            trainable=tuple(group for group in FOUR_GROUPS if group in groups),
            lr=rate,
            batch=min(self.batch, task.sizes["train"]),
            steps=steps,
            eval_every=steps_between(steps),
            eval_items=min(EVALUATED, task.sizes["valid"]),
            seed=self.random_state + seed,
            draw=None if draw is None else self.random_state + draw,
            # The same for all arms, and one difference less from the linear models.
            dropout=0.0,
            augment=False,
        )

    @property
    def first_steps(self) -> int:
        """The steps of a run of the first look."""
        return max(1, round(SHARE_OF_FIRST_LOOK * self.sizes.steps))

    def finals(self, fold: int, arm: str, rates: Sequence[float]) -> list[Pack]:
        """Some rates for all steps, a pack for each search seed."""
        steps = self.sizes.steps
        return [self.search(fold, arm, rates, steps, seed) for seed in SEARCH_SEEDS]

    def search(
        self,
        fold: int,
        arm: str,
        rates: Sequence[float],
        steps: int,
        seed: int = SEARCH_SEEDS[0],
    ) -> Pack:
        """Rates that are compared on the same draw, nets and batches."""
        draw = seed if arm in CONTROLS else None
        specs = [self.spec(fold, arm, rate, seed, draw, steps) for rate in rates]
        return self.pack(fold, arm, specs)

    def reported(self, fold: int, arm: str, rate: float) -> list[Pack]:
        """The runs that are reported: a pack for each draw."""
        steps = self.sizes.steps
        packs = []
        for draw, seeds in units_of(arm, self.sizes):
            specs = [self.spec(fold, arm, rate, seed, draw, steps) for seed in seeds]
            packs.append(self.pack(fold, arm, specs, is_reported=True))
        return packs

    def pack(
        self, fold: int, arm: str, specs: Sequence[RunSpec], is_reported: bool = False
    ) -> Pack:
        task = self.folds[fold].task
        architecture = self.bodies[arm].architecture
        return Pack(fold, task, arm, architecture, tuple(specs), is_reported)


def measured_costs(layout: Layout, machine: Machine) -> dict[str, Cost]:
    """The cost of a run of each trained arm. Controls have the architecture of the
    pretrained arm and cost the same, so each architecture is measured once."""
    # On this machine as busy as it is now: a budget is in minutes, not in processor time.
    costs = {arm: measured_cost(layout, arm, machine) for arm in (PRETRAINED, *NETS)}
    return costs | dict.fromkeys(CONTROLS, costs[PRETRAINED])


@usual_settings(gradients=True)
def measured_cost(layout: Layout, arm: str, machine: Machine) -> Cost:
    """Train three steps of a pack of runs, and evaluate it."""
    fold = layout.folds[0]
    device = devices.choose(machine.device)
    # A GPU takes about as long for five runs as for two; a core does not.
    rates = RATES if device.type == "cuda" else RATES[:2]
    specs = [layout.spec(0, arm, rate, SEARCH_SEEDS[0], None, 100) for rate in rates]
    # As in the workers of an audit.
    with memory_for(specs, SMALLER), devices.threads(1):
        # Built twice, because the first time reads the weights, which is then in memory.
        for _ in range(2):
            start = now(device)
            loop = Loop(
                specs,
                fold.task,
                device,
                quiet=True,
                architecture=layout.bodies[arm].architecture,
                precision=machine.precision,
            )
            building = now(device) - start
        steps = []
        for _ in range(3):
            start = now(device)
            loop.train_step()
            steps.append((now(device) - start) / len(specs))
        start = now(device)
        loop.validate()
        evaluation = (now(device) - start) / len(specs)
    tests = fold.task.sizes["test"] / max(1, specs[0].eval_items)
    return Cost(min(steps), evaluation, building / len(specs), tests * evaluation)


def stages(layout: Layout, costs: Mapping[str, Cost]) -> list[list[float]]:
    """Seconds of each pack of an audit, in the order in which they are trained: of the
    first look, of the finals, and of the reported runs. A stage waits for the one
    before."""
    folds = len(layout.folds)
    looks = []
    finals = []
    reported = []
    for arm, cost in costs.items():
        looks.append(len(RATES) * cost.of_training(layout.first_steps))
        training = cost.of_training(layout.sizes.steps)
        finals.append(FINALISTS * training)
        units = units_of(arm, layout.sizes)
        reported.append([len(seeds) * (training + cost.test) for _, seeds in units])
    return [folds * looks, folds * len(SEARCH_SEEDS) * finals, folds * by_rounds(reported)]


def by_rounds(packs: Iterable[Sequence[Item]]) -> list[Item]:
    """The first pack of each arm, then the second of each, so that what the time cuts off
    is the same number of draws for all."""
    rounds = itertools.zip_longest(*packs)
    return [pack for of_all in rounds for pack in of_all if pack is not None]


def makespan(packs: Sequence[float], workers: int) -> float:
    """When the last of some packs ends, if each worker takes the next as it is free."""
    ends = [0.0] * workers
    for seconds in packs:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def duration(layout: Layout, costs: Mapping[str, Cost], workers: int) -> float:
    """Seconds that an audit takes. Some workers are idle at the end of each stage, so this
    is more than the time of all packs divided by the number of workers."""
    return sum(makespan(packs, workers) for packs in stages(layout, costs))


def in_steps(layout: Layout) -> dict[str, Cost]:
    """Costs of the arms in steps in place of seconds."""
    return dict.fromkeys(layout.bodies, Cost(1, 0, 0, 0))


def planned_steps(layout: Layout) -> int:
    """The steps of all runs together, for a progress bar."""
    return round(sum(map(sum, stages(layout, in_steps(layout)))))


def share_of_search(layout: Layout, workers: int) -> float:
    """The share of its time that an audit may search for rates. A search may need more than
    is planned, for arms that learn late and grids that are extended: what is left out of it
    for the reported runs is its own."""
    steps = in_steps(layout)
    *_, reported = stages(layout, steps)
    share = makespan(reported, workers) / duration(layout, steps, workers)
    return 1 - SHARE_PLANNED * share


def affordable_sizes(
    layout: Layout,
    costs: Mapping[str, Cost],
    seconds: float,
    workers: int,
    steps: int | None,
    draws: int | None,
) -> Sizes:
    """The largest sizes whose runs take at most SHARE_PLANNED of `seconds`; if none do, the
    smallest, whose runs the deadline then cuts short. `steps` and `draws` fix those."""
    allowed = [pair for pair in SIZES if draws in (None, pair[1].draws)]
    for fewest, sizes in allowed:
        for count in [steps] if steps else STEPS:
            # Fewer draws are better than so few steps, unless the user has fixed either.
            if count < fewest and steps is None and draws is None:
                break
            planned = replace(layout, sizes=replace(sizes, steps=count))
            if duration(planned, costs, workers) <= SHARE_PLANNED * seconds:
                return planned.sizes
    return replace(allowed[-1][1], steps=steps or FEWEST_STEPS)


def has_learned(results: Results, packs: Sequence[Pack], guesses: np.ndarray) -> bool:
    """Whether a run of `packs` is better on validation than the best constant answer, whose
    scores are `guesses` (N,)."""
    scores = [
        results.read(spec.key)["valid_score"] for pack in packs for spec in pack.specs
    ]
    error = float(guesses.std()) / math.sqrt(len(guesses))
    return max(scores) > float(guesses.mean()) + ERRORS * error


def beyond(best: Sequence[float], rates: Sequence[float]) -> list[float]:
    """The rates to try next, because one of the `best` is the lowest or the highest of
    `rates`."""
    more = []
    for edge, further in ((min(rates), LOWER), (max(rates), HIGHER)):
        untried = [rate for rate in further if rate not in rates]
        if edge in best and untried:
            more.append(untried[0])
    return more
