"""Tiny models of transformers with random weights, saved in a folder as users have them."""

from pathlib import Path

import numpy as np
import torch
import transformers
from tiny import random_values

from fpt import FrozenTransformer
from fpt.backbones import build
from fpt.backbones.generic.skeleton import class_of
from fpt.backbones.names import split_layers
from fpt.backbones.weights import read_weights
from fpt.files import read_yaml

X = np.random.default_rng(0).normal(size=(24, 5, 2))
Y = np.arange(24) % 2
SETTINGS = read_yaml(Path(__file__).with_suffix(".yaml"))


def small(name, **settings):
    """An estimator on a backbone that is trained for two steps."""
    return FrozenTransformer(name, steps=2, **settings)


def config_of(kind, **changes):
    """The configuration of a tiny model of a type of transformers."""
    config_class = transformers.CONFIG_MAPPING[kind]
    aliases = config_class.attribute_map
    names = {*config_class().to_dict(), *aliases}
    sizes = {name: value for name, value in SETTINGS["sizes"].items() if name in names}
    # Of two names of one setting, the configuration's own.
    sizes = {name: value for name, value in sizes.items() if aliases.get(name) not in sizes}
    return config_class(**{**sizes, **SETTINGS["of_type"].get(kind, {}), **changes})


def save_model(kind, folder, seed=0, **changes):
    """A model of a type as transformers loads it from `folder`, where it is saved."""
    config = config_of(kind, **changes)
    _, model_class = class_of({"model_type": kind, **config.to_dict()})
    model = model_class(config)
    random_values(model, seed)
    model.save_pretrained(folder)
    return model_class.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def hidden_of(architecture, x, mask=None):
    """The hidden states of a backbone with the weights of its name, of token vectors `x`."""
    identity, _ = split_layers(architecture.name)
    module = build(architecture).eval()
    state = read_weights(architecture, module, identity)
    positions = state.pop("positions", None)
    module.load_state_dict(state, assign=True, strict=False)
    moved = x if positions is None else x + positions[: x.shape[1]]
    return module(moved, mask)
