"""What sections declare: arms in a table, comparisons with the paper's numbers."""

import pytest
import yaml

from fpt import config
from fpt.claims.claim import KINDS, claims
from fpt.project import PROFILES, project
from fpt.sections import NAMES, declared
from fpt.sections.arms import ARMS, FROZEN, arm, label
from fpt.training.settings import check_choices

COMPARISONS = {name: declared(name).comparisons for name in NAMES}


def planned(profile):
    sections = yaml.safe_load(project().params.read_text())[profile]["sections"]
    return {name for blocks in sections.values() for block in blocks for name in block["arms"]}


def test_a_row_says_what_differs_from_fpt():
    """Layers, initialisation, groups that are trained, weights."""
    two = arm("random-output+layernorm@2")
    assert (two.role, two.init, two.trainable) == ("depth-2", "random", ("layernorm", "output"))
    assert arm("full").trainable is None
    assert arm("fpt+feedforward").trainable == (*FROZEN, "feedforward")
    assert (arm("fpt-bits").weights, arm("fpt-bits").role) == ("bit-memory", "transformer")


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


def test_every_registered_claim_is_reported_in_a_section():
    registered = {claim.name for kind in KINDS for claim in claims(kind)}
    assert registered == {name for section in NAMES for name in declared(section).claims}


def test_an_arm_that_no_comparison_has_stands_in_the_first_table():
    first, *others = declared("transfer").comparisons
    own, *same = declared("transfer", ["norms-only", "fpt"]).comparisons
    assert own.arms == (*first.arms, "norms-only")
    assert (own.pairs, same) == (first.pairs, others)
