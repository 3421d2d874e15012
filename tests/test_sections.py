"""What sections declare: arms in a table, comparisons with the paper's numbers."""

import pytest
import yaml
from refusals import refuses

from fpt import config
from fpt.claims.claim import KINDS, claims
from fpt.project import PROFILES, project
from fpt.sections import NAMES, arms, declared
from fpt.sections.arms import FROZEN, arm, label

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


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"label": "Mine", "int": "random"}, "'int' is not known"),
        ({"init": "random"}, "label missing"),
        ("Mine", "expected settings by name"),
        ({"label": "Mine", "init": "statistics-tensr"}, "did you mean statistics-tensor"),
        ({"label": "Mine", "procedure": "sdg"}, "did you mean sgd"),
        ({"label": "Mine", "trainable": "output"}, "expected a list"),
        ({"label": "Mine", "trainable": ["outputs"]}, "did you mean output"),
    ],
)
def test_a_row_that_no_run_can_be_is_refused(row, words, monkeypatch):
    """It was trained as another arm, or ended in a traceback."""
    monkeypatch.setattr(arms, "read_yaml", lambda path: {"arms": {"mine": row}})
    refuses(lambda: list(arms.rows()), "'mine'", words)


def test_a_section_that_is_not_declared_says_where_to():
    refuses(lambda: declared("mine"), "'mine' is not declared", "notebooks.py")


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
