"""How often an audit's verdict is wrong, and how often it sees a difference, by simulation.

    python benchmarks/audit_calibration.py            # about 5 core-minutes

The scores of a simulated audit are made up of a part per draw, a part per seed and chance per test
example, and judged as `fpt.audit` does. In a null, the model is a further draw of a control: “its
content helps” must come out in at most 5%. Writes results/audit_calibration.json and
docs/own-data.md.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from blocks import write

from fpt.auditing.arms import CONTROLS
from fpt.auditing.verdict import (
    CONTENT_HELPS,
    HURTS,
    TestExamples,
    difference,
    judge,
    power_of_one_deviation,
)

Shares = Mapping[str, float]  # of the audits that gave a verdict
AUDITS = 2000
MARGIN = 0.02


@dataclass(frozen=True)
class World:
    """The truth of a simulated audit: how far the accuracies of the model and of each control are
    from `ACCURACY`, in standard deviations between draws."""

    what: str
    model: float
    controls: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    is_draw: bool = False  # the model is a further draw of the last two controls


CASES = ((0.03, 300, 5), (0.01, 300, 5), (0.03, 2000, 3))  # sd of draws, test examples, draws
ACCURACY = 0.8
SEEDS = 0.01  # standard deviation of the accuracy between seeds
WORLDS = (
    World("null: the model is a further draw of every control", 0.0, is_draw=True),
    World("null: a further draw of its statistics, random is worse", 0.0, (-5, -3, 0, 0), True),
    World("the model is one standard deviation better", 1.0),
    World("the model is four standard deviations better", 4.0),
    World("the model is eight standard deviations better", 8.0),
    World("the model is four standard deviations worse", -4.0),
)


def simulated(
    world: World, deviation: float, examples: int, draws: int, seeds: int, rng: np.random.Generator
) -> str:
    """The verdict of one audit without arms that lack a transformer."""

    # One difficulty for each example: what one arm finds hard is hard for others.
    difficulty = rng.uniform(size=examples)
    by_seed = SEEDS * rng.normal(size=seeds)

    def scores(means: np.ndarray) -> np.ndarray:
        """(draws, seeds, examples) of 1 for right, from the mean accuracy of each draw."""
        runs = means[:, None] + by_seed + SEEDS * rng.normal(size=(len(means), seeds))
        return (difficulty < runs[..., None]).astype(float)

    own_draw = deviation * rng.normal() if world.is_draw else 0.0
    model = scores(np.array([ACCURACY + deviation * world.model + own_draw]))
    differences = {}
    test = TestExamples(np.arange(examples), has_classes=True)
    for arm, shift in zip(CONTROLS, world.controls, strict=True):
        means = ACCURACY + deviation * (shift + rng.normal(size=draws))
        differences[arm] = difference(model, scores(means), test)
    return judge(differences, MARGIN, None, learned=True).label


def shares(world: World, case: tuple[float, int, int], audits: int) -> Shares:
    """How often each verdict is given in a world, most often first."""
    deviation, examples, draws = case
    rng = np.random.default_rng(0)
    verdicts = Counter(simulated(world, deviation, examples, draws, 2, rng) for _ in range(audits))
    return {label: count / audits for label, count in verdicts.most_common()}


def table(results: Mapping[str, Sequence[Shares]]) -> list[str]:
    """The block of docs/own-data.md: each world in the first case, and what else was simulated."""
    deviation, examples, draws = CASES[0]
    lines = [
        f"With {draws} draws of 2 seeds, {examples} test examples, and a standard deviation of "
        f"{100 * deviation:.0f} points between draws:",
        "",
        "| truth | verdicts |",
        "|---|---|",
    ]
    for truth, by_case in results.items():
        texts = [f"{label} {share:.1%}" for label, share in by_case[0].items()]
        lines.append(f"| {truth} | {', '.join(texts)} |")
    nulls = [case for truth, cases in results.items() if truth.startswith("null") for case in cases]
    helps, hurts = (max(case.get(label, 0.0) for case in nulls) for label in (CONTENT_HELPS, HURTS))
    powers = [f"{power_of_one_deviation(draws):.0%} with {draws} draws" for draws in (3, 5, 6)]
    return [
        *lines,
        "",
        f"In the nulls, “{CONTENT_HELPS}” comes out in at most {helps:.2%} of the audits, and "
        f"“{HURTS}” in at most {hurts:.2%}, also with fewer draws, more examples, or a deviation "
        "of one point.",
        "",
        "If a model were one standard deviation of the draws better than their mean, one control "
        f"alone would show it rarely: {', '.join(powers)}. A verdict needs all controls, and "
        "counts the test examples too, so an audit can detect only large effects.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=AUDITS)
    audits = parser.parse_args().audits
    results = {world.what: [shares(world, case, audits) for case in CASES] for world in WORLDS}
    write("calibration", results, table(results))


if __name__ == "__main__":
    main()
