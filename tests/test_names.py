"""Models and arms by their one name: what a run is called follows from what it is."""

from dataclasses import replace

import pytest
from called import arm_of, model_of
from made import NANO, RANDOM, block_of, write_params
from refusals import refuses

import fpt
from fpt.backbones import BACKBONES
from fpt.config import load, make_spec
from fpt.names import ARMS, MODELS, Arm, Model, arm, model
from fpt.plan import plan


@pytest.mark.parametrize("tier", ["smoke", "hour", "weekend"])
def test_a_planned_run_is_called_what_its_plan_calls_it(tier):
    """That of each record is in test_sealed.py."""
    runs = plan(tier).runs
    assert len(runs) > 40
    for run in runs:
        assert (model_of(run.spec), arm_of(run.spec)) == (run.model, run.arm)


@pytest.fixture
def tier(project):
    write_params(project.root, block_of())
    return load("smoke")


@pytest.mark.parametrize("name", ARMS)
def test_each_arm_gives_a_run_that_has_its_name(name, tier):
    spec = make_spec(tier, NANO, name, "bit-xor", 0)
    assert (model_of(spec), arm_of(spec)) == (NANO, name)
    by_id = make_spec(tier, NANO, ARMS[name].id, "bit-xor", 0)
    assert by_id == spec


# The others are of packages and repositories that need not be here.
@pytest.mark.parametrize(
    "name", [name for name, row in MODELS.items() if row.backbone.split("@")[0] in BACKBONES]
)
def test_each_model_gives_a_run_that_has_its_name(name, tier):
    row = MODELS[name]
    spec = make_spec(tier, name, "language" if row.source else RANDOM, "bit-xor", 0)
    if row.source:
        # Whatever its seed and its number of tokens, it is of this corpus.
        assert spec.weights.startswith(row.weights)
    elif row.weights:  # of sealed runs: nobody plans others on these
        spec = replace(spec, init="pretrained", weights=f"{row.weights}@2M-1")
    assert model_of(spec) == name


@pytest.fixture
def registries(monkeypatch):
    """A test forgets what it registers."""
    monkeypatch.setattr("fpt.names.ARMS", dict(ARMS))
    monkeypatch.setattr("fpt.names.MODELS", dict(MODELS))


def test_what_is_registered_is_known_by_its_name(registries, tier):
    fpt.register_model(Model("mine", "nano@2", "nano-english-0"))
    fpt.register_arm(Arm("norms only", init="random", trainable=("layernorm",)))
    spec = make_spec(tier, "mine", "norms only", "bit-xor", 0)
    assert (spec.backbone, spec.init, spec.trainable) == ("nano@2", "random", ("layernorm",))
    assert arm_of(spec) == "norms only"
    assert make_spec(tier, "mine", "language", "bit-xor", 0).weights == "nano-english-0"


def test_a_name_is_of_one_row_and_a_wrong_one_names_the_nearest(registries):
    refuses(lambda: fpt.register_arm(Arm("language")), "'language' exists already")
    refuses(lambda: fpt.register_model(Model(NANO, "nano")), f"'{NANO}' exists already")
    refuses(lambda: arm("langauge"), "'langauge' is no arm", "language")
    refuses(lambda: model("nano GPT2"), "'nano GPT2' is no model", NANO)
