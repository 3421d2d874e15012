"""An audit from its data to its results: search, reported runs, and what the time cut
short."""

import hashlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..files import read_json, write_json
from ..spec import canonical
from ..training.sweep import side_by_side
from . import baselines, plan
from .arms import CONTROLS, CONVOLUTIONS, LABELS, LINEAR, PRETRAINED, PROBE, Sizes
from .plan import Layout
from .runs import Machine, Pack, Result, Results, best_rates, train_pack

PLAN = "plan.json"
FEWEST_DRAWS = 2  # of a control; one alone has no spread


# The draw of a run (None: not drawn), its fold and its seed.
Place = tuple[int | None, int, int]
Cell = tuple[int, str]  # a fold and an arm


@dataclass
class Outcome:
    """What an audit has trained: results by arm, and in it by draw, fold and seed; the best
    rate of each arm on each fold; all rates that were tried; and sentences on what the time
    did not allow."""

    results: dict[str, dict[Place, Result]]
    rates: dict[str, list[float]]
    tried: list[float]
    cuts: list[str] = field(default_factory=list)

    def scores(self, arm: str) -> np.ndarray:
        """(draws, seeds, test examples of all folds): how right an arm's runs are."""
        results = self.results[arm]
        draws, folds, seeds = (
            list(dict.fromkeys(part)) for part in zip(*results, strict=True)
        )
        return np.array(
            [
                [
                    np.concatenate([results[draw, fold, seed].correct for fold in folds])
                    for seed in seeds
                ]
                for draw in draws
            ]
        )

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """The mean validation score of each trained arm at each step that was evaluated, of
        the runs that did not diverge."""
        curves = {}
        for arm, results in self.results.items():
            complete = [
                run.curve for run in results.values() if run.curve and not run.diverged
            ]
            if complete:
                scores = [
                    [point["valid_accuracy"] for point in curve] for curve in complete
                ]
                steps = [point["step"] for point in complete[0]]
                curves[arm] = list(
                    zip(steps, np.mean(scores, axis=0).tolist(), strict=True)
                )
        return curves


@dataclass
class Engine:
    """The parts of one audit."""

    layout: Layout
    machine: Machine
    results: Results
    deadline: float  # of time.monotonic()
    baselines_end: float  # likewise, of the linear model and the convolutions
    search_end: float  # likewise; the rest of the time is that of the reported runs
    pool: Any  # of `worker_pool`
    advance: Callable[[int], None]  # told of each pack's steps as it ends

    def run(self) -> Outcome:
        """Everything, in the order of its value, until the deadline."""
        outcome = Outcome({}, {}, [*plan.RATES])
        # A linear model costs seconds and may settle the matter, so it comes first.
        end = self.baselines_end
        self.fit_each_fold(outcome, LINEAR, baselines.linear, end)
        if all(map(baselines.has_convolutions, self.layout.folds)):
            self.fit_each_fold(outcome, CONVOLUTIONS, baselines.convolutions, end)
        rates = self.search(outcome)
        self.report(outcome, rates)
        body = self.layout.bodies[PRETRAINED]
        # A probe reads the weights and the seed of the input net, the same on every fold.
        spec = self.layout.spec(0, PRETRAINED, 1.0, 0, None, self.layout.sizes.steps)
        probe = partial(baselines.probe, body, spec, self.machine)
        # Last, because no verdict needs it.
        self.fit_each_fold(outcome, PROBE, probe, self.deadline)
        return outcome

    # ---------------------------------------------------------------------------- baselines

    def fit_each_fold(
        self,
        outcome: Outcome,
        arm: str,
        fit: Callable[[Any, float], dict[str, Any]],
        deadline: float,
    ) -> None:
        """Read or fit an arm that has one run a fold, until a deadline."""
        runs: dict[Place, Result] = {}
        for index, fold in enumerate(self.layout.folds):
            name = f"{arm}-{index}"
            if name not in self.results:
                try:
                    if time.monotonic() > deadline:
                        raise baselines.Late
                    self.results.write(name, fit(fold, deadline))
                except baselines.Late:
                    outcome.cuts.append(f"“{LABELS[arm]}” was not fitted.")
                    return
            runs[None, index, 0] = self.results.read(name)
        outcome.results[arm] = runs

    # ------------------------------------------------------------------------------- search

    def search(self, outcome: Outcome) -> dict[Cell, float]:
        """The best rate of each arm on each fold, as far as the time of the search allows.
        A rate that was chosen by less than the whole search is better than no result."""
        cells = [
            (fold, arm)
            for fold in range(len(self.layout.folds))
            for arm in self.layout.bodies
        ]
        first = {cell: self.layout.first_look(*cell, plan.RATES) for cell in cells}
        packs = self.trained(first)
        guessing = [cell for cell, pack in packs.items() if self.only_guesses(pack)]
        second = {cell: self.layout.second_look(*cell, plan.RATES) for cell in guessing}
        packs |= self.trained(second)
        looks = {cell: [pack] for cell, pack in packs.items()}
        # One grid for all: a rate that one arm needs beyond the edge is tried by every arm.
        # The rate of an arm will be one of its finalists, so neither may be an edge.
        while time.monotonic() < self.search_end:
            finalists = [rate for look in looks.values() for rate in self.finalists(look)]
            more = plan.beyond(finalists, outcome.tried)
            if not more:
                break
            outcome.tried = sorted([*outcome.tried, *more])
            further = {
                cell: (
                    self.layout.second_look(*cell, more)
                    if cell in guessing
                    else self.layout.first_look(*cell, more)
                )
                for cell in looks
            }
            for cell, pack in self.trained(further).items():
                looks[cell].append(pack)
        finals = {
            cell: self.layout.finals(*cell, self.finalists(look))
            for cell, look in looks.items()
        }
        self.train([*itertools.chain(*finals.values())], self.search_end)
        rates = {}
        shortened = {arm: False for _, arm in finals}
        for cell, seeds in finals.items():
            complete = [pack for pack in seeds if self.is_complete(pack)]
            shortened[cell[1]] |= len(complete) < len(seeds)
            (rates[cell],) = best_rates(self.results, complete or looks[cell], 1)
        outcome.cuts += [
            f"The search for the rate of “{LABELS[arm]}” did not end."
            for arm, is_cut in shortened.items()
            if is_cut
        ]
        for arm in sorted({arm for _, arm in set(cells) - set(rates)}):
            outcome.cuts.append(f"No rate of “{LABELS[arm]}” was found.")
        return rates

    def only_guesses(self, look: Pack) -> bool:
        """Whether a look is no better on validation than the best constant answer."""
        guesses = self.layout.folds[look.fold].guesses("valid")
        return not plan.has_learned(self.results, [look], guesses)

    def finalists(self, look: Sequence[Pack]) -> list[float]:
        """The best rates of an arm's look."""
        return best_rates(self.results, look, plan.FINALISTS)

    # ----------------------------------------------------------------------------- reported

    def report(self, outcome: Outcome, rates: Mapping[Cell, float]) -> None:
        """Train the reported runs."""
        packs = {cell: self.layout.reported(*cell, rate) for cell, rate in rates.items()}
        self.train(plan.by_rounds(packs.values()), self.deadline)
        for arm in self.layout.bodies:
            # A unit is one draw, or some seeds, on all folds; there is none if a fold has
            # no rate.
            by_fold = [packs.get((fold, arm), []) for fold in range(len(self.layout.folds))]
            units = [*zip(*by_fold, strict=False)]
            complete = [unit for unit in units if all(map(self.is_complete, unit))]
            if len(complete) < len(units):
                kind = "draws" if arm in CONTROLS else "packs"
                outcome.cuts.append(
                    f"“{LABELS[arm]}”: {len(complete)} of {len(units)} {kind} were trained."
                )
            if not complete or (arm in CONTROLS and len(complete) < FEWEST_DRAWS):
                continue
            outcome.rates[arm] = [
                rates[fold, arm] for fold in range(len(self.layout.folds))
            ]
            outcome.results[arm] = {
                (spec.draw, pack.fold, spec.seed): self.results.read(spec.key)
                for unit in complete
                for pack in unit
                for spec in pack.specs
            }

    def train(self, packs: Sequence[Pack], deadline: float) -> None:
        """Train what is missing of `packs`, until a deadline."""
        missing = []
        for pack in packs:
            if self.is_complete(pack):
                self.advance(pack.run_steps)
            else:
                missing.append(pack)
        train = partial(train_pack, machine=self.machine, deadline=deadline)
        # Written as they end, so that an audit that is killed loses only the packs under
        # way.
        for pack, contents in side_by_side(train, missing, self.pool):
            if contents is None:
                continue
            for spec, content in zip(pack.specs, contents, strict=True):
                self.results.write(spec.key, content)
            self.advance(pack.run_steps)

    def trained(self, packs: Mapping[Cell, Pack]) -> dict[Cell, Pack]:
        """Train a pack of each cell in the time of the search; those that are complete."""
        self.train([*packs.values()], self.search_end)
        return {cell: pack for cell, pack in packs.items() if self.is_complete(pack)}

    def is_complete(self, pack: Pack) -> bool:
        return all(spec.key in self.results for spec in pack.specs)


def audit_key(facts: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that name an audit by all that its results depend on."""
    return hashlib.sha256(canonical(facts).encode()).hexdigest()[:16]


def planned_sizes(
    layout: Layout,
    machine: Machine,
    results: Results,
    minutes: float,
    steps: int | None,
    draws: int | None,
) -> Sizes:
    """The sizes of an audit: those of its first call, so that a later one goes on with the
    same runs, else those that the time pays for."""
    path = results.folder / PLAN
    # Costs are measured anew by each call; without the plan, a second call would want other
    # runs.
    if path.exists():
        return Sizes(**read_json(path))
    costs = plan.measured_costs(layout, machine)
    sizes = plan.affordable_sizes(
        layout, costs, 60 * minutes, machine.workers, steps, draws
    )
    # The same audit may have begun elsewhere in the meantime.
    if path.exists():
        return Sizes(**read_json(path))
    write_json(path, asdict(sizes))
    return sizes
