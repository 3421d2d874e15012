"""The registered claims: seeds, the plan that feeds them, verdicts of made-up runs, and the same
verdicts in every place that shows them."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import make_record

from fpt.claims import sensitivity
from fpt.claims.claim import Claim
from fpt.claims.decide import in_lines
from fpt.claims.second_tests import regression, second_test
from fpt.claims.verdicts import corpora, findings, results_of, runs_of, verdicts
from fpt.records import store
from fpt.report.index import unregistered
from fpt.sections import registration
from fpt.sections.registration import registered_seeds

TASKS = ("bit-xor", "listops-short", "mnist-short")
FAST = dict.fromkeys(TASKS, 5.0)  # mean logarithms of steps by task
SLOW = dict.fromkeys(TASKS, 6.0)


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """A copy of the registration that is read in its place."""
    copy = Path(shutil.copy(registration.FILE, tmp_path))
    monkeypatch.setattr(registration, "FILE", copy)
    registration.digest.cache_clear()
    yield copy
    registration.digest.cache_clear()


# Nobody can choose seeds after a look at results if they follow from what was registered before.
def test_seeds_follow_from_the_file_but_not_from_its_line_ends(edited):
    seeds = registered_seeds(5)
    content = edited.read_bytes().replace(b"\r\n", b"\n")
    for text, common in ((content.replace(b"\n", b"\r\n"), seeds), (content + b"#", [])):
        edited.write_bytes(text)
        registration.digest.cache_clear()
        assert [seed for seed in registered_seeds(5) if seed in seeds] == common


def made_up(levels, count=8, spread=0.1):
    """Runs of arms whose mean log steps on each task are `levels`."""
    draws = np.random.default_rng(5)
    rows = [
        (arm, task, seed, math.exp(level + spread * draws.normal()), False)
        for arm, by_task in levels.items()
        for task, level in by_task.items()
        for seed in range(count)
    ]
    return pd.DataFrame(rows, columns=["arm", "task", "seed", "steps", "censored"])


def claim(first="a", second="b", n=8, **changes):
    return replace(Claim("name", "A.", "us", "steps", {first: n, second: n}, TASKS), **changes)


def judged(runs, *arms, **changes):
    """The finding on one claim alone."""
    (finding,) = verdicts([claim(*arms, **changes)], runs)
    return finding


def test_a_clear_difference_is_supported_and_its_opposite_contradicted():
    runs = made_up({"a": FAST, "b": SLOW})
    finding, opposite = verdicts([claim(), claim("b", "a")], runs)
    assert (finding.label, opposite.label) == ("supported", "contradicted")
    assert finding.effect.estimate == pytest.approx(-1.0, abs=0.2)
    assert finding.adjusted == pytest.approx(2 * finding.effect.p)
    assert judged(runs, margin=4.0).label == "undecided"
    finding, weaker = verdicts([claim(), claim(tasks=TASKS[:1])], runs)
    assert weaker.effect.p > 2 * finding.effect.p
    assert weaker.adjusted == pytest.approx(weaker.effect.p, abs=0)  # Holm's, not Bonferroni's


def test_no_difference_is_undecided():
    runs = made_up({"a": FAST, "b": FAST})
    finding = judged(runs)
    assert finding.label == "undecided"
    assert "both directions" in finding.reason


def test_equal_values_are_not_tested_and_say_so():
    text = in_lines(judged(made_up({"a": FAST, "b": FAST}, spread=0.0)))
    assert "p: none, since there is no spread to test against" in text
    assert "effect: 1.00× the steps; n = " in text
    assert "nan" not in text


# Opposite effects are the finding; their mean once read as “undecided”.
@pytest.mark.parametrize("arms", ["ab", "ba"])
@pytest.mark.parametrize("shifts", [(-2.0, -2.0, 0.5), (-2.0, 1.0, 1.0), (-1.0, 0.0, 1.0)])
def test_tasks_with_opposite_effects_are_not_averaged(arms, shifts):
    levels = {task: 6.0 + shift for task, shift in zip(TASKS, shifts, strict=True)}
    finding = judged(made_up({"a": levels, "b": SLOW}), *arms)
    assert finding.label == "depends on the task"
    assert f"{math.exp(finding.effect.estimate):.2f}×" not in finding.effect_text
    for task in TASKS:
        assert f"{task} ({math.exp(finding.by_task[task].estimate):.2f}×)" in finding.effect_text


def test_unequal_effects_of_one_sign_are_no_contradiction():
    levels = dict(zip(TASKS, (3.0, 4.0, 5.0), strict=True))
    finding = judged(made_up({"a": levels, "b": SLOW}))
    assert finding.heterogeneity < 0.05
    assert finding.label == "supported"


# Two arms at the budget have a ratio of 1.00, which says nothing.
def test_where_neither_arm_learned_nothing_is_compared():
    runs = made_up({"a": SLOW, "b": SLOW}, spread=0.0).assign(censored=True)
    finding = judged(runs)
    assert finding.label == "neither learned"
    assert finding.is_judged
    runs = made_up({"a": {**SLOW, "bit-xor": 4.0}, "b": {**SLOW, "bit-xor": 5.0}})
    runs["censored"] = runs["task"] != "bit-xor"
    assert judged(runs).label != "neither learned"


def test_below_the_trivial_baselines_nothing_is_compared():
    runs = made_up({"a": {"mnist-equal": 1.0}, "b": {"mnist-equal": 1.0}})
    for first, label in ((0.84, "neither learned"), (0.95, "supported")):
        level = np.where(runs["arm"] == "a", first, 0.82)
        scored = runs.assign(test_accuracy=level + 0.001 * runs["seed"])
        finding = judged(scored, measure="accuracy", tasks=("mnist-equal",))
        assert finding.label == label
        assert ("linear classifier" in finding.effect_text) == (first < 0.925)


def test_a_threshold_below_a_baseline_is_named_in_the_sentence():
    runs = made_up({"a": FAST, "b": SLOW})
    for threshold in (0.8, 0.95):
        finding = judged(runs.assign(threshold=threshold), tasks=("mnist-short",))
        assert finding.label == "supported"
        is_named = any("below a linear classifier (92.5%)" in note for note in finding.notes)
        assert is_named == (threshold < 0.925)


def test_a_ratio_with_runs_at_the_budget_is_a_bound():
    runs = made_up({"a": FAST, "b": SLOW}, count=12)
    about_a = claim(n=12, tasks=("bit-xor",))
    about_b = replace(about_a, statement="B needs more steps.")
    for arm, words, inverse in (("a", "at least", "at most"), ("b", "at most", "at least")):
        ends = (runs["arm"] == arm) & (runs["seed"] == 0)
        first, second = verdicts([about_a, about_b], runs.assign(censored=ends))
        assert first.effect_text.startswith(words)
        assert second.effect_text.startswith(inverse)


def test_runs_that_share_a_backbone_are_said():
    runs = made_up({"fpt": FAST, "fpt-vit": SLOW}, count=3)
    own = "english-" + runs["seed"].astype(str)
    runs["weights"] = own.where(runs["arm"] == "fpt", "vit-0")
    finding = judged(runs, "fpt", "fpt-vit", n=3)
    assert finding.one_backbone == ("fpt-vit",)


@pytest.mark.parametrize("registered", [True, False])
def test_a_claim_is_judged_on_as_many_backbones_as_registered(registered):
    seeds = registered_seeds(12) if registered else list(range(12))
    runs = made_up({"a": FAST, "b": SLOW}, count=12)
    runs["seed"] = [seeds[seed] for seed in runs["seed"]]
    is_own = runs["seed"].isin(seeds[:3])
    more = runs.assign(steps=runs["steps"].where(is_own, 9 * runs["steps"]))
    if registered:
        more = more.sample(frac=1, random_state=0)
    finding = judged(more, n=3)
    expected = judged(runs[is_own], n=3)
    assert finding.n == {"a": 3, "b": 3}
    assert finding.effect.estimate == pytest.approx(expected.effect.estimate)


def test_runs_that_are_missing_or_censored_are_said():
    runs = made_up({"a": FAST, "b": SLOW})
    finding = judged(runs.iloc[1:])
    assert (finding.label, finding.reason) == ("undecided", "present are 7 of 8 a")
    assert finding.n == {"a": 7, "b": 8}
    finding = judged(runs.assign(censored=(runs["arm"] == "a") & (runs["seed"] < 2)))
    assert finding.label == "undecided"
    assert "before the threshold" in finding.reason
    assert judged(runs.assign(censored=runs["arm"] == "b")).label == "supported"


@pytest.mark.parametrize(("measure", "margin"), [("accuracy", 0.02), ("gap", 0.05), ("solved", 0)])
def test_accuracies_and_solved_shares(measure, margin):
    runs = made_up({"a": FAST, "b": FAST})
    is_b = runs["arm"] == "b"
    runs["test_accuracy"] = 0.98 - 0.05 * is_b + 0.001 * runs["seed"]
    runs["train_accuracy"] = runs["test_accuracy"] + 0.1 * is_b + 0.001 * runs["seed"]
    runs["censored"] = is_b & (runs["seed"] < 7)
    for arms, label in (("ab", "supported"), ("ba", "contradicted")):
        finding = judged(runs, *arms, measure=measure, tasks=("mnist-short",), margin=margin)
        assert finding.label == label


def test_what_corpora_taught_predicts_their_steps():
    draws = np.random.default_rng(1)
    arms = [f"corpus-{index}" for index in range(17)]
    taught = pd.DataFrame({"learned": draws.random(17), "scale": draws.random(17)}, index=arms)
    levels = {
        arm: dict.fromkeys(TASKS, 6.0 - 2 * taught["learned"][arm] + 0.1 * draws.normal())
        for arm in arms
    }
    predicts = {"measure": "predicts", "backbones": dict.fromkeys(arms, 2)}
    runs = made_up(levels, count=2).join(taught, on="arm")
    assert judged(runs, **predicts).label == "supported"
    assert judged(runs.assign(learned=1 - runs["learned"]), **predicts).label == "contradicted"


def test_a_corpus_that_was_not_learned_is_not_compared():
    runs = made_up({"a": FAST, "b": SLOW})
    for of_b, verdict in (
        (-0.01, ("undecided", "not learned by its backbones: b")),
        (0.01, ("supported", "")),
    ):
        finding = judged(runs.assign(learned=np.where(runs["arm"] == "a", 1, of_b)))
        assert (finding.label, finding.reason) == verdict


SOLVED = Claim("name", "A beats B.", "us", "solved", {"random": 3, "full": 3}, ("bit-xor",))


@pytest.fixture
def records(planned):
    return store("lab")


def fill(records, claim):
    """A record of every run of a claim, whose first arm alone is at the threshold."""
    first = next(iter(claim.backbones))
    for run in runs_of([claim]).runs:
        record = make_record(run, 1.0 if run.arm == first else 0.4)
        last = record.curve[-1] | {"step": 130}  # two evaluations at the threshold
        records.write(replace(record, curve=[*record.curve, last]))


def test_a_claim_is_judged_once_all_its_runs_are_recorded(records):
    (waiting,) = verdicts([SOLVED], results_of([SOLVED]))
    assert waiting.label == "undecided"
    fill(records, SOLVED)
    results = results_of([SOLVED])
    assert list(results["arm"]) == ["random"] * 3 + ["full"] * 3
    assert list(results["censored"]) == [False] * 3 + [True] * 3
    (finding,) = verdicts([SOLVED], results)
    assert finding.label == "supported"
    assert "+100.0 points" in finding.effect_text


def test_what_corpora_taught_comes_from_their_pretraining_metadata(records, monkeypatch):
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


def test_other_rates_are_shown_beside_whole_sets_alone(records, monkeypatch):
    """No number stands beside registered runs that are not recorded."""
    block = {"arm": "random", "task": "bit-xor", "lr": 0.05, "count": 3, "why": "asked"}
    monkeypatch.setattr(sensitivity, "declared", lambda: {"runs": [block], "thresholds": {}})
    monkeypatch.setattr("fpt.report.index.claims", lambda kind: [SOLVED])
    for run in sensitivity.study().runs:
        records.write(make_record(run, 1.0))
    assert not list(unregistered())
    fill(records, SOLVED)
    assert "lr 0.05" in "\n".join(unregistered())


def judged_beside_another_rate(records, monkeypatch, factor):
    """The finding of draws of English's statistics against random weights, where another rate
    gives the draws steps of `factor` times those of the registered rate."""
    monkeypatch.setattr("fpt.claims.gates.ALPHA", 0.06)  # three against three: p is 1/20
    block = {"arm": "statistics-english", "task": "bit-xor", "lr": 0.05, "count": 3}
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


# The rate of the draws was registered; at a better one the opposite may hold.
@pytest.mark.parametrize(("factor", "label"), [(0.3, "undecided"), (0.9, "contradicted")])
def test_nothing_rests_on_the_worse_rate(records, monkeypatch, factor, label):
    finding = judged_beside_another_rate(records, monkeypatch, factor)
    assert finding.label == label
    assert finding.elsewhere is not None
    assert "at 0.05" in finding.effect_text


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_another_rate_counts_only_if_it_is_better(records, monkeypatch, factor):
    finding = judged_beside_another_rate(records, monkeypatch, factor)
    assert finding.label == "contradicted"
    assert finding.elsewhere is None


def test_a_finding_may_be_shown_the_other_way_round():
    finding = judged(made_up({"a": FAST, "b": SLOW}))
    estimate, low, high = finding.values
    assert np.allclose(finding.inverted().values, [1 / estimate, 1 / high, 1 / low])
    assert finding.inverted().label == finding.label


@pytest.mark.parametrize("measure", ["steps", "accuracy", "solved"])
def test_a_second_test_has_the_direction_of_the_first(measure):
    runs = made_up({"a": FAST, "b": FAST | {"bit-xor": 5.5}})
    is_b = runs["arm"] == "b"
    runs["test_accuracy"] = 0.98 - 0.05 * is_b + 0.001 * runs["seed"]
    runs["censored"] = is_b & (runs["seed"] < 7)
    if measure == "steps":
        runs["censored"] = False
    one_task = {"measure": measure, "tasks": TASKS[:1]}
    p = [second_test(claim(*arms, **one_task), runs)[1] for arms in ("ab", "ba")]
    # Of eight against eight: a permutation's least p-value is 1/12870, Fisher's here 0.0007.
    assert p[0] < 0.001
    assert p[1] > 0.9


def test_the_second_test_of_corpora_leaves_their_scale_out():
    draws = np.random.default_rng(2)
    scale = draws.random(17)
    taught = pd.DataFrame({"learned": scale + 0.3 * draws.normal(size=17), "scale": scale})
    noise = pd.Series(0.1 * draws.normal(size=17))

    def p_value(steps):
        return regression(steps.rename_axis("arm"), taught)

    assert p_value(noise - taught["learned"]) < 0.001
    assert p_value(noise + taught["learned"]) > 0.999
    assert p_value(noise - 3 * taught["scale"]) > 0.05


def test_where_both_arms_end_at_the_budget_a_ratio_is_rough():
    runs = made_up({"a": FAST, "b": SLOW}, count=12)
    ends = (runs["seed"] == 0) & (runs["task"] == "bit-xor")
    finding = judged(runs.assign(censored=ends), n=12)
    assert finding.bound("bit-xor") == "roughly "
    assert finding.bound("mnist-short") == ""
    assert finding.n_text.count("1 of 36 runs") == 2
    assert finding.inverted().bound("bit-xor") == "roughly "


def test_points_of_accuracy_are_those_of_the_first_arm():
    runs = made_up({"a": FAST, "b": FAST})
    runs["test_accuracy"] = 0.98 - 0.05 * (runs["arm"] == "b") + 0.001 * runs["seed"]
    finding = judged(runs, measure="accuracy", tasks=("bit-xor",), margin=0.02)
    estimate, low, high = finding.values
    assert low < estimate < high
    assert estimate == pytest.approx(0.05)
    assert finding.effect_text.startswith("+5.0 points [")
    assert finding.brief(interval=False) == "+5.0 points"
