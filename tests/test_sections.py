"""What sections declare: arms whose names compose, comparisons with the paper's numbers."""

from dataclasses import replace

import pytest
import yaml

from fpt import config
from fpt.analysis.claims import KINDS, claims
from fpt.files import PARAMS, PROFILES, FptError
from fpt.paper import reader as paper
from fpt.sections import NAMES, declared
from fpt.sections.arms import FROZEN, arm, label

COMPARISONS = {name: declared(name).comparisons for name in NAMES}


def planned(profile: str) -> set[str]:
    sections = yaml.safe_load(PARAMS.read_text())[profile]["sections"]
    return {name for blocks in sections.values() for block in blocks for name in block["arms"]}


def test_names_compose() -> None:
    two = arm("random-output+layernorm@2")
    assert (two.backbone, two.init) == ("depth-2", "random")
    assert two.trainable == ("layernorm", "output")
    assert two.label == "random: output+layernorm, 2 layers"
    assert arm("full@3") == replace(
        arm("full"), name="full@3", label=label("full@3"), backbone="depth-3"
    )
    assert arm("fpt+feedforward").trainable == (*FROZEN, "feedforward")
    assert arm("fpt-bert").weights == "bert"
    assert (arm("fpt-bits").weights, arm("fpt-bits").backbone) == ("bit-memory", "transformer")
    assert arm("statistics-dyck").init == "statistics-tensor"
    assert arm("full-dyck").trainable is None
    assert arm("frozen-input-normal").input_init == "normal"
    assert "input" not in arm("frozen-input-normal").trainable


@pytest.mark.parametrize(
    "name",
    ["", "ftp", "random-", "fpt-lstm-deep", "output+", "fpt+input", "fpt@x", "random-english"],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(FptError, match="is no arm"):
        arm(name)


def test_a_misspelt_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(FptError, match="did you mean .*fpt-english"):
        arm("fpt-englsh")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_arm_of_a_section_is_compared_there(profile: str) -> None:
    """No run is trained that no table shows."""
    loaded = config.load(profile)
    for name, its in COMPARISONS.items():
        shown = {arm for comparison in its for arm in comparison.arms}
        there = {arm for block in loaded.sections[name] for arm in block["arms"]}
        assert there <= shown, name


def test_labels_tell_arms_apart() -> None:
    arms = sorted(set().union(*map(planned, PROFILES)))
    assert len({label(name) for name in arms}) == len(arms)


def test_pairs_are_of_arms_that_are_compared() -> None:
    for its in COMPARISONS.values():
        for comparison in its:
            assert {arm for pair in comparison.pairs for arm in pair} <= {*comparison.arms}
            assert len({it.name for it in its}) == len(its)


def test_every_registered_claim_is_reported_in_a_section() -> None:
    known = {it.name for kind in KINDS for it in claims(kind)}
    reported = [name for section in NAMES for name in declared(section).claims]
    assert set(reported) == known


def test_the_papers_numbers_stand_beside_their_arms() -> None:
    results = {name: its[0] for name, its in COMPARISONS.items() if its}
    assert results["transfer"].printed("fpt", "cifar10") == 72.1
    assert results["transfer"].printed("fpt", "cifar10", "random") == 68.2  # both from T2
    assert results["transfer"].effect("fpt", "random", "mnist") == pytest.approx(6.3)
    assert results["transfer"].printed("lstm-released", "mnist") == 99.5
    assert results["transfer"].printed("full-pretrained", "mnist") is None
    assert results["scaling"].printed("random-larger", "cifar10") == 64.0
    assert results["scaling"].printed("random-larger", "mnist") is None
    depth = {it.name: it for it in COMPARISONS["finetuning"]}["depth_output"]
    assert depth.printed("output@3", "listops") == 18
    assert depth.printed("random-output@24", "listops") == 17


def test_every_cell_of_the_papers_tables_of_accuracies_has_a_place() -> None:
    for name, table in paper.tables().items():
        if not name[1:].isdigit() or name in ("T6", "T7", "T8"):
            continue
        for (row, column), cell in table.cells.items():
            placed = any(
                name in it.paper
                and it.row(arm) == row
                and (not it.task or it.columns.get(arm) == column)
                for its in COMPARISONS.values()
                for it in its
                for arm in it.arms
            )
            assert placed or cell.value is None, (name, row, column)
