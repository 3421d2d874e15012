"""What stands beside the registered claims, against the curves of the committed records."""

from pathlib import Path

import numpy as np
import pytest

from fpt import config
from fpt.claims import contrasts
from fpt.claims.claim import claims, effects_of, own_runs
from fpt.claims.verdicts import results_of
from fpt.records import store
from fpt.sections.registration import registered_seeds

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    monkeypatch.setenv("FPT_ROOT", str(ROOT))


def steps(arm, task, threshold):
    """The first of two consecutive evaluations at a threshold, per registered seed."""
    profile = config.load("lab")
    counts = []
    for seed in registered_seeds(12):
        record = store("lab").read(config.make_spec(profile, arm, task, seed).key)
        assert record is not None
        at = [point["valid_accuracy"] >= threshold for point in record.curve]
        first = next(i for i in range(len(at) - 1) if at[i] and at[i + 1])
        counts.append(int(record.curve[first]["step"]))
    return counts


def test_ratios_by_threshold_are_those_of_the_curves():
    pair = ("fpt-english", "random")
    frame = contrasts.by_threshold(pair)
    assert set(frame["task"]) == set(contrasts.battery())
    for row in frame.sample(4, random_state=0).itertuples():
        logs = [np.log(steps(arm, row.task, row.threshold)).mean() for arm in pair]
        assert row.ratio == pytest.approx(np.exp(logs[0] - logs[1]))
    registered = frame[frame["registered"]].set_index("task")["ratio"]
    claim = next(claim for claim in claims("primary") if claim.name == contrasts.BATTERY)
    effects = effects_of(claim, own_runs(claim, results_of([claim])))
    for task, effect in effects.by_task.items():
        assert registered[task] == pytest.approx(np.exp(effect.estimate))
