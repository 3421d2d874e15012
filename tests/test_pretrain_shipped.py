"""The weights that ship with the package: what they say of themselves, and that they fit."""

from dataclasses import asdict

import pytest
import torch
from read_back import metadata_in

from fpt.backbones import backbone, build
from fpt.backbones.initialisations import initial_state
from fpt.backbones.weights import file_digest
from fpt.pretraining.plans import plan_of
from fpt.project import SHIPPED


@pytest.fixture(params=sorted(SHIPPED.glob("*/")), ids=lambda folder: folder.name)
def folder(request):
    return request.param


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
