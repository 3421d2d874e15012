"""How often an audit's verdict is wrong, and how often it sees a difference, by simulation.

`python -m benchmarks.audit_calibration` simulates audits whose scores are made up of a part per
draw, a part per seed and chance per test example, judges them as `fpt.audit` does, and prints how
often each verdict is given. In a null, the model is one more draw of a control: «its content helps»
must come out in at most 5%.
"""

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np

from fpt.auditing.arms import CONTROLS
from fpt.auditing.verdict import CONTENT_HELPS, difference, judge, power_of_one_deviation

AUDITS = 2000
MARGIN = 0.02


@dataclass(frozen=True)
class World:
    """The truth of a simulated audit: how far the accuracies of the model and of each control are
    from `ACCURACY`, in standard deviations between draws."""

    what: str
    model: float
    controls: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    is_draw: bool = False  # the model is one more draw of the last two controls


CASES = ((0.03, 300, 5), (0.01, 300, 5), (0.03, 2000, 3))  # sd of draws, test examples, draws
ACCURACY = 0.8
SEEDS = 0.01  # standard deviation of the accuracy between seeds
WORLDS = (
    World("null: the model is one more draw of every control", 0.0, is_draw=True),
    World("null: one more draw of its statistics, random is worse", 0.0, (-5, -3, 0, 0), True),
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
    for arm, shift in zip(CONTROLS, world.controls, strict=True):
        means = ACCURACY + deviation * (shift + rng.normal(size=draws))
        differences[arm] = difference(model, scores(means))
    return judge(differences, MARGIN, None, learned=True).label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=AUDITS)
    args = parser.parse_args()
    print("| truth | sd of draws | test examples | draws | verdicts |")
    print("|---|---|---|---|---|")
    for world in WORLDS:
        for deviation, examples, draws in CASES:
            rng = np.random.default_rng(0)
            verdicts = Counter(
                simulated(world, deviation, examples, draws, 2, rng) for _ in range(args.audits)
            )
            shares = ", ".join(
                f"{label} {count / args.audits:.1%}" for label, count in verdicts.most_common()
            )
            print(f"| {world.what} | {deviation} | {examples} | {draws} | {shares} |")
    for draws in (3, 4, 5, 6, 12):
        print(
            f"power for one standard deviation, {draws} draws: {power_of_one_deviation(draws):.3f}"
        )
    print(f"«{CONTENT_HELPS}» in a null is the error that is bounded by 5%.")


if __name__ == "__main__":
    main()
