"""The backbones: their names, sizes and families, and how each is built.

A backbone is an `nn.Module` with `forward(x, mask, read)`: token vectors (N, T, width),
positions already added, to hidden states (N, T, width), or (N, R, width) at the positions
`read` (N, R). `mask` (N, T) is True for a real token. The N = K * B rows are the batches of
K packed runs, one run after the other. Dropout applies to vectors of the backbone's width,
not to attention weights nor inside a feedforward layer. A backbone is built on the meta
device, without weights, which `fpt.backbones.initialisations` gives it. Sizes come from
tables, never from a download. transformers is imported only when a backbone is built: its
import takes longer than all of torch.
"""

import re
from collections.abc import Collection

from torch import nn

from ..isolation import on_meta
from . import baselines, encoders, generic, gpt2
from .base import FAMILIES, LAST_ATTENTION, LAYER, Backbone
from .dropout import Draws
from .names import BACKBONES, backbone

__all__ = [
    "BACKBONES",
    "FAMILIES",
    "Backbone",
    "backbone",
    "build",
    "group_of",
    "trained_group",
]

FAMILIES |= gpt2.FAMILIES | baselines.FAMILIES | encoders.FAMILIES | generic.FAMILIES


def build(
    architecture: Backbone, draws: Draws | None = None, dropout: float = 0.0
) -> nn.Module:
    """The backbone on the meta device: shapes without values. `draws` are the random
    numbers of its dropout and noise."""
    with on_meta():
        return FAMILIES[architecture.family].build(architecture, draws or Draws(), dropout)


def group_of(architecture: Backbone, name: str) -> str:
    """The trainable group of the parameter `name`."""
    if architecture.inside:
        return generic.groups(architecture.config)[name]
    for pattern, group in FAMILIES[architecture.family].groups:
        if re.search(pattern, name):
            return group
    raise KeyError(f"no group for parameter {name!r} of family {architecture.family!r}")


def trained_group(
    architecture: Backbone, name: str, trained: Collection[str]
) -> str | None:
    """The name in `trained` under which parameter `name` is trained; None if it is
    frozen."""
    group = group_of(architecture, name)
    if group in trained:
        return group
    layer = LAYER.search(name)
    is_last = layer is not None and int(layer[1]) == architecture.layers - 1
    if group == "attention" and is_last and LAST_ATTENTION in trained:
        return LAST_ATTENTION
    return None
