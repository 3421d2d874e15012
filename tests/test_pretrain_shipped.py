"""The weights that ship with the package: what they say of themselves, and that they fit."""

from dataclasses import asdict

import pytest
import torch

from fpt.backbones import backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.backbones.weights import file_digest
from fpt.files import read_json
from fpt.pretraining.plans import plan_of
from fpt.project import SHIPPED


@pytest.fixture(params=sorted(SHIPPED.glob("*/")), ids=lambda folder: folder.name)
def folder(request):
    return request.param


def metadata_in(folder):
    return read_json(folder / "pretraining.json")


def plan_in(folder):
    plan = metadata_in(folder)["plan"]
    if "size" in plan:  # so the backbone was called when the first of them was made
        plan["backbone"] = plan.pop("size")
    return plan


def test_they_are_what_would_be_made_under_their_name(folder):
    assert plan_in(folder) == asdict(plan_of(folder.name))
    assert metadata_in(folder)["weights_digest"] == file_digest(folder / "model.safetensors")


def test_they_are_small_and_fit_their_backbone(folder):
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4_000_000
    architecture = backbone(plan_of(folder.name).backbone)
    module = build(architecture)
    state = initial_state(architecture, module, "pretrained", folder.name, 0)
    start = initial_state(architecture, module, "random", None, 0)
    assert not any(torch.equal(state[name], start[name]) for name in start)


def test_they_learned(folder):
    """Below the entropy of single words, or above what a trivial baseline reaches."""
    metadata = metadata_in(folder)
    if "valid_loss" in metadata:
        assert metadata["valid_loss"] < metadata["unigram_entropy"] - 1
    elif metadata["plan"]["task"] == "bit-memory":
        assert metadata["test_masked"] > 0.99
    else:
        assert metadata["test_accuracy"] > metadata["floors"]["majority"] + 0.1


def test_the_language_models_differ_in_nothing_but_architecture():
    """The same tokens in the same order: an LSTM beside a transformer is told from it by that."""
    transformer, lstm = (SHIPPED / name for name in ("nano-english-0", "lstm-nano-english-0"))
    assert plan_in(transformer) | {"backbone": None} == plan_in(lstm) | {"backbone": None}
    for name in ("corpus_digest", "tokens"):
        assert metadata_in(transformer)[name] == metadata_in(lstm)[name]
