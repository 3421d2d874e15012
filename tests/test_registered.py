"""The registered claims: seeds, the plan that feeds them, and the verdicts of made-up runs."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fpt import config
from fpt.analysis import registered, registration
from fpt.analysis.registered import Claim

TASKS = ("bit-xor", "listops-short", "mnist-short")


def test_seeds_follow_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = registration.FILE.read_bytes()
    drawn = [
        hashlib.sha256(f"{hashlib.sha256(content).hexdigest()}/{index}".encode()).digest()
        for index in range(5)
    ]
    seeds = registration.registered_seeds(5)
    assert seeds == [int.from_bytes(one[:4], "big") // 2 for one in drawn]
    assert registration.registered_seeds(3) == seeds[:3]
    assert config.load("lab").seeds == tuple(seeds[:3])
    edited = tmp_path / "registration.yaml"
    edited.write_bytes(content + b"#")
    monkeypatch.setattr(registration, "FILE", edited)
    registration.digest.cache_clear()
    try:
        assert not set(registration.registered_seeds(5)) & set(seeds)
    finally:
        registration.digest.cache_clear()


@pytest.mark.parametrize("kind", ["primary", "secondary"])
def test_the_plan_has_the_runs_of_every_claim(kind) -> None:
    profile = config.load("lab")
    planned = {
        (run.arm, run.task, run.spec.seed)
        for name in profile.sections
        for run in config.expand(profile, name)
    }
    for it in registered.claims(kind):
        for arm, count in it.backbones.items():
            needed = {
                (arm, task, seed)
                for task in it.tasks
                for seed in registration.registered_seeds(count)
            }
            assert needed <= planned, (it.name, arm)
        assert len(it.backbones) == 2 or it.measure == "predicts"
        for task in it.tasks:
            has_threshold = bool(profile.tasks[task].get("threshold"))
            assert has_threshold == (it.measure in ("steps", "solved", "predicts")), it.name


def test_primary_claims_are_few_and_powered() -> None:
    primary = registered.claims("primary")
    assert len(primary) <= 12
    for it in primary:
        assert it.measure == "predicts" or min(it.backbones.values()) >= 5
        assert it.power >= 0.8
        assert it.error <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)


def made(levels: dict[str, dict[str, float]], count: int = 8, spread: float = 0.1) -> pd.DataFrame:
    """Runs of arms whose mean log steps on each of TASKS are `levels`."""
    draws = np.random.default_rng(0)
    rows = [
        {
            "arm": arm,
            "task": task,
            "seed": seed,
            "log_steps": level + spread * draws.normal(),
            "censored": False,
        }
        for arm, by_task in levels.items()
        for task, level in by_task.items()
        for seed in range(count)
    ]
    return pd.DataFrame(rows)


def claim(first: str = "a", second: str = "b", n: int = 8, **given) -> Claim:
    return Claim("name", "A.", "us", "steps", {first: n, second: n}, TASKS, **given)


def test_a_clear_difference_is_supported_and_its_opposite_contradicted() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 6.0)})
    found, other = registered.verdicts([claim(), claim("b", "a")], runs)
    assert (found.label, other.label) == ("supported", "contradicted")
    assert found.effect.estimate == pytest.approx(-1.0, abs=0.2)
    assert found.adjusted == pytest.approx(2 * found.effect.p)
    assert registered.verdicts([claim(margin=4.0)], runs)[0].label == "undecided"


def test_no_difference_is_undecided() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 5.0)})
    (found,) = registered.verdicts([claim()], runs)
    assert found.label == "undecided"
    assert "both directions" in found.reason


def test_a_task_that_contradicts_leaves_a_pooled_claim_undecided() -> None:
    first = {"bit-xor": 4.0, "listops-short": 4.0, "mnist-short": 6.5}
    runs = made({"a": first, "b": dict.fromkeys(TASKS, 6.0)})
    (found,) = registered.verdicts([claim()], runs)
    assert found.adjusted < 0.05
    assert (found.label, found.reason) == ("undecided", "mnist-short contradicts it")


def test_runs_that_are_missing_or_censored_are_said() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 6.0)})
    (found,) = registered.verdicts([claim()], runs.iloc[1:])
    assert (found.label, found.reason) == ("undecided", "present are 7 of 8 a")
    assert found.n == {"a": 7, "b": 8}
    short = runs.assign(censored=(runs["arm"] == "a") & (runs["seed"] < 2))
    (found,) = registered.verdicts([claim()], short)
    assert found.label == "undecided"
    assert "before the threshold" in found.reason
    slow = runs.assign(censored=runs["arm"] == "b")
    assert registered.verdicts([claim()], slow)[0].label == "supported"


def test_accuracies_and_solved_shares() -> None:
    runs = made({"a": {"mnist-short": 1.0}, "b": {"mnist-short": 1.0}})
    runs["test_accuracy"] = 0.8 + 0.05 * (runs["arm"] == "a") + 0.001 * runs["seed"]
    runs["gap"] = 0.1 * (runs["arm"] == "b") + 0.001 * runs["seed"]
    runs["censored"] = (runs["arm"] == "b") & (runs["seed"] < 7)
    for measure, margin in (("accuracy", 0.02), ("gap", 0.05), ("solved", 0.0)):
        it = Claim("it", "A.", "us", measure, {"a": 8, "b": 8}, ("mnist-short",), margin)
        assert registered.verdicts([it], runs)[0].label == "supported", measure
        it = Claim("it", "A.", "us", measure, {"b": 8, "a": 8}, ("mnist-short",))
        assert registered.verdicts([it], runs)[0].label == "contradicted", measure


def test_what_corpora_taught_predicts_their_steps() -> None:
    draws = np.random.default_rng(1)
    arms = [f"corpus-{index}" for index in range(17)]
    corpora = pd.DataFrame({"learned": draws.random(17), "scale": draws.random(17)}, index=arms)
    levels = {
        arm: dict.fromkeys(TASKS, 6.0 - 2 * row.learned + 0.1 * draws.normal())
        for arm, row in zip(arms, corpora.itertuples(), strict=True)
    }
    it = Claim("it", "A.", "us", "predicts", dict.fromkeys(arms, 2), TASKS)
    runs = made(levels, count=2)
    assert registered.verdicts([it], runs, corpora)[0].label == "supported"
    turned = corpora.assign(learned=1 - corpora["learned"])
    assert registered.verdicts([it], runs, turned)[0].label == "contradicted"


def test_a_corpus_that_was_not_learned_is_not_compared() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 6.0)})
    corpora = pd.DataFrame({"learned": [1.0, -0.01], "scale": [0.0, 0.0]}, index=["a", "b"])
    (found,) = registered.verdicts([claim()], runs, corpora)
    assert (found.label, found.reason) == ("undecided", "not learned by its backbones: b")
    assert registered.verdicts([claim()], runs, corpora.abs())[0].label == "supported"
