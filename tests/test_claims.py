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
from fpt.analysis import sensitivity
from fpt.analysis.claims import (
    KINDS,
    Claim,
    Finding,
    Kind,
    claims,
    corpora,
    findings,
    results_of,
    runs_of,
    verdicts,
)
from fpt.analysis.effects import Effect
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
    draws = np.random.default_rng(5)
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


def test_an_interval_beside_zero_is_not_said_to_hold_both_directions() -> None:
    runs = made({"a": {"bit-xor": 5.0}, "b": {"bit-xor": 5.12}})
    it = replace(claim(), tasks=("bit-xor",))
    (alone,) = verdicts([it], runs)
    assert alone.label == "supported"
    found = verdicts([it, *[claim("b", "a")] * 11], runs)[0]  # Holm's correction over twelve
    assert found.effect.high < 0
    assert found.label == "undecided"
    assert "both directions" not in found.reason


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("shifts", [(-2.0, -2.0, 0.5), (-2.0, 1.0, 1.0), (-1.0, 0.0, 1.0)])
def test_tasks_with_opposite_effects_are_not_averaged(
    first: str, shifts: tuple[float, ...]
) -> None:
    levels = {task: 6.0 + shift for task, shift in zip(TASKS, shifts, strict=True)}
    runs = made({"a": levels, "b": dict.fromkeys(TASKS, 6.0)})
    second = "b" if first == "a" else "a"
    (found,) = verdicts([claim(first, second)], runs)
    assert found.label == "depends on the task"
    pooled = f"{math.exp(found.effect.estimate):.2f}×"
    assert pooled not in found.effect_text
    assert "would decide" not in found.reason + found.effect_text
    for task, shift in zip(TASKS, shifts, strict=True):
        sign = shift if first == "a" else -shift
        words = "fewer steps on" if sign < 0 else "more steps on"
        side = next(part for part in found.effect_text.split("; ") if task in part)
        assert side.startswith(words if shift else "no clear difference on")
        assert f"{task} ({math.exp(found.by_task[task].estimate):.2f}×)" in side


def test_unequal_effects_of_one_sign_are_no_contradiction() -> None:
    levels = dict(zip(TASKS, (3.0, 4.0, 5.0), strict=True))
    runs = made({"a": levels, "b": dict.fromkeys(TASKS, 6.0)})
    (found,) = verdicts([claim()], runs)
    assert found.heterogeneity < 0.05
    assert found.label == "supported"


def test_where_neither_arm_learned_nothing_is_compared() -> None:
    runs = made({"a": dict.fromkeys(TASKS, 7.6), "b": dict.fromkeys(TASKS, 7.6)}, spread=0.0)
    runs["censored"] = True
    (found,) = verdicts([claim()], runs)
    assert found.label == "neither learned"
    assert "1.00" not in found.effect_text + found.in_numbers
    assert found.reason.startswith("no run of either arm")
    assert found.is_judged
    some = runs.assign(censored=runs["task"] != "bit-xor")
    some.loc[some["task"] == "bit-xor", "score"] -= 1 + 0.01 * some["seed"]
    some.loc[(some["task"] == "bit-xor") & (some["arm"] == "a"), "score"] -= 1
    assert verdicts([claim()], some)[0].label != "neither learned"


def test_below_the_trivial_baselines_nothing_is_compared() -> None:
    runs = made({"a": {"mnist-equal": 1.0}, "b": {"mnist-equal": 1.0}})
    it = Claim("it", "A.", "us", "accuracy", {"a": 8, "b": 8}, ("mnist-equal",))
    for first, label in ((0.84, "neither learned"), (0.95, "supported")):
        level = np.where(runs["arm"] == "a", first, 0.82)
        (found,) = verdicts([it], runs.assign(test_accuracy=level + 0.001 * runs["seed"]))
        assert found.label == label
        assert ("linear classifier" in found.in_numbers) == (first < 0.925)


def test_a_threshold_below_a_baseline_is_named_in_the_sentence() -> None:
    runs = made({"a": {"mnist-short": 5.0}, "b": {"mnist-short": 6.0}})
    it = replace(claim(), tasks=("mnist-short",))
    for threshold in (0.8, 0.95):
        (found,) = verdicts([it], runs.assign(threshold=threshold))
        assert found.label == "supported"
        assert ("below a linear classifier (92.5%)" in found.in_numbers) == (threshold < 0.925)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ratio_has_the_direction_of_its_sentence(kind: Kind) -> None:
    """If the claim were right, a sentence of «more steps» would have a ratio above 1."""
    for it in claims(kind):
        if it.measure != "steps":
            continue
        finding = Finding(it, Effect(math.log(0.5), -1.0, -0.5, 0.01, 0.99), {}, 0.01, "supported")
        says_more = re.search(r"needs? more steps", it.statement) is not None
        assert (finding.values[0] > 1) == says_more, it.statement
        assert finding.values[1] < finding.values[0] < finding.values[2]
        if not math.isnan(it.expected):
            assert (finding.expected > 1) == says_more


def test_a_ratio_with_runs_at_the_budget_is_a_bound() -> None:
    runs = made({"a": {"bit-xor": 5.0}, "b": {"bit-xor": 6.0}}, count=12)
    it = replace(claim(n=12), tasks=("bit-xor",))
    about_b = replace(it, statement="B needs more steps.")
    for arm, words, inverse in (("a", "at least", "at most"), ("b", "at most", "at least")):
        some = runs.assign(censored=(runs["arm"] == arm) & (runs["seed"] == 0))
        first, second = verdicts([it, about_b], some)
        assert first.effect_text.startswith(words)
        assert second.effect_text.startswith(inverse)
        assert f"1 of 12 runs of {arm} at the budget" in first.in_numbers
    assert verdicts([it], runs)[0].effect_text.startswith("0.")


def test_runs_that_share_a_backbone_are_said() -> None:
    (found,) = (it for it in findings("secondary") if it.claim.name == "language-over-images")
    # Without its records nothing can be said.
    assert found.one_backbone == ()
    rows = made({"fpt": {"bit-xor": 5.0}, "fpt-vit": {"bit-xor": 6.0}}, count=3)
    rows["weights"] = [
        f"english-{seed}" if arm == "fpt" else "vit-0"
        for arm, seed in zip(rows["arm"], rows["seed"], strict=True)
    ]
    it = Claim("it", "A.", "us", "steps", {"fpt": 3, "fpt-vit": 3}, ("bit-xor",))
    (found,) = verdicts([it], rows)
    assert found.one_backbone == ("fpt-vit",)
    assert "one backbone of fpt-vit" in found.n_text


@pytest.mark.parametrize("registered", [True, False])
def test_a_claim_is_judged_on_as_many_backbones_as_registered(registered: bool) -> None:
    seeds = registration.registered_seeds(12) if registered else list(range(12))
    runs = made({"a": {"bit-xor": 5.0}, "b": {"bit-xor": 6.0}}, count=12)
    runs["seed"] = [seeds[seed] for seed in runs["seed"]]
    it = replace(claim(n=3), tasks=("bit-xor",))
    more = runs.assign(score=runs["score"] + 9 * ~runs["seed"].isin(seeds[:3]))
    (found,) = verdicts([it], more.sample(frac=1, random_state=0) if registered else more)
    (own,) = verdicts([it], runs[runs["seed"].isin(seeds[:3])])
    assert found.n == {"a": 3, "b": 3}
    assert found.effect.estimate == pytest.approx(own.effect.estimate)


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
    runs["test_accuracy"] = 0.93 + 0.05 * (runs["arm"] == "a") + 0.001 * runs["seed"]
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


def explore(records: Store, score: float, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The verdicts on draws of English's statistics against random ones on one task, if another
    rate gives the draws steps of `score` times those of the registered rate."""
    block = {"arm": "statistics-english", "task": "bit-xor", "settings": {"lr": 0.05}, "count": 3}
    monkeypatch.setattr(sensitivity, "declared", lambda: {"runs": [block], "thresholds": {}})
    backbones = {"statistics-english": 3, "random": 3}
    it = Claim("it", "A.", "us", "steps", backbones, ("bit-xor",))
    monkeypatch.setattr("fpt.analysis.claims.claims", lambda kind: [it])
    for study, factors in ((runs_of([it]), {"statistics-english": 2.0}), (sensitivity.study(), {})):
        for index, run in enumerate(study.runs):
            level = factors.get(run.arm, score * 2.0 if study.name == "sensitivity" else 1.0)
            made = make_record(run, 1.0)
            steps = [round(1000 * level) + 10 * index + 10 * late for late in range(2)]
            curve = [made.curve[0] | {"step": step, "valid_accuracy": 1.0} for step in steps]
            records.write(replace(made, curve=curve))
    return findings("primary")


@pytest.mark.parametrize(("score", "label"), [(0.3, "undecided"), (0.9, "contradicted")])
def test_nothing_rests_on_the_worse_rate(
    records: Store, monkeypatch: pytest.MonkeyPatch, score: float, label: str
) -> None:
    monkeypatch.setattr("fpt.analysis.claims.ALPHA", 0.06)  # three against three: p is 1/20
    (found,) = explore(records, score, monkeypatch)
    assert found.label == label
    assert found.elsewhere is not None
    assert "at 0.05" in found.effect_text
    assert found.effect_text.count("×") == 2


def test_a_rate_that_is_no_better_changes_nothing(
    records: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = explore(records, 1.5, monkeypatch)
    assert found.elsewhere is None


def test_the_readme_block_is_replaced_and_nothing_else() -> None:
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.in_readme(text, "new \\1") == text.replace("old", "new \\1")
