"""Which arms stand beside which numbers of the paper; tables, claims and dot plots of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made import fill, make_section
from matplotlib.figure import Figure
from profiled import texts

from fpt import config
from fpt.analysis import registered
from fpt.analysis.cells import Cell
from fpt.analysis.claim import Evidence
from fpt.config import PROFILES, Run
from fpt.paper import reader as paper
from fpt.report import dots, outputs, tables
from fpt.report.table import label
from fpt.sections import claims
from fpt.sections.arms import ARMS
from fpt.sections.comparison import Comparison
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

SECTIONS = {
    "initialization": ("initialization",),
    "finetuning": (
        "successive", "individual", "random_successive", "random_individual", "layernorm",
        "unfreezing",
    ),
}  # fmt: skip
ALL = [(section, COMPARISONS[name]) for section, names in SECTIONS.items() for name in names]
IDS = [comparison.name for _, comparison in ALL]


LOCAL = {"fpt-smaller", "random-smaller"}  # smaller than any published body
LAB = {f"{start}-{it}" for start in ("fpt", "statistics") for it in ("bigram-16", "copies")}


def make(
    name: str, comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Section:
    return make_section(tmp_path, monkeypatch, name, comparison.arms)


def level(run: Run) -> float:
    """Arms a point apart, in the order of ARMS."""
    return 0.9 - 0.01 * list(ARMS).index(run.arm) + 0.001 * run.spec.seed


# ---------------------------------------------------------------------------------------- the data


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_a_comparison_names_what_there_is(comparison: Comparison) -> None:
    assert set(comparison.arms) <= set(ARMS)
    assert {arm for pair in comparison.pairs for arm in pair} <= set(comparison.arms)
    assert all(a != b for a, b in comparison.pairs)
    assert set(comparison.rows) <= set(comparison.arms)
    rows = {row for table in comparison.tables for row in paper.table(table).rows}
    assert bool({comparison.row(arm) for arm in comparison.arms} & rows) == bool(comparison.tables)
    assert set(comparison.rows.values()) <= rows
    assert comparison.of in config.load("paper").sections


@pytest.mark.parametrize(
    ("name", "arm", "task", "source", "row", "column"),
    [
        ("initialization", "statistics-global", "cifar10", "T9", "statistics", "cifar10"),
        ("successive", "fpt", "cifar10", "T15", "output+layernorm+input+positions", "cifar10"),
        ("individual", "output+positions", "mnist", "T18", "output+positions", "mnist"),
        ("random_successive", "random", "listops", "T20", "output+layernorm+input+positions",
         "listops"),
        ("random_individual", "random-output", "mnist", "T21", "output", "mnist"),
        ("layernorm", "fpt", "cifar10", "T16", "fpt", "trained-layernorm"),
        ("layernorm", "random-output+input+positions", "cifar10", "T16", "random",
         "frozen-layernorm"),
        ("unfreezing", "fpt+attention", "listops", "T13", "fpt+attention", "listops"),
        ("unfreezing", "fpt+feedforward+last-attention", "cifar10", "T14",
         "fpt+feedforward+last-attention", "cifar10"),
        ("transfer", "lstm-released", "mnist", "T1", "lstm", "mnist"),
    ],
)  # fmt: skip
def test_what_stands_beside_an_arm(
    name: str, arm: str, task: str, source: str, row: str, column: str
) -> None:
    assert COMPARISONS[name].printed(arm, task) == paper.cell(source, row, column).value


def test_where_the_paper_has_nothing() -> None:
    assert COMPARISONS["initialization"].printed("shuffled", "mnist") is None
    assert COMPARISONS["initialization"].printed("fpt", "digits") is None
    assert COMPARISONS["layernorm"].printed("fpt", "mnist") is None
    assert COMPARISONS["unfreezing"].printed("fpt+feedforward+last-attention", "mnist") is None
    assert COMPARISONS["initialization"].effect("fpt", "shuffled", "mnist") is None


def test_an_effect_is_within_one_table() -> None:
    # T1's cifar10 is a larger model: beside random it must be T2's.
    transfer = COMPARISONS["transfer"]
    assert transfer.effect("fpt", "random", "cifar10") == pytest.approx(68.2 - 61.7)
    assert transfer.effect("fpt", "full", "cifar10") == pytest.approx(72.1 - 70.3)
    unfreezing = COMPARISONS["unfreezing"]
    last, feedforward = "fpt+feedforward+last-attention", "fpt+feedforward"
    assert unfreezing.effect(last, feedforward, "cifar10") == pytest.approx(80.0 - 76.6)


@pytest.mark.parametrize("profile", PROFILES)
def test_arms_of_the_project_are_compared_in_a_table_of_their_section(profile: str) -> None:
    """Each is one of a pair that is planned whole: none is trained for nothing."""
    loaded = config.load(profile)
    alone = {}
    for name in loaded.sections:
        arms = {run.arm for run in config.expand(loaded, name)}
        pairs = [pair for it in COMPARISONS.values() if it.of == name for pair in it.pairs]
        if pairs:  # the other sections have tables of their own
            planned = [pair for pair in pairs if arms.issuperset(pair)]
            alone[name] = arms - {arm for pair in planned for arm in pair}
    assert len(alone) == len({it.of for it in COMPARISONS.values()})
    expected = {"efficiency": {"random", "full"}}  # compared by steps and cost, in other tables
    if profile == "lab":  # registered claims compare it, no table does
        expected["initialization"] = {"random-at-scale"}
    if profile == "paper":  # beside the number that the paper has for it
        expected["finetuning"] = {"random-output@24"}
    assert {name: arms for name, arms in alone.items() if arms} == expected
    claimed = {arm for claim in registered.claims("primary") for arm in claim.backbones}
    assert expected.get("initialization", set()) <= claimed


def test_the_paper_profile_has_every_arm_of_its_tables() -> None:
    loaded = config.load("paper")
    for name in loaded.sections:
        wanted = {arm for it in COMPARISONS.values() if it.of == name for arm in it.arms}
        if wanted:
            assert {run.arm for run in config.expand(loaded, name)} == wanted - LOCAL - LAB, name


def test_corpora_that_the_lab_adds_are_in_its_table() -> None:
    arms = {run.arm for run in config.expand(config.load("lab"), "synthetic_pretraining")}
    assert arms >= set(COMPARISONS["corpora"].arms) > arms & LAB
    assert arms & LAB == {"fpt-bigram-16", "fpt-copies"}


def test_the_smoke_profile_has_few_tasks() -> None:
    loaded = config.load("smoke")
    for name in loaded.sections:
        assert len({run.task for run in config.expand(loaded, name)}) <= 3, name


# ------------------------------------------------------------------------------- tables and claims


@pytest.mark.parametrize(("name", "comparison"), ALL, ids=IDS)
def test_a_table_has_our_arms_then_the_papers(
    name: str, comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make(name, comparison, tmp_path, monkeypatch)
    fill(section, level)
    table = tables.results_table(section, comparison)
    assert list(table.shown.index[: len(comparison.arms)]) == [label(a) for a in comparison.arms]
    for arm in comparison.arms:
        mine = 100 * (0.9 - 0.01 * list(ARMS).index(arm) + 0.001)
        assert table.shown.loc[label(arm), "mnist"].startswith(f"{mine:.1f} ±")
        line, value = tables.paper_name(comparison, arm), comparison.printed(arm, "mnist")
        if line is not None:
            expected = "–" if value is None else f"{value:.3g}"
            assert table.shown.loc[line, "mnist"] == expected
    assert table.shown.index.is_unique
    assert set(comparison.notes) <= set(table.notes)
    of_paper = table.numbers.query("of == 'paper' and task == 'mnist'")
    assert (of_paper["mean"] <= 1).all()


@pytest.mark.parametrize(("name", "comparison"), ALL, ids=IDS)
def test_differences_are_first_minus_second(
    name: str, comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = make(name, comparison, tmp_path, monkeypatch)
    fill(section, level)
    table = tables.differences_table(section, comparison)
    numbers = table.numbers.query("task == 'mnist'")
    assert list(zip(numbers["arm"], numbers["minus"], strict=True)) == list(comparison.pairs)
    places = list(ARMS)
    expected = [places.index(b) - places.index(a) for a, b in comparison.pairs]
    assert list(numbers["effect"]) == pytest.approx(expected)
    printed = [comparison.effect(a, b, "mnist") for a, b in comparison.pairs]
    assert [None if v != v else v for v in numbers["paper"].astype(float)] == printed


def test_what_is_not_planned_is_not_a_difference_that_was_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks without any of the pairs are left out; one that lacks an arm has a dash there."""
    section = make("transfer", COMPARISONS["transfer"], tmp_path, monkeypatch)
    planned = {
        "bit-xor": ("fpt", "random", "lstm"),
        "mnist": ("fpt", "random"),
        "cifar10": ("fpt",),
    }
    runs = tuple(run for run in section.runs if run.arm in planned.get(run.task, ()))
    section = replace(section, runs=runs)
    shown = tables.differences_table(section, COMPARISONS["transfer"]).shown
    assert {name: list(row) for name, row in shown.iterrows() if "paper" not in str(name)} == {
        "FPT minus Frozen random": ["not run", "not run"],
        "FPT minus LSTM (layer norm)": ["not run", "–"],
    }
    figure = dots.differences(section, COMPARISONS["transfer"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["bit-xor", "mnist"]
    assert list(shown.columns) == ["bit-xor (fitting)", "mnist"]


def verdicts(name: str, levels: dict[str, float], task: str) -> dict[str, str]:
    """Verdicts on one task where every arm's three runs lie close around its level."""
    cells = {
        (arm, task): Cell(arm, task, (at - 0.001, at, at + 0.001), 3) for arm, at in levels.items()
    }
    found = claims.examine(claims.CLAIMS[name], Evidence(cells, {task: 0.1}), [task])
    return {finding.claim.id: finding.verdict.label for finding in found}


def test_verdicts_on_initialization_follow_the_data() -> None:
    arms = COMPARISONS["initialization"].arms
    papers = dict.fromkeys(arms, 0.8) | {"fpt": 0.98, "random": 0.70, "random-scaled": 0.70}
    found = verdicts("initialization", papers, "mnist")
    assert set(found) == {claim.id for claim in claims.CLAIMS["initialization"]} - {
        "statistics-hurt"
    }
    assert set(found.values()) == {"supported"}
    assert verdicts("initialization", papers, "cifar10")["statistics-hurt"] == "contradicted"
    turned = {arm: 1.5 - level for arm, level in papers.items()}
    found = verdicts("initialization", turned, "mnist")
    assert found.pop("defaults-match") == "supported"
    assert set(found.values()) == {"contradicted"}
    # The paper's rows are equal on bit-xor.
    assert "beats-statistics-tensor" not in verdicts("initialization", papers, "bit-xor")


def test_verdicts_on_finetuning_follow_the_data() -> None:
    arms = COMPARISONS["successive"].arms
    levels = {arm: 0.5 for name in SECTIONS["finetuning"] for arm in COMPARISONS[name].arms}
    levels |= {"output+layernorm": 0.7, "random-output+layernorm": 0.7, "fpt": 0.8, "random": 0.8}
    levels |= {"fpt+feedforward": 0.85, "fpt+feedforward+last-attention": 0.9}
    levels |= {"fpt+attention": 0.6}
    assert set(arms) <= set(levels)
    found = verdicts("finetuning", levels, "cifar10")
    parts = {
        claim.id
        for claim in claims.CLAIMS["finetuning"]
        if claim.covers("cifar10") and "input-" not in claim.id
    }
    assert set(found) >= parts
    found = {claim: label for claim, label in found.items() if claim in parts}
    assert set(found.values()) == {"supported"}
    found = verdicts("finetuning", {arm: 1.3 - at for arm, at in levels.items()}, "cifar10")
    assert {found[claim] for claim in parts} == {"contradicted"}
    # On bit-memory the paper's input net does more than its layer norms; T14 has one task.
    found = verdicts("finetuning", levels, "bit-memory")
    assert "layernorm-over-input" not in found
    assert "last-attention-helps" not in found


# --------------------------------------------------------------------------------------- dot plots

DRAW = [dots.accuracies, dots.differences]


@pytest.mark.parametrize("draw", DRAW)
@pytest.mark.parametrize(("name", "comparison"), ALL, ids=IDS)
def test_no_text_lies_on_another(
    name: str,
    comparison: Comparison,
    draw: Callable[[Section, Comparison], Figure],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = make(name, comparison, tmp_path, monkeypatch)
    fill(section, lambda run: level(run) if run.task != "mnist" else None)
    found = texts(draw(section, comparison))
    boxes = [text.get_window_extent().shrunk(0.9, 0.8) for text in found]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    words = [text.get_text() for text in found]
    if draw is dots.accuracies:
        rows = [comparison.printed(arm, "mnist") for arm in comparison.arms]
    else:
        rows = [comparison.effect(a, b, "mnist") for a, b in comparison.pairs]
    # All of mnist: a panel for what the paper printed, else no more than its name.
    empty = all(value is None for value in rows)
    assert words.count("not run") == (0 if empty else len(rows))
    assert any(word.endswith("(not run: mnist)") for word in words) == empty


@pytest.mark.parametrize("draw", DRAW)
def test_equal_records_give_equal_files(
    draw: Callable[[Section, Comparison], Figure], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = COMPARISONS["layernorm"]
    section = make("finetuning", comparison, tmp_path, monkeypatch)
    fill(section, level)
    pictures = [outputs.save_figure(section, "f", draw(section, comparison)) for _ in range(2)]
    assert pictures[0].png == pictures[1].png
