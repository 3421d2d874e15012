"""The registered claims: seeds, the plan that feeds them, verdicts of made-up runs, and the same
verdicts in every place that shows them."""

import hashlib
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import make_record

from fpt import config
from fpt.analysis.effects import Effect
from fpt.claims import sensitivity
from fpt.claims.claim import KINDS, Claim, Kind, claims
from fpt.claims.finding import Finding
from fpt.claims.verdicts import corpora, findings, results_of, runs_of, verdicts
from fpt.errors import FptError
from fpt.project import Project
from fpt.records import Store, store
from fpt.report import findings as report
from fpt.sections import registration
from fpt.sections.registration import registered_seeds

TASKS = ("bit-xor", "listops-short", "mnist-short")
FAST = dict.fromkeys(TASKS, 5.0)  # mean logarithms of steps by task
SLOW = dict.fromkeys(TASKS, 6.0)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the registration that is read in its place."""
    copy = Path(shutil.copy(registration.FILE, tmp_path))
    monkeypatch.setattr(registration, "FILE", copy)
    registration.digest.cache_clear()
    yield copy
    registration.digest.cache_clear()


def test_seeds_follow_from_the_file_but_not_from_its_line_ends(edited: Path) -> None:
    content = edited.read_bytes().replace(b"\r\n", b"\n")
    digest = hashlib.sha256(content).hexdigest()
    drawn = [hashlib.sha256(f"{digest}/{index}".encode()).digest() for index in range(5)]
    seeds = [int.from_bytes(four[:4], "big") // 2 for four in drawn]
    assert config.load("lab").seeds == tuple(seeds[:3])
    for text in (content, content.replace(b"\n", b"\r\n")):
        edited.write_bytes(text)
        registration.digest.cache_clear()
        assert registered_seeds(5) == seeds
        assert registered_seeds(3) == seeds[:3]
    edited.write_bytes(content + b"#")
    registration.digest.cache_clear()
    assert not set(registered_seeds(5)) & set(seeds)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_has_the_runs_of_every_claim(kind: Kind) -> None:
    profile = config.load("lab")
    planned = {
        (run.arm, run.task, run.spec.seed)
        for name in profile.sections
        for run in config.expand(profile, name)
    }
    for claim in claims(kind):
        needed = {(run.arm, run.task, run.spec.seed) for run in runs_of([claim]).runs}
        assert needed <= planned, claim.name
        assert bool(needed) != bool(claim.withdrawn)
        assert len(claim.backbones) == 2 or claim.measure == "predicts"
        for task in claim.tasks:
            has_threshold = bool(profile.tasks[task].get("threshold"))
            assert has_threshold == (claim.measure in ("steps", "solved", "predicts")), claim.name


def test_primary_claims_are_few_and_powered() -> None:
    primary = claims("primary")
    assert len(primary) <= 12
    for claim in primary:
        assert claim.measure == "predicts" or min(claim.backbones.values()) >= 5
        assert claim.power >= 0.8
        assert claim.error <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)


def made_up(
    levels: Mapping[str, Mapping[str, float]], count: int = 8, spread: float = 0.1
) -> pd.DataFrame:
    """Runs of arms whose mean log steps on each task are `levels`."""
    draws = np.random.default_rng(5)
    rows = [
        (arm, task, seed, math.exp(level + spread * draws.normal()), False)
        for arm, by_task in levels.items()
        for task, level in by_task.items()
        for seed in range(count)
    ]
    return pd.DataFrame(rows, columns=["arm", "task", "seed", "steps", "censored"])


def claim(first: str = "a", second: str = "b", n: int = 8, **changes: Any) -> Claim:
    return replace(Claim("name", "A.", "us", "steps", {first: n, second: n}, TASKS), **changes)


def test_a_clear_difference_is_supported_and_its_opposite_contradicted() -> None:
    runs = made_up({"a": FAST, "b": SLOW})
    finding, opposite = verdicts([claim(), claim("b", "a")], runs)
    assert (finding.label, opposite.label) == ("supported", "contradicted")
    assert finding.effect.estimate == pytest.approx(-1.0, abs=0.2)
    assert finding.adjusted == pytest.approx(2 * finding.effect.p)
    assert verdicts([claim(margin=4.0)], runs)[0].label == "undecided"
    finding, weaker = verdicts([claim(), claim(tasks=TASKS[:1])], runs)
    assert weaker.effect.p > 2 * finding.effect.p
    assert weaker.adjusted == pytest.approx(weaker.effect.p, abs=0)  # Holm's, not Bonferroni's


def test_no_difference_is_undecided() -> None:
    runs = made_up({"a": FAST, "b": FAST})
    (finding,) = verdicts([claim()], runs)
    assert finding.label == "undecided"
    needed = r"(about \d+|more than 1,000) backbones of each arm would decide .*"
    assert re.fullmatch(f"the interval holds both directions; {needed}", finding.reason)
    assert "or less than the margin" in verdicts([claim(margin=1.1)], runs)[0].reason


def test_an_interval_beside_zero_is_not_said_to_hold_both_directions() -> None:
    runs = made_up({"a": {"bit-xor": 5.0}, "b": {"bit-xor": 5.12}})
    on_one_task = claim(tasks=("bit-xor",))
    assert verdicts([on_one_task], runs)[0].label == "supported"
    finding = verdicts([on_one_task, *[claim("b", "a")] * 11], runs)[0]  # Holm's over twelve
    assert finding.effect.high < 0
    assert finding.label == "undecided"
    assert "both directions" not in finding.reason


@pytest.mark.parametrize("arms", ["ab", "ba"])
@pytest.mark.parametrize("shifts", [(-2.0, -2.0, 0.5), (-2.0, 1.0, 1.0), (-1.0, 0.0, 1.0)])
def test_tasks_with_opposite_effects_are_not_averaged(arms: str, shifts: tuple[float, ...]) -> None:
    levels = {task: 6.0 + shift for task, shift in zip(TASKS, shifts, strict=True)}
    (finding,) = verdicts([claim(*arms)], made_up({"a": levels, "b": SLOW}))
    assert finding.label == "depends on the task"
    assert f"{math.exp(finding.effect.estimate):.2f}×" not in finding.effect_text
    assert "would decide" not in finding.reason + finding.effect_text
    for task, shift in zip(TASKS, shifts, strict=True):
        words = "no clear difference on"
        if shift:
            fewer = (shift < 0) == (arms == "ab")
            words = "fewer steps on" if fewer else "more steps on"
        side = next(part for part in finding.effect_text.split("; ") if task in part)
        assert side.startswith(words)
        assert f"{task} ({math.exp(finding.by_task[task].estimate):.2f}×)" in side


def test_unequal_effects_of_one_sign_are_no_contradiction() -> None:
    levels = dict(zip(TASKS, (3.0, 4.0, 5.0), strict=True))
    (finding,) = verdicts([claim()], made_up({"a": levels, "b": SLOW}))
    assert finding.heterogeneity < 0.05
    assert finding.label == "supported"


def test_where_neither_arm_learned_nothing_is_compared() -> None:
    runs = made_up({"a": SLOW, "b": SLOW}, spread=0.0).assign(censored=True)
    (finding,) = verdicts([claim()], runs)
    assert finding.label == "neither learned"
    assert "1.00" not in finding.effect_text
    assert finding.reason.startswith("no run of either arm")
    assert finding.is_judged
    runs = made_up({"a": {**SLOW, "bit-xor": 4.0}, "b": {**SLOW, "bit-xor": 5.0}})
    runs["censored"] = runs["task"] != "bit-xor"
    assert verdicts([claim()], runs)[0].label != "neither learned"


def test_below_the_trivial_baselines_nothing_is_compared() -> None:
    runs = made_up({"a": {"mnist-equal": 1.0}, "b": {"mnist-equal": 1.0}})
    for first, label in ((0.84, "neither learned"), (0.95, "supported")):
        level = np.where(runs["arm"] == "a", first, 0.82)
        (finding,) = verdicts(
            [claim(measure="accuracy", tasks=("mnist-equal",))],
            runs.assign(test_accuracy=level + 0.001 * runs["seed"]),
        )
        assert finding.label == label
        assert ("linear classifier" in finding.effect_text) == (first < 0.925)


def test_a_threshold_below_a_baseline_is_named_in_the_sentence() -> None:
    runs = made_up({"a": FAST, "b": SLOW})
    for threshold in (0.8, 0.95):
        (finding,) = verdicts([claim(tasks=("mnist-short",))], runs.assign(threshold=threshold))
        assert finding.label == "supported"
        said = any("below a linear classifier (92.5%)" in note for note in finding.notes)
        assert said == (threshold < 0.925)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ratio_has_the_direction_of_its_sentence(kind: Kind) -> None:
    """If the claim were right, a sentence of «more steps» would have a ratio above 1."""
    for registered in claims(kind):
        if registered.measure == "steps":
            finding = Finding(registered, Effect(math.log(0.5), -1.0, -0.5, 0.01, 0.99), {})
            says_more = re.search(r"needs? more steps", registered.statement) is not None
            estimate, low, high = finding.values
            assert (estimate > 1) == says_more, registered.statement
            assert low < estimate < high
            assert math.isnan(finding.expected) or (finding.expected > 1) == says_more


def test_a_ratio_with_runs_at_the_budget_is_a_bound() -> None:
    runs = made_up({"a": FAST, "b": SLOW}, count=12)
    about_a = claim(n=12, tasks=("bit-xor",))
    about_b = replace(about_a, statement="B needs more steps.")
    for arm, words, inverse in (("a", "at least", "at most"), ("b", "at most", "at least")):
        ends = (runs["arm"] == arm) & (runs["seed"] == 0)
        first, second = verdicts([about_a, about_b], runs.assign(censored=ends))
        assert first.effect_text.startswith(words)
        assert second.effect_text.startswith(inverse)
        assert f"1 of 12 runs of {arm} at the budget" in first.n_text
    assert verdicts([about_a], runs)[0].effect_text.startswith("0.")


def test_runs_that_share_a_backbone_are_said() -> None:
    runs = made_up({"fpt": FAST, "fpt-vit": SLOW}, count=3)
    own = "english-" + runs["seed"].astype(str)
    runs["weights"] = own.where(runs["arm"] == "fpt", "vit-0")
    (finding,) = verdicts([claim("fpt", "fpt-vit", n=3)], runs)
    assert finding.one_backbone == ("fpt-vit",)
    assert "one backbone of fpt-vit" in finding.n_text


@pytest.mark.parametrize("registered", [True, False])
def test_a_claim_is_judged_on_as_many_backbones_as_registered(registered: bool) -> None:
    seeds = registered_seeds(12) if registered else list(range(12))
    runs = made_up({"a": FAST, "b": SLOW}, count=12)
    runs["seed"] = [seeds[seed] for seed in runs["seed"]]
    is_own = runs["seed"].isin(seeds[:3])
    more = runs.assign(steps=runs["steps"].where(is_own, 9 * runs["steps"]))
    if registered:
        more = more.sample(frac=1, random_state=0)
    (finding,) = verdicts([claim(n=3)], more)
    (expected,) = verdicts([claim(n=3)], runs[is_own])
    assert finding.n == {"a": 3, "b": 3}
    assert finding.effect.estimate == pytest.approx(expected.effect.estimate)


def test_runs_that_are_missing_or_censored_are_said() -> None:
    runs = made_up({"a": FAST, "b": SLOW})
    (finding,) = verdicts([claim()], runs.iloc[1:])
    assert (finding.label, finding.reason) == ("undecided", "present are 7 of 8 a")
    assert finding.n == {"a": 7, "b": 8}
    (finding,) = verdicts(
        [claim()], runs.assign(censored=(runs["arm"] == "a") & (runs["seed"] < 2))
    )
    assert finding.label == "undecided"
    assert "before the threshold" in finding.reason
    assert verdicts([claim()], runs.assign(censored=runs["arm"] == "b"))[0].label == "supported"


@pytest.mark.parametrize(("measure", "margin"), [("accuracy", 0.02), ("gap", 0.05), ("solved", 0)])
def test_accuracies_and_solved_shares(measure: str, margin: float) -> None:
    runs = made_up({"a": FAST, "b": FAST})
    is_b = runs["arm"] == "b"
    runs["test_accuracy"] = 0.98 - 0.05 * is_b + 0.001 * runs["seed"]
    runs["train_accuracy"] = runs["test_accuracy"] + 0.1 * is_b + 0.001 * runs["seed"]
    runs["censored"] = is_b & (runs["seed"] < 7)
    for arms, label in (("ab", "supported"), ("ba", "contradicted")):
        kind = claim(*arms, measure=measure, tasks=("mnist-short",), margin=margin)
        assert verdicts([kind], runs)[0].label == label


def test_what_corpora_taught_predicts_their_steps() -> None:
    draws = np.random.default_rng(1)
    arms = [f"corpus-{index}" for index in range(17)]
    taught = pd.DataFrame({"learned": draws.random(17), "scale": draws.random(17)}, index=arms)
    levels = {
        arm: dict.fromkeys(TASKS, 6.0 - 2 * taught["learned"][arm] + 0.1 * draws.normal())
        for arm in arms
    }
    predicts = claim(measure="predicts", backbones=dict.fromkeys(arms, 2))
    runs = made_up(levels, count=2).join(taught, on="arm")
    assert verdicts([predicts], runs)[0].label == "supported"
    turned = runs.assign(learned=1 - runs["learned"])
    assert verdicts([predicts], turned)[0].label == "contradicted"


def test_a_corpus_that_was_not_learned_is_not_compared() -> None:
    runs = made_up({"a": FAST, "b": SLOW})
    for of_b, verdict in (
        (-0.01, ("undecided", "not learned by its backbones: b")),
        (0.01, ("supported", "")),
    ):
        (finding,) = verdicts([claim()], runs.assign(learned=np.where(runs["arm"] == "a", 1, of_b)))
        assert (finding.label, finding.reason) == verdict


SOLVED = Claim("name", "A beats B.", "us", "solved", {"random": 3, "full": 3}, ("bit-xor",))


@pytest.fixture
def records(project: Project) -> Store:
    shutil.copy(Path(__file__).parent / "project/params.yaml", project.root)
    return store("lab")


def fill(records: Store, claim: Claim) -> None:
    """A record of every run of a claim, whose first arm alone is at the threshold."""
    first = next(iter(claim.backbones))
    for run in runs_of([claim]).runs:
        record = make_record(run, 1.0 if run.arm == first else 0.4)
        last = record.curve[-1] | {"step": 130}  # two evaluations at the threshold
        records.write(replace(record, curve=[*record.curve, last]))


def test_a_claim_is_judged_once_all_its_runs_are_recorded(records: Store) -> None:
    waiting = verdicts([SOLVED], results_of([SOLVED]))
    row = "| A beats B. | undecided: present are 0 of 3 random, 0 of 3 full"
    assert row in report.table(waiting)
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
        environment = record.environment | {"data_digest": f"{index}" * 64}
        records.write(replace(record, environment=environment))
    with pytest.raises(FptError, match="'bit-xor' saw different data"):
        results_of([SOLVED])


def test_what_corpora_taught_comes_from_their_pretraining_metadata(
    records: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicts = replace(SOLVED, measure="predicts", backbones={"fpt-bigram": 2, "random": 1})
    fill(records, predicts)
    losses = {run.spec.weights: 5.0 + index for index, run in enumerate(runs_of([predicts]).runs)}
    monkeypatch.setattr(
        "fpt.pretraining.metadata.read",
        lambda folder, name: {
            "weight_scale": 1.0, "unigram_entropy": 7.0, "valid_loss": losses[name]
        },
    )  # fmt: skip
    table = corpora(results_of([predicts]))
    assert table.to_dict("index") == {"fpt-bigram": {"learned": 1.5, "scale": 0.0}}


def explore(records: Store, factor: float, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """The finding on draws of English's statistics against random ones on one task, if another
    rate gives the draws steps of `factor` times those of the registered rate."""
    block = {"arm": "statistics-english", "task": "bit-xor", "settings": {"lr": 0.05}, "count": 3}
    monkeypatch.setattr(sensitivity, "declared", lambda: {"runs": [block], "thresholds": {}})
    sooner = claim("statistics-english", "random", n=3, tasks=("bit-xor",))
    monkeypatch.setattr("fpt.claims.verdicts.claims", lambda kind: [sooner])
    registered = {"statistics-english": 2000, "random": 1000}
    explored = {"statistics-english": 2000 * factor}
    for study, steps in ((runs_of([sooner]), registered), (sensitivity.study(), explored)):
        for index, run in enumerate(study.runs):
            record = make_record(run, 1.0)
            first = round(steps[run.arm]) + 10 * index
            curve = [
                record.curve[0] | {"step": step, "valid_accuracy": 1.0}
                for step in (first, first + 10)
            ]
            records.write(replace(record, curve=curve))
    (finding,) = findings("primary")
    return finding


@pytest.mark.parametrize(("factor", "label"), [(0.3, "undecided"), (0.9, "contradicted")])
def test_nothing_rests_on_the_worse_rate(
    records: Store, monkeypatch: pytest.MonkeyPatch, factor: float, label: str
) -> None:
    monkeypatch.setattr("fpt.claims.gates.ALPHA", 0.06)  # three against three: p is 1/20
    finding = explore(records, factor, monkeypatch)
    assert finding.label == label
    assert finding.elsewhere is not None
    assert "at 0.05" in finding.effect_text
    assert finding.effect_text.count("×") == 2


def test_a_rate_that_is_no_better_changes_nothing(
    records: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert explore(records, 1.5, monkeypatch).elsewhere is None


def test_the_readme_block_is_replaced_and_nothing_else() -> None:
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.in_readme(text, "new \\1") == text.replace("old", "new \\1")
