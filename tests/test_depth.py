"""Accuracy by number of layers as a table and a figure, and what is claimed of it."""

from pathlib import Path

import pytest
from profiled import clashes, fill, section_of, texts, verdicts

from fpt.paper import reader as paper
from fpt.report import depth
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section

pytestmark = pytest.mark.usefixtures("matrix")

NORMS, OUTPUT = COMPARISONS["depth_layernorm"], COMPARISONS["depth_output"]


def level(arm: str) -> float:
    """Better with each layer, pretrained better than random; without a name, the whole body."""
    layers = int(arm.partition("@")[2] or 12)
    return 0.2 + 0.01 * layers + (0.0 if arm.startswith("random") else 0.1)


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """Listops alone: nothing else is read."""
    return section_of("finetuning", "lab", tmp_path, monkeypatch).part(["listops"])


def test_a_part_of_a_section_has_its_runs_alone(section: Section) -> None:
    assert {run.task for run in section.runs} == {"listops"}
    arms = section.part(["listops"], OUTPUT.arms)
    assert {run.arm for run in arms.runs} < {run.arm for run in section.runs}
    assert {run.arm for run in arms.runs} <= set(OUTPUT.arms)
    assert section.part(["mnist"]).runs == ()
    assert arms.folder == section.folder
    assert arms.name == section.name


def test_cells_stand_at_their_depth(section: Section) -> None:
    fill(section, {arm: level(arm) for arm in NORMS.arms if arm != "random-output+layernorm@2"})
    table = depth.depth_table(section, NORMS)
    # Ours has four layers, the paper 1, 2 and 6 of its twelve.
    assert list(table.shown.columns) == ["1", "2", "3", "4", "6"]
    assert table.shown.loc["pretrained", "1"].startswith("31.2 ±")
    assert table.shown.loc["random", "3"].startswith("23.2 ±")
    assert table.shown.loc["pretrained", "4"].startswith("42.2 ±")
    assert table.shown.loc["pretrained", "6"] == "–"
    assert table.shown.loc["random", "2"] == "not run"
    assert table.shown.loc["pretrained minus random", "2"] == "not run"
    assert table.shown.loc["pretrained minus random", "3"].startswith("+10.0 [")
    assert table.shown.loc["pretrained minus random", "6"] == "–"
    for start in ("fpt", "random"):
        row = table.shown.loc[f"paper, T11: {start}"]
        for column in ("1", "2", "6"):
            assert row[column] == f"{paper.cell('T11', start, f'layers-{column}').value:.3g}"
        assert row["3"] == "–"
    assert "21 of 24 runs are present" in table.notes[0]
    ours = table.numbers.query("of == 'ours' and start == 'pretrained' and layers == 3").iloc[0]
    assert ours["mean"] == pytest.approx(0.332)
    assert ours["low"] < ours["mean"] < ours["high"]


def test_the_paper_has_cells_without_ours(section: Section) -> None:
    table = depth.depth_table(section, OUTPUT)
    assert list(table.shown.columns) == ["1", "2", "3", "4", "6", "12", "24"]
    assert table.shown.loc["paper, T12: fpt"].tolist() == ["12", "–", "18", "–", "33", "33", "–"]
    assert table.shown.loc["paper, T12: random"].tolist() == [*["–"] * 5, "17", "17"]
    assert table.shown.loc["random"].tolist() == [*["not run"] * 4, *["–"] * 3]


def test_no_number_of_the_paper_stands_on_another_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("finetuning", "lab", tmp_path, monkeypatch).part(["bit-xor"])
    table = depth.depth_table(section, NORMS)
    assert list(table.shown.index) == ["pretrained", "random", "pretrained minus random"]
    assert list(table.shown.columns) == ["4"]
    assert set(table.numbers["of"]) == {"ours"}
    (panel,) = depth.depth_figure(section, [NORMS]).axes
    assert panel.get_title(loc="left").startswith("bit-xor: ")
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["4"]


def test_the_papers_own_depths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = section_of("finetuning", "paper", tmp_path, monkeypatch)
    assert list(depth.by_depth(section, OUTPUT, "random")) == [1, 2, 3, 6, 12, 24]
    assert list(depth.by_depth(section, OUTPUT, "pretrained")) == [1, 2, 3, 6, 12]


def test_the_figure_says_what_is_not_run(section: Section) -> None:
    absent = ("random-output@2", "output")
    arms = dict.fromkeys((*NORMS.arms, *OUTPUT.arms))
    fill(section, {arm: level(arm) for arm in arms if arm not in absent})
    figure = depth.depth_figure(section, [NORMS, OUTPUT])
    found = texts(figure)
    said = [text.get_text() for text in found]
    assert said.count("not run") == len(absent)
    assert not clashes(found)
    assert "listops: output net and layer norms trained" in said
    assert "listops: output net alone trained" in said
    assert {"pretrained body", "random body", "the paper"} <= set(said)


def test_verdicts_on_depth_follow_the_data() -> None:
    judged = [c for c in claims.CLAIMS["finetuning"] if c.source in ("T11", "T12")]
    papers = {
        "output+layernorm@1": 0.17, "output+layernorm@2": 0.36, "output+layernorm@6": 0.38,
        "random-output+layernorm@1": 0.17, "random-output+layernorm@2": 0.16,
        "random-output+layernorm@6": 0.35, "output@1": 0.12, "output@3": 0.18, "output@6": 0.33,
        "output": 0.33, "random-output": 0.17, "random-output@24": 0.17,
    }  # fmt: skip
    found = verdicts(judged, papers, "listops")
    assert set(found) == {claim.id for claim in judged}
    assert set(found.values()) == {"supported"}
    turned = verdicts(judged, {arm: 0.5 - at for arm, at in papers.items()}, "listops")
    assert {
        turned.pop(name) for name in ("one-layer-is-not-enough", "random-depth-is-no-help")
    } == {"supported"}
    assert set(turned.values()) == {"contradicted"}
    apart = papers | {"output+layernorm@1": 0.30, "random-output@24": 0.30}
    found = verdicts(judged, apart, "listops")
    assert found["one-layer-is-not-enough"] == "contradicted"
    assert found["random-depth-is-no-help"] == "contradicted"
    assert not verdicts(judged, papers, "mnist")


def test_verdicts_on_the_input_follow_the_data() -> None:
    judged = [c for c in claims.CLAIMS["finetuning"] if "input-" in c.id]
    said = {
        "fpt": 0.6, "input-default": 0.61, "input-normal": 0.59, "frozen-input-orthogonal": 0.55,
        "frozen-input-default": 0.4, "frozen-input-normal": 0.3,
    }  # fmt: skip
    assert set(said) == set(COMPARISONS["input"].arms)
    for task in ("mnist", "cifar10", "digits"):
        found = verdicts(judged, said, task)
        assert set(found) == {claim.id for claim in judged}
        assert set(found.values()) == {"supported"}
    turned = said | {"input-default": 0.2, "input-normal": 0.2, "frozen-input-orthogonal": 0.2}
    assert set(verdicts(judged, turned, "mnist").values()) == {"contradicted"}
    assert not verdicts(judged, said, "listops")


def test_a_claim_is_judged_where_its_arms_are(section: Section) -> None:
    """In the smoke profile ListOps has the depths alone."""
    fill(section, {arm: level(arm) for arm in OUTPUT.arms})
    assert {f.task for f in claims.section_findings(section) if f.claim.source == "T12"} == {
        "listops"
    }


def test_a_claim_leaves_out_tasks_without_its_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("finetuning", "smoke", tmp_path, monkeypatch)
    places: dict[str, set[str]] = {}
    for claim in claims.applicable(section):
        places[claim.id] = {task for task in ("digits", "listops") if claim.covers(task)}
    assert places["frozen-input-orthogonal-over-default"] == {"digits"}
    assert places["layernorm-over-input"] == set()  # the paper has neither task with that lead
    assert places["two-layers-mix"] == {"listops"}
    # It has no body of 24 layers: kept, and not run.
    assert places["random-depth-is-no-help"] == {"listops"}
