"""How often an audit's verdict is wrong, and how often it sees a difference, by simulation.

    python benchmarks/audit_calibration.py            # about 3 core-minutes

The scores of a simulated audit are made up of a part per draw, a part per seed and chance per test
example, and judged as `fpt.audit` does. In a null, the model is a further draw of a body: “its
content helps” must come out in at most 5%. Writes results/audit_calibration.json and
docs/own-data.md.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from blocks import write

from fpt.auditing.runs import BODIES, LANGUAGE, TRIVIAL
from fpt.auditing.verdict import HELPS, HURTS, judge

Shares = Mapping[str, float]  # of the audits that gave a verdict
AUDITS = 200
MARGIN = 0.02


@dataclass(frozen=True)
class World:
    """The truth of a simulated audit: how far the accuracies of the model and of each body, the
    simplest first, are from `ACCURACY`, in standard deviations between draws."""

    what: str
    model: float
    bodies: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    is_draw: bool = False  # the model is a further draw of the last body


CASES = ((0.03, 300, 5), (0.01, 300, 5), (0.01, 2000, 5), (0.03, 2000, 3))
ACCURACY = 0.8  # of a mean body; the trivial rule has 0.5
SEEDS = 0.01  # standard deviation of the accuracy between seeds
WORLDS = (
    World("null: the model is a further draw of every body", 0.0, is_draw=True),
    World("null: a further draw of same mean and sd, others are worse", 0.0, (-5, -5, -3, 0), True),
    World("the model is as good as the mean draw", 0.0),
    World("the model is four standard deviations better", 4.0),
    World("the model is eight standard deviations better", 8.0),
    World("the model is four standard deviations worse", -4.0),
)


def simulated(world: World, case: tuple[float, int, int], rng: np.random.Generator) -> str:
    """The verdict of one audit without arms that lack a transformer."""
    deviation, examples, seeds = case
    # One difficulty for each example: what one arm finds hard is hard for others. And the seed of
    # the nets acts on all arms alike.
    difficulty = rng.uniform(size=examples)
    by_seed = SEEDS * rng.normal(size=seeds)

    def scores(draws: np.ndarray) -> pd.DataFrame:
        """(seeds, examples) of 1 for right, from the mean accuracy of each seed's draw."""
        runs = ACCURACY + draws + by_seed + SEEDS * rng.normal(size=seeds)
        return pd.DataFrame(difficulty < runs[:, None]).astype(float)

    own_draw = rng.normal() if world.is_draw else 0.0
    model = np.full(seeds, deviation * (world.model + own_draw))
    arms = {
        arm: scores(deviation * (shift + rng.normal(size=seeds)))
        for arm, shift in zip(BODIES, world.bodies, strict=True)
    }
    arms |= {
        LANGUAGE: scores(model),
        TRIVIAL: pd.DataFrame([difficulty < 0.5] * seeds, dtype=float),
    }
    return judge(arms, np.arange(examples), MARGIN)[0]


def shares(world: World, case: tuple[float, int, int], audits: int) -> Shares:
    """How often each verdict is given in a world, most often first."""
    rng = np.random.default_rng(0)
    verdicts = Counter(simulated(world, case, rng) for _ in range(audits))
    return {label: count / audits for label, count in verdicts.most_common()}


def table(results: Mapping[str, Sequence[Shares]]) -> list[str]:
    """The block of docs/own-data.md: each world in the first case, and what else was simulated."""
    deviation, examples, seeds = CASES[0]
    lines = [
        f"With {seeds} seeds, {examples} test examples, and a standard deviation of "
        f"{100 * deviation:.0f} points between draws:",
        "",
        "| truth | verdicts |",
        "|---|---|",
    ]
    for truth, by_case in results.items():
        texts = [f"{label} {share:.1%}" for label, share in by_case[0].items()]
        lines.append(f"| {truth} | {', '.join(texts)} |")
    nulls = [case for truth, cases in results.items() if truth.startswith("null") for case in cases]
    helps, hurts = (max(case.get(label, 0.0) for case in nulls) for label in (HELPS, HURTS))
    equal = next(cases for truth, cases in results.items() if "as good as" in truth)
    suffices = [
        sum(share for label, share in case.items() if label.endswith("suffices")) for case in equal
    ]
    powers = ", ".join(
        f"{share:.0%} ({100 * sd:.0f} points, {count} examples, {draws} seeds)"
        for share, (sd, count, draws) in zip(suffices, CASES, strict=True)
    )
    return [
        *lines,
        "",
        f"In the nulls, “{HELPS}” comes out in at most {helps:.1%} of the audits, and “{HURTS}” in "
        "at most "
        f"{hurts:.1%}, also with fewer seeds, more examples, or a deviation of one point.",
        "",
        f"If the model is as good as the mean draw, a body is found to suffice in {powers}. A "
        "verdict needs all bodies, and counts the test examples too, so only large effects decide.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=AUDITS)
    audits = parser.parse_args().audits
    results = {world.what: [shares(world, case, audits) for case in CASES] for world in WORLDS}
    write("calibration", results, table(results))


if __name__ == "__main__":
    main()
