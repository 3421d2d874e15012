"""Verdicts on made-up runs of the profile `language`, recomputed by other code; they are the same
with and without records in the tree."""

import math
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import fpt
from fpt.__main__ import main
from fpt.analysis.effects import UNKNOWN, Effect
from fpt.claims.claim import KINDS
from fpt.claims.decide import in_lines
from fpt.claims.finding import Finding
from fpt.claims.model_claims import model_findings, planned_runs
from fpt.claims.second_tests import second_tests
from fpt.report import answers, show
from fpt.report.figures.forest import forest
from fpt.report.findings import RECORDED, claims_table
from fpt.report.findings import table as in_rows
from fpt.sections.registration import LANGUAGE

README = Path(__file__).parents[1] / "README.md"
LEVELS = {"fpt": 0.4, "random": 0.6, "random-own": 0.3, "random-at-scale": 0.5, "full": 0.3}
COLUMNS = ["key", "arm", "task", "seed", "draw", "area", "accuracy", "test_accuracy", "status"]


def base(arm):
    return arm.removesuffix("@6").removesuffix("-minilm")


def noise(*place):
    """A small number that depends on a place alone, so that another plan changes no run."""
    return 0.03 * np.random.default_rng(zlib.crc32(repr(place).encode())).normal()


def made_up(level, accuracy=95.0):
    """Every planned run, with an area around the level of its arm; draws differ too."""
    rows = []
    for run in planned_runs():
        spec = run.spec
        place = (run.arm, run.task, spec.draw)
        shift = 0.0 if spec.draw is None else noise(*place)
        area = level(base(run.arm)) * math.exp(shift + noise(*place, spec.seed))
        rows.append(
            (run.key, run.arm, run.task, spec.seed, spec.draw, area, accuracy, accuracy / 100)
        )
    return pd.DataFrame([(*row, "done") for row in rows], columns=COLUMNS)


def usual(arm):
    return LEVELS.get(arm, 0.4)


@pytest.fixture(scope="module")
def results():
    """Every planned run, with the usual areas."""
    return made_up(usual)


@pytest.fixture(scope="module")
def by_name(results):
    """The findings of all claims about language models, by name."""
    findings = [finding for kind in KINDS for finding in model_findings(kind, results)]
    return {finding.claim.name: finding for finding in findings}


def p_value(results, first, second, task):
    """The difference of mean log areas and its p, by sums over plain lists."""
    values = {
        (row.arm, None if pd.isna(row.draw) else row.draw, row.seed): math.log(row.area)
        for row in results[results["task"] == task].itertuples()
    }
    seeds = {s for a, _, s in values if a == first} & {s for a, _, s in values if a == second}
    draws = {arm: {d for a, d, _ in values if a == arm} for arm in (first, second)}

    def mean(arm, some_draws, some_seeds):
        return float(np.mean([values[arm, d, s] for d in some_draws for s in some_seeds]))

    by_seed = [mean(first, draws[first], {s}) - mean(second, draws[second], {s}) for s in seeds]
    parts = [(np.var(by_seed, ddof=1) / len(seeds), len(seeds) - 1)]
    for arm, of_arm in draws.items():
        if len(of_arm) > 1:
            means = [mean(arm, {draw}, seeds) for draw in of_arm]
            parts.append((np.var(means, ddof=1) / len(means), len(means) - 1))
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    t = np.mean(by_seed) / math.sqrt(variance)
    return float(np.mean(by_seed)), float(2 * stats.t.sf(abs(t), freedom))


@pytest.mark.parametrize(("kind", "method"), [("primary", "holm"), ("secondary", "fdr_bh")])
def test_verdicts_are_those_of_other_code(kind, method, results):
    findings = model_findings(kind, results)
    ps = []
    for finding in findings:
        claim = finding.claim
        if claim.withdrawn:  # it has no runs, and counts in the correction
            assert not finding.is_judged
            assert not all(claim.backbones.values())
            ps.append(1.0)
            continue
        first, second = claim.backbones
        effect, p = p_value(results, first, second, claim.tasks[0])
        assert finding.effect.estimate == pytest.approx(effect)
        # Other tests have their own p here, but count in the same correction.
        ps.append(p if claim.test == "difference" else finding.effect.p)
        assert finding.effect.p == pytest.approx(ps[-1], rel=1e-6)
    adjusted = multipletests(ps, method=method)[1]
    for finding, p in zip(findings, adjusted, strict=True):
        assert finding.adjusted == pytest.approx(p)
        if finding.claim.withdrawn:
            continue
        word = "helps" if finding.effect.estimate < 0 else "hurts"
        word = "suffices" if finding.claim.test == "suffices" else word
        assert finding.label == (word if p < 0.05 else "no clear difference")
    by_name = {finding.claim.name: finding.label for finding in findings}
    if kind == "primary":
        assert by_name["fpt/random/bit-xor"] == "helps"
        assert by_name["fpt/random-own/bit-xor"] == "hurts"
        assert by_name["fpt@6/statistics-tensor@6/bit-xor"] == "no clear difference"
    else:
        assert by_name["statistics-tensor/fpt/bit-memory-small/suffices"] == "suffices"


def test_a_claim_waits_for_its_last_run_and_counts_in_the_correction(results):
    complete = model_findings("primary", results)
    gone = results.index[(results["arm"] == "random") & (results["task"] == "bit-xor")][0]
    waiting, *rest = model_findings("primary", results.drop(gone))
    assert (waiting.label, waiting.reason) == ("undecided", "41 of 42 runs are recorded")
    assert [finding.label for finding in rest] == [finding.label for finding in complete[1:]]
    assert all(not finding.is_judged for finding in model_findings("primary", results.iloc[:0]))


def test_a_claim_that_may_pass_once_others_are_judged_is_undecided():
    """Those that wait count as p = 1 in Holm's correction, which only makes it stricter."""
    results = made_up(lambda arm: 0.303 if arm == "fpt" else 0.3)
    arms = results["arm"].isin(["fpt@6", "full@6"])
    alone = model_findings("primary", results[arms])[-1]
    assert alone.effect.p < 0.05 < alone.adjusted
    assert (alone.label, alone.is_judged) == ("undecided", True)
    assert "7 claims" in alone.reason
    complete = model_findings("primary", results)[-1]
    assert complete.adjusted >= 0.05
    assert complete.label == "no clear difference"


@pytest.mark.parametrize(
    ("level", "accuracy"), [(lambda arm: 2.0, 95.0), (usual, 50.0)], ids=["guessing", "baseline"]
)
def test_where_neither_arm_learned_nothing_is_compared(level, accuracy):
    (finding, *_) = model_findings("primary", made_up(level, accuracy))
    assert (finding.label, finding.effect_text) == ("neither learned", "neither arm learned")
    assert finding.reason


def test_without_records_nothing_is_decided(planned):
    text = "\n".join(answers.block(answers.every_finding(), "../", ".md"))
    assert "not yet measured (0 of " in text
    assert answers.figure(answers.ratios()) is None
    for kind in KINDS:
        assert set(claims_table(kind, LANGUAGE).numbers["verdict"]) == {"undecided"}


def compared_runs(claim, results):
    """The number of runs of each arm of a claim whose seed the other has, too."""
    first, second = (
        results[(results["arm"] == arm) & (results["task"] == claim.tasks[0])]["seed"]
        for arm in claim.backbones
    )
    return first.isin(second).sum(), second.isin(first).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_runs_without_a_partner_are_not_counted(kind, results, by_name):
    """The model has eight seeds and 39 draws of its statistics six of them: 6 and 234 runs
    are compared."""
    for finding in model_findings(kind, results):
        if finding.is_judged:
            assert tuple(finding.n.values()) == compared_runs(finding.claim, results)
    statistics = by_name["fpt@6/statistics-tensor@6/bit-xor"]
    assert statistics.claim.backbones == {"fpt@6": 8, "statistics-tensor@6": 234}
    assert statistics.n_text == "6 and 234 runs"


@pytest.mark.parametrize(("times", "draws"), [(0.01, 39), (100, 0)])
def test_a_rank_says_how_many_draws_are_on_which_side_and_what_they_can_show(times, draws):
    results = made_up(usual)
    results.loc[results["arm"] == "fpt@6", "area"] *= times
    (ranked,) = (f for f in model_findings("secondary", results) if f.claim.test == "rank")
    (note,) = ranked.notes
    assert note.startswith(f"{draws} of 39 draws have a larger area")
    assert "0.05" in note
    assert ranked.effect.p == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("area", "label", "reason"),
    [(2.0, "neither learned", "above"), (math.exp(-0.5), "no clear difference", "no spread")],
)
def test_a_judged_claim_without_a_p_says_why(area, label, reason, monkeypatch):
    results = made_up(usual).assign(area=area)
    findings = model_findings("primary", results)
    monkeypatch.setattr("fpt.report.findings.findings", lambda kind, profile: findings)
    shown = claims_table("primary", LANGUAGE)
    assert (shown.texts["verdict"] == label).all()
    for finding in findings:
        text = in_lines(finding)
        assert reason in finding.reason
        assert text.count(finding.reason) == 1
        assert f"p: none, since {finding.reason}" in text
        assert "nan" not in text
        if label != "neither learned":
            counts = " and ".join(map(str, compared_runs(finding.claim, results)))
            assert shown.texts.loc[finding.claim.name, "n"] == counts
    assert "nan" not in shown.markdown() + in_rows(findings)
    assert "lacks runs" not in shown.caption
    assert ("has no p: there is no spread" in shown.caption) == (label == "no clear difference")
    assert second_tests(findings, results).empty


TESTED = (
    "fpt/random/bit-xor",
    "fpt@6/random@6/bit-xor",
    "fpt-minilm/random-minilm/bit-xor",
    "fpt-minilm/random-minilm/bit-memory-small",
)


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        (("helps", "hurts", "helps"), "SmolLM2: helps<br>SmolLM2@6: hurts<br>MiniLM: helps"),
        (("hurts", None, None, "hurts"), "SmolLM2: hurts<br>MiniLM: hurts"),
        (("hurts",), "hurts"),
        ((None, "", "helps"), "helps, so far"),
        (
            (None, "no clear difference", "helps", "hurts"),
            "SmolLM2@6: unclear<br>MiniLM: helps on bit-xor, hurts on bit-memory-small",
        ),
        ((None, None, "helps", "helps"), "helps"),
        (
            (None, None, "helps", "no clear difference"),
            "helps on bit-xor, unclear on bit-memory-small",
        ),
    ],
)
def test_a_row_names_its_models_if_it_has_several(labels, verdict, by_name):
    """None: not planned; empty: not measured."""
    of_language = [
        replace(by_name[name], label=label) if label else Finding(by_name[name].claim, UNKNOWN, {})
        for name, label in zip(TESTED, labels, strict=False)
        if label is not None
    ]
    assert answers.verdict({}, of_language, []) == verdict


@pytest.mark.parametrize(
    ("task", "area", "accuracy", "is_marked"),
    [
        ("bit-xor", 0.69, 0.5, True),
        ("bit-xor", 0.69, 0.51, False),
        ("bit-memory-small", 0.69, 0.795, False),  # above copying, 75%: the loss rose, then fell
        ("bit-memory-small", 0.65, 0.67, True),
        ("listops-short", 2.2, 0.2, True),  # the root operator has 20.75%
        ("listops-short", 2.2, 0.21, False),
    ],
)
def test_a_ratio_to_an_arm_no_better_than_a_trivial_baseline_says_so(
    task, area, accuracy, is_marked
):
    """Whatever its area is, which is here about that of guessing."""
    results = made_up(lambda arm: area if arm == "random" else 0.3)
    results.loc[results["arm"] == "random@6", "test_accuracy"] = accuracy
    finding = next(
        finding
        for finding in model_findings("secondary", results)
        if finding.claim.name == f"fpt@6/random@6/{task}"
    )
    assert finding.label == "helps"
    mark = "(random@6 at or below a trivial baseline)"
    assert (mark in finding.effect_text) == is_marked
    assert (mark in finding.brief()) == is_marked


def test_a_primary_verdict_says_without_which_seeds_it_would_not_pass(results):
    assert {finding.fragile for finding in model_findings("primary", results)} == {""}
    name = "fpt/statistics-tensor/bit-memory-small"
    others = results.copy()
    of_model = (others["arm"] == "fpt") & (others["task"] == "bit-memory-small")
    seeds = sorted(set(others.loc[of_model, "seed"]))
    # One seed far from the others makes the spread: without it the rest would pass.
    for seed, factor in zip(seeds, (0.3, 0.5, 0.5, 0.5), strict=True):
        others.loc[of_model & (others["seed"] == seed), "area"] = 0.4 * factor
    found = model_findings("primary", others)
    (finding,) = (f for f in found if f.claim.name == name)
    assert finding.label == "helps"
    ps = [p_value(others[others["seed"] != seed], *name.split("/"))[1] for seed in seeds]
    rank = sum(f.effect.p < finding.effect.p for f in found)
    level = 0.05 / (len(found) - rank)
    failing = [p for p in ps if p > level]
    assert 0 < len(failing) < len(ps)
    assert f"without any one of {len(failing)} of its 4 seeds" in finding.fragile
    assert f"(p {min(failing):.2g} to {max(failing):.2g}, needed {level:.2g})" in finding.fragile
    assert finding.fragile in finding.notes
    assert f"helps; {finding.fragile}" in in_rows([finding])


def test_power_with_the_recorded_spread_stands_beside_the_registered_one(results, monkeypatch):
    """Recomputed from the standard error and degrees of freedom of each claim."""
    findings = model_findings("primary", results)
    monkeypatch.setattr("fpt.report.findings.findings", lambda kind, profile: findings)
    powers = claims_table("primary", LANGUAGE).numbers[RECORDED]
    for finding, power in zip(findings, powers, strict=True):
        effect = finding.effect
        error = abs(effect.estimate) / stats.t.isf(effect.p / 2, effect.freedom)
        bound = stats.t.isf(0.05 / len(findings) / 2, effect.freedom)
        shift = abs(math.log(finding.claim.expected)) / error
        assert power == pytest.approx(stats.nct.sf(bound, effect.freedom, shift), abs=1e-6)


def test_a_claim_is_decided_on_the_command_line(planned, capsys):
    assert main(["decide", "fpt/random/bit-xor"]) == 0
    text = capsys.readouterr().out
    assert "undecided" in text
    assert "nan" not in text
    assert main(["show", "verdict", "--profile", LANGUAGE]) == 0
    assert main(["decide", "fpt/random/bit-xo"]) == 2
    assert "fpt/random/bit-xor" in capsys.readouterr().err


def test_a_page_has_the_verdict_of_each_claim_and_counts_the_others(by_name, planned, monkeypatch):
    judged = by_name["fpt/random/bit-xor"]
    waiting = Finding(by_name["fpt@6/random@6/bit-xor"].claim, UNKNOWN, {})
    of_kind = {"primary": [judged], "secondary": [waiting]}
    monkeypatch.setattr(show, "findings", lambda kind, profile: of_kind.get(kind, []))
    text = show.conclude(fpt.section("verdict", LANGUAGE)).text
    assert f"- **{judged.label.capitalize()}**: {judged.claim.statement}" in text
    assert judged.effect_text in text
    assert waiting.claim.statement not in text
    assert "1 waiting for runs" in text


@pytest.mark.parametrize("label", ["helps", "hurts", "no clear difference"])
def test_the_answer_has_at_most_40_words_and_says_what_waits(label, by_name):
    by_name = {name: replace(finding, label=label) for name, finding in by_name.items()}
    complete = answers.answer(by_name)
    by_name["fpt/random/bit-xor"] = Finding(by_name["fpt/random/bit-xor"].claim, UNKNOWN, {})
    partial = answers.answer(by_name)
    assert partial.endswith(complete)
    assert "1 of 8" in partial.removesuffix(complete)
    assert len(partial.split()) <= 40


def test_a_short_effect_has_its_interval_unless_it_is_left_out(by_name):
    finding = by_name["fpt/random/bit-xor"]
    short = finding.brief(interval=False)
    assert "[" not in short
    assert finding.brief().startswith(f"{short} [")
    without = replace(finding, effect=Effect(finding.effect.estimate))
    assert without.brief() == short


@pytest.mark.parametrize(
    ("label", "drawn"),
    [("helps", "expected, interval, effect"), ("neither learned", "expected"),
     ("depends on the task", "expected, tasks")],
)  # fmt: skip
def test_a_finding_is_drawn_as_its_verdict_has_it(label, drawn, by_name):
    by_task = {"bit-xor": Effect(-0.5), "bit-memory": Effect(0.3)}
    finding = replace(by_name["fpt/random/bit-xor"], label=label, by_task=by_task)
    axes = forest([finding]).axes[0]
    # The last line is at a ratio of 1.
    points = [tuple(line.get_xdata()) for line in axes.lines[:-1]]
    effect, low, high = finding.values
    marks = {
        "expected": (finding.expected,),
        "interval": (low, high),
        "effect": (effect,),
        "tasks": tuple(np.exp([-0.5, 0.3])),
    }
    assert points == [pytest.approx(marks[name]) for name in drawn.split(", ")]


def test_a_second_test_of_each_judged_claim_agrees_where_the_effect_is_large(results):
    findings = model_findings("primary", results)
    tests = second_tests(findings, results)
    judged = [finding for finding in findings if finding.is_judged]
    assert list(tests.index) == [finding.claim.name for finding in judged]
    for finding in judged:
        if abs(finding.effect.estimate) > 0.2 and finding.label in ("helps", "hurts"):
            assert tests.loc[finding.claim.name, "second, adjusted"] < 0.05
    # A claim that waits counts in the correction.
    fewer = second_tests([judged[0]], results)["registered, adjusted"].iloc[0]
    assert fewer == pytest.approx(judged[0].effect.p)
    assert forest(findings) is not None
    assert (
        forest([replace(finding, effect=UNKNOWN, label="undecided") for finding in judged]) is None
    )
