"""What sections declare: arms in a table, comparisons with the paper's numbers."""

from dataclasses import replace

import pytest
import yaml

from fpt import config
from fpt.claims.claim import KINDS, claims
from fpt.errors import FptError
from fpt.paper import reader as paper
from fpt.project import PROFILES, project
from fpt.sections import NAMES, declared
from fpt.sections.arms import ARMS, FROZEN, arm, label
from fpt.training.settings import check_choices

COMPARISONS = {name: declared(name).comparisons for name in NAMES}


def planned(profile):
    sections = yaml.safe_load(project().params.read_text())[profile]["sections"]
    return {name for blocks in sections.values() for block in blocks for name in block["arms"]}


def test_a_row_says_what_differs_from_fpt():
    """Rows of every kind: layers, initialisation, groups that are trained, weights, input net."""
    fpt = arm("fpt")
    assert (fpt.role, fpt.init, fpt.trainable, fpt.weights) == (
        *("transformer", "pretrained", FROZEN, "language"),
    )
    two = arm("random-output+layernorm@2")
    assert (two.role, two.init, two.trainable) == ("depth-2", "random", ("layernorm", "output"))
    assert replace(arm("full@3"), name="full", label=label("full"), layers=0) == arm("full")
    assert arm("full").trainable is None
    assert arm("fpt+feedforward").trainable == (*FROZEN, "feedforward")
    assert (arm("fpt-bits").weights, arm("fpt-bits").role) == ("bit-memory", "transformer")
    assert arm("statistics-dyck").init == "statistics-tensor"
    assert arm("frozen-input-normal").input_init == "normal"


@pytest.mark.parametrize("name", ["", "ftp", "fpt-englsh", "random-", "fpt@x"])
def test_other_names_are_refused_with_the_nearest(name):
    with pytest.raises(FptError, match="is no arm.*arms.yaml"):
        arm(name)
    if name == "fpt-englsh":
        with pytest.raises(FptError, match="fpt-english"):
            arm(name)


def test_every_row_is_an_arm_that_a_run_can_be():
    for row in ARMS.values():
        check_choices(row.name, vars(row))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_arm_of_a_section_is_compared_there(profile):
    """No run is trained that no table shows."""
    loaded = config.load(profile)
    for name, comparisons in COMPARISONS.items():
        compared = {arm for comparison in comparisons for arm in comparison.arms}
        trained = {arm for block in loaded.sections[name] for arm in block["arms"]}
        assert trained <= compared, name


def test_labels_tell_arms_apart():
    arms = sorted(set().union(*map(planned, PROFILES)))
    assert len({label(name) for name in arms}) == len(arms)


def test_pairs_are_of_arms_that_are_compared():
    for comparisons in COMPARISONS.values():
        for comparison in comparisons:
            assert {arm for pair in comparison.pairs for arm in pair} <= {*comparison.arms}
        names = [comparison.name for comparison in comparisons]
        assert len(set(names)) == len(names)


def test_every_registered_claim_is_reported_in_a_section():
    registered = {claim.name for kind in KINDS for claim in claims(kind)}
    assert registered == {name for section in NAMES for name in declared(section).claims}


def test_the_papers_numbers_stand_beside_their_arms():
    results = {name: comparisons[0] for name, comparisons in COMPARISONS.items() if comparisons}
    assert results["transfer"].printed("fpt", "cifar10") == 72.1
    assert results["transfer"].printed("fpt", "cifar10", "random") == 68.2  # both from T2
    assert results["transfer"].effect("fpt", "random", "mnist") == pytest.approx(6.3)
    assert results["transfer"].printed("lstm-released", "mnist") == 99.5
    assert results["transfer"].printed("full-pretrained", "mnist") is None
    assert results["scaling"].printed("random-larger", "cifar10") == 64.0
    assert results["scaling"].printed("random-larger", "mnist") is None
    finetuning = {comparison.name: comparison for comparison in COMPARISONS["finetuning"]}
    depth = finetuning["depth_output"]
    assert depth.printed("output@3", "listops") == 18
    assert depth.printed("random-output@24", "listops") == 17


def test_every_cell_of_the_papers_tables_of_accuracies_has_a_place():
    for name, table in paper.tables().items():
        if not name[1:].isdigit() or name in ("T6", "T7", "T8"):
            continue
        for (row, column), cell in table.cells.items():
            placed = any(
                name in comparison.paper
                and comparison.row(arm) == row
                and (not comparison.task or comparison.columns.get(arm) == column)
                for comparisons in COMPARISONS.values()
                for comparison in comparisons
                for arm in comparison.arms
            )
            assert placed or cell.value is None, (name, row, column)
