"""The pilot: equal trials for every arm, on seeds of its own, and evaluations that are dense."""

from collections import Counter

import pandas as pd
import pytest

from fpt import config
from lab import pilot


@pytest.mark.parametrize("arm", ["random", "full", "fpt-english"])
def test_every_arm_has_the_same_trials(arm: str) -> None:
    runs, plan = pilot.runs([arm]), pilot.plan()
    trials = Counter((run.task, run.spec.lr, run.spec.seed) for run in runs)
    assert set(trials.values()) == {1}
    tried = {(task, lr) for task in plan["battery"] for lr in plan["lrs"]}
    beyond = plan["beyond"].get(arm, {})
    tried |= {(task, lr) for task, lrs in beyond.items() for lr in lrs}
    assert {(task, lr) for task, lr, _ in trials} == tried
    english = {f"nano-english@2M-{seed}" for seed in plan["arms"][arm]}
    assert {run.spec.weights for run in runs} == (english if "english" in arm else {None})
    for run in runs:
        tests = run.spec.test_items or (1024 if run.task == "bit-xor" else 2000)
        assert tests <= 2000
        assert run.spec.steps % run.spec.eval_every == 0


def test_no_reported_run_has_a_seed_of_the_pilot() -> None:
    profile = config.load("lab")
    reported = {
        run.spec.seed
        for name in profile.sections
        for run in config.expand(profile, name)
        if not run.search
    }
    assert reported.isdisjoint(seed for seeds in pilot.plan()["arms"].values() for seed in seeds)


def results(rows: list[tuple[str, float, int, float, int]]) -> pd.DataFrame:
    """Runs on bit-xor from (arm, lr, seed, threshold, steps) with a budget of 2,000 steps."""
    frame = pd.DataFrame(rows, columns=["arm", "lr", "seed", "threshold", "steps"])
    return frame.assign(
        task="bit-xor",
        budget=2000,
        censored=frame["steps"] == 2000,
        evaluations=frame["steps"] // 10,
        accuracy=0.99,
    )


def test_the_highest_threshold_that_both_arms_reach_in_time_is_set() -> None:
    easy = [
        (arm, lr, seed, 0.9, steps + seed)
        for arm, lr, steps in (("random", 0.01, 700), ("random", 0.1, 1500), ("full", 0.1, 90))
        for seed in range(3)
    ]
    hard = [(arm, lr, seed, 0.99, 200 + steps) for arm, lr, seed, _, steps in easy]
    found = results([*easy, *hard])
    assert pilot.threshold_of("bit-xor", found) == 0.99
    assert pilot.best_rate(found[found["arm"] == "random"]) == 0.01
    slow = found.assign(steps=found["steps"] + 400 * (found["threshold"] == 0.99))
    assert pilot.threshold_of("bit-xor", slow) == 0.9  # beyond half of the budget
    never = found["censored"] | ((found["threshold"] == 0.99) & (found["seed"] == 2))
    assert pilot.threshold_of("bit-xor", found.assign(censored=never)) == 0.9
    at_once = found["evaluations"].where(found["threshold"] == 0.99, 4)
    assert pilot.threshold_of("bit-xor", found[found["threshold"] == 0.9]) == 0.9
    soon = found.assign(evaluations=at_once)
    assert pilot.threshold_of("bit-xor", soon[soon["threshold"] == 0.9]) is None
