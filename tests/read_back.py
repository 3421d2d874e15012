"""Backbones that were pretrained in a test, as another process reads them."""

import torch
from safetensors.torch import load_file

from fpt.backbones import build
from fpt.backbones.initialisations import initial_state
from fpt.files import read_json


def read_back(architecture, identity):
    """State and module of a backbone, looked up by its identity."""
    module = build(architecture)
    state = initial_state(architecture, module, "pretrained", identity, 0)
    inside = {name: value for name, value in state.items() if name != "positions"}
    module.load_state_dict(inside, assign=True)
    return state, module.eval()


def metadata_in(folder):
    return read_json(folder / "pretraining.json")


def same_tensors(first, second):
    """Whether two folders hold the same weights."""
    tensors, again = (load_file(folder / "model.safetensors") for folder in (first, second))
    return tensors.keys() == again.keys() and all(
        torch.equal(tensor, again[name]) for name, tensor in tensors.items()
    )
