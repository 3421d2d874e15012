"""One validator of what a run may be: by every door, what cannot be meant is one sentence, and
nothing is trained."""

from dataclasses import replace

import pytest
from made import make_study
from refusals import refuses
from test_config import written

import fpt
from fpt import config
from fpt.analysis import study as studies
from fpt.config import expand, load
from fpt.sections.arms import ARMS

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
def study(tmp_path, monkeypatch):
    def trained(*arguments):
        raise AssertionError("something is trained")

    monkeypatch.setattr(studies, "train", trained)
    return make_study(tmp_path, tasks=["bit-xor"])


# Steps of 0 and a dropout of 2 once gave records that said “done”.
@pytest.mark.parametrize("how", WRONG)
def test_a_change_that_cannot_be_meant(study, how):
    settings, sentence = WRONG[how]
    refuses(lambda: study.change("fpt", "bit-xor", **settings), *sentence)


@pytest.mark.parametrize(
    "how", [how for how, (settings, _) in WRONG.items() if config.SETTINGS.keys() > settings.keys()]
)
def test_the_same_of_a_section(study, how, monkeypatch, tmp_path):
    """As `fpt run transfer --set NAME=VALUE` asks for it."""
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    settings, sentence = WRONG[how]
    refuses(lambda: fpt.section("transfer", "lab", **settings), *sentence)


CHOICES = (
    "procedure",
    "order",
    "init",
    "input net",
    "nothing trained",
    "a group as a word",
    "an unknown group",
)


@pytest.mark.parametrize("how", CHOICES)
def test_an_own_arm_that_cannot_be_meant(how):
    settings, sentence = WRONG[how]
    refuses(lambda: fpt.register_arm(fpt.Arm("mine", "Mine", **settings)), "'mine'", *sentence)
    assert "mine" not in ARMS


WEIGHTS = {
    "folder:x": "folder:NAME@DIGEST",
    "nano-english-0.": "letter or a digit",
    "nano-engilsh-0": "cannot be made here",
    "nano-english": "cannot be made here",
}
PARAMS = {
    "rates of no task": (
        {"smoke__arms__full__lr": {}}, ["smoke.arms.full.lr: expected a rate, or rates by task"]
    ),
    
    
    "fewer steps of a section": (
        {"smoke__sections__transfer__0__steps": 10},
        ["fpt on bit-xor: eval_every is 20, above the 10 steps"],
    ),
    "a larger test": (
        {"smoke__tasks__bit-xor__test_items": 2000},
        ["smoke.tasks.bit-xor: test_items is 2,000", "1,024"],
    ),
    
    **{
        weights: ({"smoke__weights__language": weights}, ["smoke.weights.language: ", sentence])
        for weights, sentence in WEIGHTS.items()
    },
}  # fmt: skip


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


def test_weights_of_a_folder_that_is_here_may_have_any_name(tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    (tmp_path / "nano-mine").mkdir()
    for weights in ("nano-mine", "mine", "folder:mine@0123456789abcdef"):
        assert load("smoke", written(tmp_path, smoke__weights__language=weights))


def test_runs_that_were_changed_by_hand_are_checked_too(study):
    run = study.runs[0]
    wrong = replace(study, runs=(replace(run, spec=replace(run.spec, batch=0)),))
    refuses(lambda: wrong.train_anyway(device="cpu"), "fpt on bit-xor.batch", "found 0")
