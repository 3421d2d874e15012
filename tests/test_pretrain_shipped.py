"""The weights that ship with the package: what they say of themselves, and that they fit."""

import json
from dataclasses import asdict

import pytest
import torch

from fpt import files as paths
from fpt.backbones import backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.backbones.weights import file_digest, stated_digest
from fpt.pretraining.ensure import plan_of

SHIPPED = sorted(paths.SHIPPED.glob("*/"))


@pytest.fixture(params=SHIPPED, ids=lambda folder: folder.name)
def folder(request):
    return request.param


def test_they_are_what_would_be_made_under_their_name(folder):
    plan = json.loads((folder / "pretraining.json").read_text())["plan"]
    if "size" in plan:  # so it was called when the first of them was made
        plan["backbone"] = plan.pop("size")
    assert plan == asdict(plan_of(folder.name))


def test_they_are_small_and_fit_their_backbone(folder):
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4_000_000
    spec = backbone(plan_of(folder.name).backbone)
    state = initial_state(spec, build(spec), "pretrained", folder.name, 0)
    start = initial_state(spec, build(spec), "random", None, 0)
    assert all(value.isfinite().all() for value in state.values())
    assert {name for name in start if torch.equal(start[name], state[name])} == set()


def test_they_are_the_files_that_were_made(folder):
    path = folder / "model.safetensors"
    assert stated_digest(path) == file_digest(path)


def test_they_learned(folder):
    """Below the entropy of single words, or above what a trivial baseline reaches."""
    record = json.loads((folder / "pretraining.json").read_text())
    if "valid_loss" in record:
        assert record["valid_loss"] < record["unigram_entropy"] - 1
    elif record["plan"]["task"] == "bit-memory":
        assert record["test_masked"] > 0.99
    else:
        assert record["test_accuracy"] > record["floors"]["majority"] + 0.1


def test_the_language_models_differ_in_nothing_but_architecture():
    """The same tokens in the same order: an LSTM beside a transformer is told from it by that."""
    read = [
        json.loads((paths.SHIPPED / name / "pretraining.json").read_text())
        for name in ("nano-english-0", "lstm-nano-english-0")
    ]
    plans = [record["plan"] | {"size": None, "backbone": None} for record in read]
    assert plans[0] == plans[1]
    assert read[0]["corpus_digest"] == read[1]["corpus_digest"]
    assert read[0]["tokens"] == read[1]["tokens"]
