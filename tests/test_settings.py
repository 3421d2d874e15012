"""One validator of what a run may be: by every door, what cannot be meant is one sentence, and
nothing is trained."""

from dataclasses import replace

import pytest
from made import make_plan
from refusals import refuses
from test_config import written

import fpt
from fpt.config import expand, load
from fpt.names import ARMS, MODELS
from fpt.plan import plan
from fpt.training.settings import SETTINGS

WRONG = {
    "no step": ({"steps": 0}, ["steps", "from 1", "found 0"]),
    "half a step": ({"steps": 2.5}, ["steps", "2.5"]),
    "evaluated after the end": ({"steps": 5}, ["eval_every is 10, above the 5 steps"]),
    "dropout": ({"dropout": 2.0}, ["dropout", "from 0 to 0.99", "found 2.0"]),
    "a negative seed": ({"seed": -1}, ["seed", "from 0", "found -1"]),
    "procedure": ({"procedure": "adam"}, ["procedure: 'adam' is not known", "sgd, probe"]),
    "order": ({"order": "reversed"}, ["order: 'reversed' is not known", "given, shuffled"]),
    "init": ({"init": "zeros"}, ["init: 'zeros' is not known"]),
    "input net": ({"input_init": "zeros"}, ["input_init: 'zeros'", "orthogonal, default, normal"]),
    "nothing trained": ({"trainable": ()}, ["expected a list"]),
    "a group as a word": ({"trainable": "output"}, ["expected a list"]),
    "an unknown group": ({"trainable": ("outptu",)}, ["'outptu' is not known", "output"]),
    "a group of an LSTM": ({"trainable": ("recurrent",)}, ["'recurrent'", "nano"]),
    "a backbone": ({"backbone": "nanoo"}, ["no backbone", "'nanoo'", "nano"]),
    "weights for none": ({"init": "random"}, ["'random' reads no weights"]),
    "no weights": ({"weights": None}, ["'pretrained' needs weights, found None"]),
    "a larger test": ({"test_items": 2000}, ["test_items is 2,000", "has 1,024 examples"]),
    "a probe at a rate": ({"procedure": "probe"}, ["a probe fixes", "lr"]),
}


@pytest.fixture
def whole(project, monkeypatch):
    def trained(*arguments, **options):
        raise AssertionError("something is trained")

    monkeypatch.setattr("fpt.training.sweep.run", trained)
    return make_plan(project.root, tasks=["bit-xor"])


# Steps of 0 and a dropout of 2 once gave records that said “done”.
@pytest.mark.parametrize("how", WRONG)
def test_a_change_that_cannot_be_meant(whole, how):
    settings, sentence = WRONG[how]
    run = whole.runs[0]
    changed = replace(run, spec=replace(run.spec, **settings))
    refuses(lambda: replace(whole, sections={"transfer": (changed,)}).train(), *sentence)


@pytest.mark.parametrize(
    "how", [how for how, (settings, _) in WRONG.items() if SETTINGS.keys() >= settings.keys()]
)
def test_the_same_of_a_section(whole, how):
    """As `fpt run transfer --set NAME=VALUE` asks for it."""
    settings, sentence = WRONG[how]
    refuses(lambda: plan("smoke", "transfer", **settings), *sentence)


CHOICES = (
    "procedure", "order", "init", "nothing trained", "a group as a word", "an unknown group",
)  # fmt: skip


@pytest.mark.parametrize("how", CHOICES)
def test_an_own_arm_that_cannot_be_meant(how):
    settings, sentence = WRONG[how]
    refuses(lambda: fpt.register_arm(fpt.Arm("mine", **settings)), "'mine'", *sentence)
    assert "mine" not in ARMS


WEIGHTS = {
    "folder:x": "folder:NAME@DIGEST",
    "nano-english-0.": "letter or a digit",
    "nano-engilsh-0": "cannot be made here",
    "nano-english": "cannot be made here",
    "models/gpt2": "a path is not taken",
    "hub:a/b/c@main": "not of the form hub:OWNER/REPO@REVISION",
}


@pytest.mark.parametrize("weights", WEIGHTS)
def test_an_own_model_of_weights_that_cannot_be_meant(weights):
    own = fpt.Model("mine", "nano", weights)
    refuses(lambda: fpt.register_model(own), WEIGHTS[weights])
    refuses(lambda: fpt.register_model(fpt.Model("mine", "nanoo")), "'nanoo'", "nano")
    assert "mine" not in MODELS


def test_weights_of_a_folder_that_is_here_may_have_any_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    (tmp_path / "nano-mine").mkdir()
    for weights in ("nano-mine", "mine", "folder:mine@0123456789abcdef"):
        with monkeypatch.context() as patch:
            patch.setattr("fpt.names.MODELS", {})
            fpt.register_model(fpt.Model("mine", "nano", weights))


PARAMS = {
    "fewer steps of a section": (
        {"smoke__sections__transfer__0__steps": 10},
        ["language on bit-xor: eval_every is 20, above the 10 steps"],
    ),
    "a larger test": (
        {"smoke__tasks__bit-xor__test_items": 2000},
        ["smoke.tasks.bit-xor: test_items is 2,000", "1,024"],
    ),
}


@pytest.mark.parametrize("how", PARAMS)
def test_parameters_that_cannot_be_meant(tmp_path, how):
    changes, sentence = PARAMS[how]
    path = written(tmp_path, **changes)
    refuses(lambda: expand(load("smoke", path), "transfer"), *sentence)


def test_a_number_of_examples_in_defaults_is_a_bound(tmp_path):
    """They are for sets of all sizes."""
    bounds = {"smoke__defaults__test_items": 300, "smoke__defaults__eval_items": 300}
    specs = {
        run.task: run.spec for run in expand(load("smoke", written(tmp_path, **bounds)), "transfer")
    }
    assert (specs["bit-xor"].test_items, specs["bit-xor"].eval_items) == (300, 300)
    assert (specs["digits"].test_items, specs["digits"].eval_items) == (
        300,
        0,
    )  # it has 200
