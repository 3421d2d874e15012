"""What bodies were pretrained on, and the cells that this gives away."""

import json
from pathlib import Path

import pytest
from profiled import clashes, fill, section_of, texts, verdicts

from fpt.analysis import provenance as origins
from fpt.backbones import weights
from fpt.pretraining.ensure import plan_of
from fpt.report import dots, tables
from fpt.report.table import label, si
from fpt.sections import claims
from fpt.sections.comparisons import COMPARISONS
from fpt.sections.section import Section
from fpt.tasks import get_task

pytestmark = pytest.mark.usefixtures("matrix")

MODALITY = COMPARISONS["modality"]
LEVELS = {"fpt": 0.9, "random": 0.6, "fpt-bits": 0.8, "fpt-vit": 0.7, "random-vit": 0.5}
GIVEN = {("fpt-bits", "bit-memory"), ("fpt-vit", "cifar10"), ("fpt-vit", "cifar10-lra")}
BITS, VIT = label("fpt-bits"), label("fpt-vit")


@pytest.fixture
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    return section_of("modality", "lab", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("weights", "task", "given"),
    [
        ("vit-nano-cifar10-0", "cifar10", True),
        ("vit-nano-cifar10-0", "cifar10-lra", True),  # the same photographs and labels
        ("vit-nano-cifar10-0", "mnist", False),
        ("vit-nano-shapes-0", "cifar10", False),
        ("vit-nano-shapes-3", "shapes", True),
        ("nano-bit-memory-0", "bit-memory", True),
        ("nano-bit-memory-0", "bit-xor", False),
        ("nano-english-0", "listops", False),
    ],
)
def test_what_a_body_gives_away(weights: str, task: str, given: bool) -> None:
    assert origins.gives_away(plan_of(weights), get_task(task)) is given


def test_a_part_of_the_data_is_given_away_too() -> None:
    assert origins.gives_away(plan_of("vit-nano-cifar10-0"), get_task("cifar10", train=100))
    assert origins.gives_away(plan_of("nano-bit-memory-0"), get_task("bit-memory", n=100))


@pytest.mark.parametrize(
    ("profile", "given"),
    [("smoke", set()), ("lab", GIVEN), ("paper", {("fpt-bits", "bit-memory")})],
)
def test_the_cells_of_a_profile_that_are_given_away(
    profile: str,
    given: set[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section = section_of("modality", profile, tmp_path, monkeypatch)
    assert origins.taught(section) == given
    shown = origins.origins_table(section).shown
    for arm in MODALITY.arms:
        columns = sorted(task for name, task in given if name == arm)
        assert shown.loc[label(arm), "labels of"] == (", ".join(columns) or "–")
    assert shown.loc[label("random"), "data"] == "none: drawn for each seed"
    assert shown.loc[label("fpt"), "predicted"] == "next token"
    assert shown.loc[VIT, "predicted"] == "labels"
    assert (shown.loc[label("fpt"), "attends"], shown.loc[VIT, "attends"]) == (
        "causal",
        "all to all",
    )


def test_numbers_come_from_beside_the_weights(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert origins.origins_table(section).shown.loc[label("fpt"), "tokens"] == "21 M"  # it ships
    monkeypatch.setattr(weights, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    shown = origins.origins_table(section).shown
    assert shown.loc[VIT, "tokens"] == f"{si(plan_of('vit-nano-cifar10-0').tokens)} planned"
    assert shown.loc[VIT, "held out"] == "weights not here"
    folder = tmp_path / "backbones" / "vit-nano-cifar10-0"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    floors = {"majority": 0.1, "linear classifier": 0.4, "masked bits: chance": 0.99}
    content = {"tokens": 61_000_000, "test_accuracy": 0.6543, "floors": floors}
    (folder / "pretraining.json").write_text(json.dumps(content))
    table = origins.origins_table(section)
    assert table.shown.loc[VIT, "tokens"] == "61 M"
    assert table.shown.loc[VIT, "held out"] == "65.4% (40.0)"
    assert table.shown.loc[VIT, "data"] == "cifar10"
    row = table.numbers.set_index("arm").loc["fpt-vit"]
    assert (row["tokens"], row["test_accuracy"]) == (61_000_000, 0.6543)
    assert table.shown.loc[label("fpt"), "tokens"] == "21 M planned"


def test_marks_are_where_answers_were_given(section: Section) -> None:
    fill(section, LEVELS)
    plain = tables.results_table(section, MODALITY)
    table = origins.marked(section, plain)
    marked = {
        (arm, task)
        for arm in MODALITY.arms
        for task in table.shown.columns
        if origins.MARK in table.shown.loc[label(arm), task]
    }
    assert marked == GIVEN
    assert table.shown.replace(rf" {origins.MARK}", "", regex=True).equals(plain.shown)
    assert not plain.shown.apply(lambda column: column.str.contains(origins.MARK)).any().any()
    assert origins.MARK in table.notes[-1]
    effects = origins.marked(section, tables.differences_table(section, MODALITY)).shown
    assert origins.MARK in effects.loc[f"FPT minus {VIT}", "cifar10"]
    assert origins.MARK in effects.loc[f"{BITS} minus {label('random')}", "bit-memory"]
    assert origins.MARK not in effects.loc[f"FPT minus {VIT}", "mnist"]
    assert origins.MARK not in effects.loc[f"FPT minus {label('random')}", "cifar10"]


def test_nothing_is_marked_where_nothing_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = section_of("modality", "smoke", tmp_path, monkeypatch)
    fill(section, LEVELS)
    table = tables.results_table(section, MODALITY)
    same = origins.marked(section, table)
    assert same.shown.equals(table.shown)
    assert same.notes == table.notes
    figure = origins.marked_figure(section, dots.accuracies(section, MODALITY))
    assert not any(origins.MARK in text.get_text() for text in texts(figure))


def test_figures_have_the_marks(section: Section) -> None:
    fill(section, LEVELS)
    drawn = [
        (dots.accuracies(section, MODALITY), len(GIVEN)),
        (dots.differences(section, MODALITY), 2 + 2 * 2),
    ]
    for figure, count in drawn:
        found = texts(origins.marked_figure(section, figure))
        assert sum(text.get_text() == origins.MARK for text in found) == count
        assert not clashes(found)


def test_no_claim_is_judged_on_what_was_given(section: Section) -> None:
    judged = {
        (claim.id, task)
        for claim in claims.applicable(section)
        for task in {run.task for run in section.runs}
        if claim.covers(task)
    }
    said = {
        (claim.id, task)
        for claim in claims.CLAIMS["modality"]
        for task in {run.task for run in section.runs}
        if claim.covers(task)
    }
    assert judged < said
    dropped = {
        (claim.id, task)
        for claim in claims.CLAIMS["modality"]
        for arm, task in GIVEN
        if arm in claim.arms and claim.covers(task)
    }
    assert said - judged == dropped
    assert ("images-lead-on-images", "cifar10") in dropped
    assert ("bits-help", "bit-memory") in dropped
    fill(section, LEVELS)
    found = {(finding.claim.id, finding.task) for finding in claims.section_findings(section)}
    assert found == judged


def test_verdicts_on_modality_follow_the_data() -> None:
    judged = list(claims.CLAIMS["modality"])
    papers = {  # table 2, with a random ViT as good as the random transformer
        "cifar10": {"fpt": 0.682, "random": 0.617, "fpt-bits": 0.655, "fpt-vit": 0.725},
        "homology": {"fpt": 0.157, "random": 0.123, "fpt-bits": 0.078, "fpt-vit": 0.075},
        "listops": {"fpt": 0.42, "random": 0.343, "fpt-bits": 0.38, "fpt-vit": 0.38},
    }
    covered = {
        "cifar10": {"language-over-bits", "images-lead-on-images", "bits-help", "images-help"},
        "homology": {"language-over-bits", "language-over-images", "bits-hurt", "images-hurt"},
        "listops": {"language-over-bits", "language-over-images", "bits-help", "images-help"},
    }
    for task, levels in papers.items():
        found = verdicts(judged, levels | {"random-vit": 0.01}, task)
        assert set(found) == covered[task] | {"images-over-own-random"}
        assert set(found.values()) == {"supported"}, task
        turned = {arm: 0.9 - level for arm, level in levels.items()} | {"random-vit": 0.95}
        assert set(verdicts(judged, turned, task).values()) == {"contradicted"}
