"""What settings mean together, and what is a reader's own: by every door, what cannot be meant is
one sentence, and nothing is trained. Types and ranges are in test_config.py."""

from dataclasses import replace

import pytest
from made import make_plan
from refusals import refuses

import fpt
from fpt.names import ARMS, MODELS
from fpt.plan import plan

OF_A_RUN = [
    ({"steps": 0}, "steps must be bigger than or equal to 1, found 0"),
    ({"backbone": "nanoo"}, "no backbone"),
    ({"weights": None}, "'pretrained' starts from pretrained weights"),
    ({"procedure": "probe"}, "a probe fixes"),
]
OF_A_SECTION = [
    ({"steps": 2.5}, "settings.steps: expected a whole number from 1"),
    ({"lr": float("nan")}, "settings.lr: expected a number such as"),
    ({"stpes": 3}, "'stpes' is not known (did you mean steps"),
    ({"steps": 5}, "eval_every is 10, above the 5 steps"),
    ({"test_items": 2000}, "test_items is 2,000, and the set has 1,024"),
]


@pytest.fixture
def whole(project):
    return make_plan(project.root, tasks=["bit-xor"])


# Steps of 0 and a dropout of 2 once gave records that said “done”.
@pytest.mark.parametrize(("settings", "sentence"), OF_A_RUN)
def test_a_run_that_cannot_be_meant(settings, sentence, whole):
    run = whole.runs[0]
    changed = replace(run, spec=replace(run.spec, **settings))
    refuses(lambda: replace(whole, sections={"transfer": (changed,)}).train(), sentence)
    assert not whole.store_of(run).keys()


@pytest.mark.parametrize(("settings", "sentence"), OF_A_SECTION)
def test_a_change_of_a_section_that_cannot_be_meant(settings, sentence, whole):
    """As `fpt run transfer --set NAME=VALUE` asks for it."""
    refuses(lambda: plan("smoke", "transfer", **settings), sentence)


@pytest.mark.parametrize("settings", [{"init": "zeros"}, {"trainable": ()}, {"order": "reversed"}])
def test_an_own_arm_that_cannot_be_meant(settings):
    refuses(lambda: fpt.register_arm(fpt.Arm("mine", **settings)), "arm 'mine': ", *settings)
    assert "mine" not in ARMS


WEIGHTS = {
    "folder:x": "folder:NAME@DIGEST",
    "nano-english-0.": "letter or a digit",
    "nano-engilsh-0": "cannot be made here",
    "models/gpt2": "a path is not taken",
    "hub:a/b/c@main": "not of the form hub:OWNER/REPO@REVISION",
}


def test_an_own_model_that_cannot_be_meant():
    for weights, sentence in WEIGHTS.items():
        own = fpt.Model("mine", "nano", weights)
        refuses(lambda own=own: fpt.register_model(own), sentence)
    refuses(lambda: fpt.register_model(fpt.Model("mine", "nanoo")), "'nanoo'", "nano")
    assert "mine" not in MODELS


@pytest.mark.parametrize("weights", ["nano-mine", "mine", "folder:mine@0123456789abcdef"])
def test_weights_of_a_folder_that_is_here_may_have_any_name(weights, tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    monkeypatch.setattr("fpt.names.MODELS", {})
    (tmp_path / "nano-mine").mkdir()
    fpt.register_model(fpt.Model("mine", "nano", weights))
