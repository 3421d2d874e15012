"""How often a registered claim would be called supported: if its expected effect is there, and if
nothing is.

`python -m lab.power` simulates each claim with its numbers of backbones and the spread
between backbones that the pilot has, and prints what registration.yaml says of it.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import binom

from fpt.analysis.claim import ALPHA, Claim, effect_of
from fpt.analysis.claims import claims
from fpt.analysis.effects import falls_with, more_solved
from fpt.analysis.gates import contradicting
from fpt.sections.registration import registration

DRAWS = 1000


def simulated(it: Claim, shift: float, alpha: float, draws: int = DRAWS, seed: int = 0) -> float:
    """The share of simulated experiments in which `it` is supported at `alpha`, if the true effect
    is `shift`: a log ratio of steps on every task, a difference of accuracies or a correlation."""
    rng = np.random.default_rng(seed)
    if it.measure == "solved":
        return _solved(it, registration()["solved"], shift != 0, alpha)
    if it.measure == "predicts":
        found = [_correlation(rng, len(it.backbones), shift, alpha, run) for run in range(draws)]
        return float(np.mean(found))
    return float(np.mean([_supported(it, _runs(it, rng, shift), alpha) for _ in range(draws)]))


def _supported(it: Claim, runs: pd.DataFrame, alpha: float) -> bool:
    return bool(effect_of(it, runs).p < alpha and not contradicting(it, runs))


def _runs(it: Claim, rng: np.random.Generator, shift: float) -> pd.DataFrame:
    """Runs of both arms; the first has the effect."""
    spread: Mapping[str, float] = registration()["spread"]
    first = next(iter(it.backbones))
    rows = []
    for arm, count in it.backbones.items():
        moved = shift if arm == first else 0.0
        for task in it.tasks:
            for seed in range(count):
                row = {"arm": arm, "task": task, "seed": seed, "censored": False, "score": 0.0}
                if it.measure == "accuracy":
                    noise = registration()["spread_of_accuracy"]
                    row["test_accuracy"] = float(rng.normal(moved, noise))
                else:
                    row["score"] = float(rng.normal(moved, spread[task]))
                rows.append(row)
    return pd.DataFrame(rows)


def _solved(it: Claim, shares: Sequence[float], differ: bool, alpha: float) -> float:
    """The exact probability that Boschloo's test finds the first arm better."""
    more, fewer = it.backbones.values()
    better, worse = shares if differ else (shares[1], shares[1])
    found = 0.0
    for one, other in product(range(more + 1), range(fewer + 1)):
        chance = binom.pmf(one, more, better) * binom.pmf(other, fewer, worse)
        if chance < 1e-4 or one / more <= other / fewer:
            continue
        solved = ([index < one for index in range(more)], [i < other for i in range(fewer)])
        found += chance * (more_solved(*solved).p < alpha)
    return float(found)


def _correlation(rng: np.random.Generator, corpora: int, r: float, alpha: float, seed: int) -> bool:
    """Corpora whose log steps correlate by `r` with what was learned from context, beside a weight
    scale that goes with what was learned."""
    learned = rng.normal(size=corpora)
    scale = 0.5 * learned + math.sqrt(0.75) * rng.normal(size=corpora)
    rest = learned - 0.5 * scale
    steps = r * rest / math.sqrt(0.75) + math.sqrt(1 - r * r) * rng.normal(size=corpora)
    return falls_with(list(learned), list(steps), list(scale), seed).p < alpha


def null(it: Claim) -> float:
    """The effect under which the claim is just false: that of its margin."""
    return -math.log(it.margin or 1.0) if it.measure == "steps" else it.margin


def main() -> None:
    primary = claims("primary")
    for it in primary:
        shift = math.log(it.expected) if it.measure == "steps" else it.expected
        few = 300 if it.measure == "predicts" else DRAWS
        power = simulated(it, shift, ALPHA / len(primary), few)
        error = simulated(it, null(it), ALPHA, few)
        print(f"{it.name}: power {power:.2f}, error {error:.3f}")


if __name__ == "__main__":
    main()
