"""An audit from its data to its results: search, reported runs, and what the time cut
short."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ..spec import canonical
from ..training.sweep import side_by_side
from . import baselines, plan
from .arms import CONTROLS, CONVOLUTIONS, LABELS, LINEAR, PRETRAINED, PROBE, Sizes
from .plan import Layout
from .runs import Machine, Pack, Results, best_rates, train_pack

PLAN = "plan"  # the file beside the results
FEWEST_DRAWS = 2  # of a control; one alone has no spread


Cell = tuple[int, str]  # a fold and an arm


@dataclass
class Outcome:
    """What an audit has trained: its runs, each the content of its file with its arm, draw
    (None: not drawn), fold and seed; the best rate of each arm on each fold; all rates that
    were tried; and sentences on what the time did not allow."""

    runs: list[dict[str, Any]]
    rates: dict[str, list[float]]
    tried: list[float]
    cuts: list[str] = field(default_factory=list)


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
        outcome = Outcome([], {}, [*plan.RATES])
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
        runs = []
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
            place = {"arm": arm, "draw": None, "fold": index, "seed": 0}
            runs.append({**place, **self.results.read(name)})
        outcome.runs += runs

    # ------------------------------------------------------------------------------- search

    def search(self, outcome: Outcome) -> dict[Cell, float]:
        """The best rate of each arm on each fold, as far as the time of the search allows:
        a first look at all rates, a wider grid if an edge is best, then the finalists."""
        folds = range(len(self.layout.folds))
        cells = [(fold, arm) for fold in folds for arm in self.layout.bodies]
        steps = dict.fromkeys(cells, self.layout.first_steps)
        packs = self.look(steps, plan.RATES)
        # Arms that have learned nothing look again, for all steps.
        guessing = [cell for cell, pack in packs.items() if self.only_guesses(pack)]
        second = dict.fromkeys(guessing, self.layout.sizes.steps)
        packs |= self.look(second, plan.RATES)
        steps |= second
        looks = {cell: [pack] for cell, pack in packs.items()}
        # One grid for all: a rate that one arm needs beyond the edge is tried by every arm.
        # The rate of an arm will be one of its finalists, so neither may be an edge.
        while time.monotonic() < self.search_end:
            finalists = [rate for look in looks.values() for rate in self.finalists(look)]
            more = plan.beyond(finalists, outcome.tried)
            if not more:
                break
            outcome.tried = sorted([*outcome.tried, *more])
            further = self.look({cell: steps[cell] for cell in looks}, more)
            for cell, pack in further.items():
                looks[cell].append(pack)
        finals = [
            pack
            for cell, look in looks.items()
            for pack in self.layout.finals(*cell, self.finalists(look))
        ]
        self.train(finals, self.search_end)
        complete = [pack for pack in finals if self.is_complete(pack)]
        for arm in dict.fromkeys(pack.arm for pack in finals if pack not in complete):
            outcome.cuts.append(f"The search for the rate of “{LABELS[arm]}” did not end.")
        for arm in sorted({arm for fold, arm in cells if (fold, arm) not in looks}):
            outcome.cuts.append(f"No rate of “{LABELS[arm]}” was found.")
        rates = {}
        for cell, look in looks.items():
            finished = [pack for pack in complete if (pack.fold, pack.arm) == cell]
            # A rate that was chosen by the first look alone is better than no result.
            rates[cell] = best_rates(self.results, finished or look, 1)[0]
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
        folds = range(len(self.layout.folds))
        for arm in self.layout.bodies:
            # A unit is one draw, or some seeds, on all folds; there is none if a fold has
            # no rate.
            by_fold = [packs.get((fold, arm), []) for fold in folds]
            units = list(zip(*by_fold, strict=False))
            complete = [unit for unit in units if all(map(self.is_complete, unit))]
            fewest = FEWEST_DRAWS if arm in CONTROLS else 1
            if len(complete) < len(units):
                kind = "draws" if arm in CONTROLS else "packs of runs"
                ending = ", too few to show" if 0 < len(complete) < fewest else ""
                outcome.cuts.append(
                    f"“{LABELS[arm]}”: {len(complete)} of {len(units)} {kind} were "
                    f"trained{ending}."
                )
            if len(complete) < fewest:
                continue
            outcome.rates[arm] = [rates[fold, arm] for fold in folds]
            outcome.runs += [
                {"arm": arm, "draw": spec.draw, "fold": pack.fold, "seed": spec.seed}
                | self.results.read(spec.key)
                for unit in complete
                for pack in unit
                for spec in pack.specs
            ]

    def train(self, packs: Sequence[Pack], deadline: float) -> None:
        """Train what is missing of `packs`, until a deadline."""
        missing = []
        for pack in packs:
            for part in pack.parts():
                if self.is_complete(part):
                    self.advance(part.run_steps)
                else:
                    missing.append(part)
        train = partial(train_pack, machine=self.machine, deadline=deadline)
        # Written as they end, so that an audit that is killed loses only the packs under
        # way.
        for pack, contents in side_by_side(train, missing, self.pool):
            if contents is None:
                continue
            for spec, content in zip(pack.specs, contents, strict=True):
                self.results.write(spec.key, content)
            self.advance(pack.run_steps)

    def look(self, steps: Mapping[Cell, int], rates: Sequence[float]) -> dict[Cell, Pack]:
        """Train each cell at all `rates` for its `steps` in the time of the search; the
        packs that are complete."""
        packs = {cell: self.layout.search(*cell, rates, steps[cell]) for cell in steps}
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
    # Costs are measured anew by each call; without the plan, a second call would want other
    # runs.
    if PLAN in results:
        return Sizes(**results.read(PLAN)["sizes"])
    costs = plan.measured_costs(layout, machine)
    sizes = plan.affordable_sizes(
        layout, costs, 60 * minutes, machine.workers, steps, draws
    )
    results.write(PLAN, {"sizes": asdict(sizes)})
    return sizes
