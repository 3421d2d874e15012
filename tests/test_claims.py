"""The registered claims: seeds, the plan that feeds them, verdicts of made-up runs, and the same
verdicts in every place that shows them."""

import hashlib
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import make_record

from fpt import config
from fpt.analysis.claims import (
    Claim,
    Kind,
    claims,
    corpora,
    results_of,
    runs_of,
    verdicts,
)
from fpt.files import FptError
from fpt.records import Store, store
from fpt.report import findings as report
from fpt.sections import registration

TASKS = ("bit-xor", "listops-short", "mnist-short")


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the registration that is read in its place."""
    copy = Path(shutil.copy(registration.FILE, tmp_path))
    monkeypatch.setattr(registration, "FILE", copy)
    registration.digest.cache_clear()
    yield copy
    registration.digest.cache_clear()


def test_seeds_follow_from_the_file(edited: Path) -> None:
    content = edited.read_bytes().replace(b"\r\n", b"\n")
    drawn = [
        hashlib.sha256(f"{hashlib.sha256(content).hexdigest()}/{index}".encode()).digest()
        for index in range(5)
    ]
    seeds = registration.registered_seeds(5)
    assert seeds == [int.from_bytes(one[:4], "big") // 2 for one in drawn]
    assert registration.registered_seeds(3) == seeds[:3]
    assert config.load("lab").seeds == tuple(seeds[:3])
    edited.write_bytes(content + b"#")
    registration.digest.cache_clear()
    assert not set(registration.registered_seeds(5)) & set(seeds)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_seeds_do_not_follow_from_line_ends(edited: Path, end: bytes) -> None:
    seeds = registration.registered_seeds(5)
    lines = edited.read_bytes().splitlines()
    edited.write_bytes(end.join([*lines, b""]))
    registration.digest.cache_clear()
    assert registration.registered_seeds(5) == seeds


@pytest.mark.parametrize("kind", ["primary", "secondary"])
def test_the_plan_has_the_runs_of_every_claim(kind: Kind) -> None:
    profile = config.load("lab")
    planned = {
        (run.arm, run.task, run.spec.seed)
        for name in profile.sections
        for run in config.expand(profile, name)
    }
    for it in claims(kind):
        for arm, count in it.backbones.items():
            needed = {
                (arm, task, seed)
                for task in it.tasks
                for seed in registration.registered_seeds(count)
            }
            assert needed <= planned or it.withdrawn, (it.name, arm)
        assert len(it.backbones) == 2 or it.measure == "predicts"
        for task in it.tasks:
            has_threshold = bool(profile.tasks[task].get("threshold"))
            assert has_threshold == (it.measure in ("steps", "solved", "predicts")), it.name


def test_primary_claims_are_few_and_powered() -> None:
    primary = claims("primary")
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
            "score": level + spread * draws.normal(),
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
    found, other = verdicts([claim(), claim("b", "a")], runs)
    assert (found.label, other.label) == ("supported", "contradicted")
    assert found.effect.estimate == pytest.approx(-1.0, abs=0.2)
    assert found.adjusted == pytest.approx(2 * found.effect.p)
    assert verdicts([claim(margin=4.0)], runs)[0].label == "undecided"
    one_task = replace(claim(), tasks=TASKS[:1])
    found, weaker = verdicts([claim(), one_task], runs)
    assert weaker.effect.p > 2 * found.effect.p
    assert weaker.adjusted == pytest.approx(weaker.effect.p, abs=0)  # Holm's, not Bonferroni's


def test_no_difference_is_undecided() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 5.0)})
    (found,) = verdicts([claim()], runs)
    assert found.label == "undecided"
    need = (
        r"the interval holds both directions; (about \d+|more than 1,000) backbones of each arm w.*"
    )
    assert re.fullmatch(need, found.reason)
    assert "or less than the margin" in verdicts([claim(margin=1.1)], runs)[0].reason
    (same,) = verdicts([claim()], runs.assign(score=7.0))
    assert same.reason.startswith("no run of either arm")


def test_a_task_that_contradicts_leaves_a_pooled_claim_undecided() -> None:
    first = {"bit-xor": 4.0, "listops-short": 4.0, "mnist-short": 6.5}
    runs = made({"a": first, "b": dict.fromkeys(TASKS, 6.0)})
    (found,) = verdicts([claim()], runs)
    assert found.adjusted < 0.05
    assert found.label == "undecided"
    assert found.reason.startswith("the opposite holds on mnist-short")


def test_runs_that_are_missing_or_censored_are_said() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 6.0)})
    (found,) = verdicts([claim()], runs.iloc[1:])
    assert (found.label, found.reason) == ("undecided", "present are 7 of 8 a")
    assert found.n == {"a": 7, "b": 8}
    short = runs.assign(censored=(runs["arm"] == "a") & (runs["seed"] < 2))
    (found,) = verdicts([claim()], short)
    assert found.label == "undecided"
    assert "before the threshold" in found.reason
    slow = runs.assign(censored=runs["arm"] == "b")
    assert verdicts([claim()], slow)[0].label == "supported"


def test_accuracies_and_solved_shares() -> None:
    runs = made({"a": {"mnist-short": 1.0}, "b": {"mnist-short": 1.0}})
    runs["test_accuracy"] = 0.8 + 0.05 * (runs["arm"] == "a") + 0.001 * runs["seed"]
    gap = 0.1 * (runs["arm"] == "b") + 0.001 * runs["seed"]
    runs["train_accuracy"] = runs["test_accuracy"] + gap
    runs["censored"] = (runs["arm"] == "b") & (runs["seed"] < 7)
    for measure, margin in (("accuracy", 0.02), ("gap", 0.05), ("solved", 0.0)):
        it = Claim("it", "A.", "us", measure, {"a": 8, "b": 8}, ("mnist-short",), margin)
        assert verdicts([it], runs)[0].label == "supported", measure
        it = Claim("it", "A.", "us", measure, {"b": 8, "a": 8}, ("mnist-short",))
        assert verdicts([it], runs)[0].label == "contradicted", measure


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
    assert verdicts([it], runs, corpora)[0].label == "supported"
    turned = corpora.assign(learned=1 - corpora["learned"])
    assert verdicts([it], runs, turned)[0].label == "contradicted"


def test_a_corpus_that_was_not_learned_is_not_compared() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 5.0), "b": dict.fromkeys(TASKS, 6.0)})
    corpora = pd.DataFrame({"learned": [1.0, -0.01], "scale": [0.0, 0.0]}, index=["a", "b"])
    (found,) = verdicts([claim()], runs, corpora)
    assert (found.label, found.reason) == ("undecided", "not learned by its backbones: b")
    assert verdicts([claim()], runs, corpora.abs())[0].label == "supported"


SOLVED = Claim("it", "A beats B.", "us", "solved", {"random": 3, "full": 3}, ("bit-xor",))


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("fpt.records.REPORTS", tmp_path)
    monkeypatch.setattr("fpt.analysis.study.REPORTS", tmp_path)
    return store("lab")


def fill(records: Store, it: Claim) -> None:
    """A record of every run of a claim, whose first arm alone is at the threshold."""
    first = next(iter(it.backbones))
    for run in runs_of([it]).runs:
        made = make_record(run, 1.0 if run.arm == first else 0.4)
        last = made.curve[-1] | {"step": 130}  # two evaluations at the threshold
        records.write(replace(made, curve=[*made.curve, last]))


def test_claims_without_runs_await_them(records: Store) -> None:
    found = verdicts([SOLVED], results_of([SOLVED]))
    assert [it.label for it in found] == ["undecided"]
    assert found[0].reason == "present are 0 of 3 random, 0 of 3 full"
    assert report.in_words(found) == []
    assert "| A beats B. | undecided: present are 0 of 3 random" in report.table(found)


def test_a_claim_with_all_its_runs_is_judged(records: Store) -> None:
    fill(records, SOLVED)
    results = results_of([SOLVED])
    assert list(results["arm"]) == ["random"] * 3 + ["full"] * 3
    assert list(results["censored"]) == [False] * 3 + [True] * 3
    text = report.table(verdicts([SOLVED], results))
    assert "| A beats B. | supported | +100.0 points [" in text
    assert "| n = 3 each | 0.0" in text


def test_a_claim_on_runs_that_saw_different_data_is_refused(records: Store) -> None:
    fill(records, SOLVED)
    for index, record in enumerate(records.read_all(records.keys()).values()):
        seen = record.environment | {"data_digest": f"{index}" * 64}
        records.write(replace(record, environment=seen))
    with pytest.raises(FptError, match="'bit-xor' saw different data"):
        results_of([SOLVED])


def test_what_corpora_taught_comes_from_their_pretraining_metadata(
    records: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Claim("it", "A.", "us", "predicts", {"fpt-bigram": 2, "random": 1}, ("bit-xor",))
    fill(records, it)
    losses = {run.spec.weights: 5.0 + index for index, run in enumerate(runs_of([it]).runs)}
    monkeypatch.setattr(
        "fpt.pretraining.metadata.read",
        lambda folder, name: {
            "weight_scale": 1.0, "unigram_entropy": 7.0, "valid_loss": losses[name]
        },
    )  # fmt: skip
    found = corpora(results_of([it]))
    assert found.to_dict("index") == {"fpt-bigram": {"learned": 1.5, "scale": 0.0}}


def test_the_readme_block_is_replaced_and_nothing_else() -> None:
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.in_readme(text, "new \\1") == text.replace("old", "new \\1")
