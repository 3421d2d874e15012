"""The pilot: equal trials for every arm, on seeds of its own, and evaluations that are dense."""

from collections import Counter

import pytest

from fpt.analysis import pilot


@pytest.mark.parametrize("arm", ["random", "full", "fpt-english"])
def test_every_arm_has_the_same_trials(arm: str) -> None:
    specs, plan = pilot.specs([arm]), pilot.plan()
    trials = Counter((spec.task, spec.lr, spec.seed) for spec in specs)
    assert set(trials.values()) == {1}
    assert len(trials) == len(plan["battery"]) * len(plan["lrs"]) * len(plan["seeds"])
    assert {spec.weights for spec in specs} == {"nano-english@2M-0" if "english" in arm else None}
    for spec in specs:
        tests = spec.test_items or (1024 if spec.task == "bit-xor" else 2000)
        assert tests <= 2000
        assert spec.steps % spec.eval_every == 0
