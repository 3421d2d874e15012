"""What is frozen: names, sizes, and how a body of each family is built.

Every body is an `nn.Module` with `forward(x, mask)`: packed token vectors (N, T, width), positions
already added, to hidden states (N, T, width). It is built without weights, on the meta device;
`fpt.weights` fills it. Sizes come from this table, never from a download.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from ..draws import Draws
from ..errors import FptError
from . import gpt2, lstm


@dataclass(frozen=True)
class Family:
    """One architecture: its builder, and the group of each of its parameters by name."""

    build: Callable[["Backbone", Draws, float], nn.Module]
    groups: tuple[tuple[str, str], ...]  # regular expression of the name -> trainable group
    positions: bool  # has a learned table of positions
    causal: bool


@dataclass(frozen=True)
class Backbone:
    """A size of a family. `hub` names the published weights, where there are any."""

    name: str
    family: str
    layers: int
    width: int
    heads: int = 0
    positions: int = 0  # longest sequence; 0: any
    vocabulary: int = 0
    hub: str | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """Trainable groups of a model on this backbone, in the paper's order."""
        inside = dict.fromkeys(group for _, group in FAMILIES[self.family].groups)
        first = ("output", "layernorm", "input", *(("positions",) if self.positions else ()))
        return (*first, *(group for group in inside if group not in first))


FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gpt2.build, gpt2.GROUPS, positions=True, causal=True),
    "lstm": Family(lstm.build_standard, lstm.GROUPS, positions=False, causal=True),
    "lstm-released": Family(lstm.build_released, lstm.GROUPS, positions=False, causal=True),
}


def _gpt2(name: str, layers: int, width: int, heads: int, hub: str | None = None) -> Backbone:
    vocabulary = 50257 if hub else 4096
    return Backbone(name, "gpt2", layers, width, heads, 1024, vocabulary, hub)


BACKBONES: Mapping[str, Backbone] = {
    backbone.name: backbone
    for backbone in (
        _gpt2("nano", 4, 128, 4),
        _gpt2("micro", 6, 256, 4),
        _gpt2("mini", 8, 512, 8),
        _gpt2("small", 12, 768, 12),
        _gpt2("gpt2", 12, 768, 12, "openai-community/gpt2"),
        _gpt2("gpt2-medium", 24, 1024, 16, "openai-community/gpt2-medium"),
        _gpt2("gpt2-large", 36, 1280, 20, "openai-community/gpt2-large"),
        _gpt2("gpt2-xl", 48, 1600, 25, "openai-community/gpt2-xl"),
        # The paper's LSTM has 3 layers of GPT-2's width; the local ones follow the local widths.
        *(
            Backbone(f"{family}-{size}", family, 3, width)
            for family in ("lstm", "lstm-released")
            for size, width in (("nano", 128), ("micro", 256), ("mini", 512), ("small", 768))
        ),
    )
}


def backbone(name: str) -> Backbone:
    if name not in BACKBONES:
        raise FptError(f"There is no backbone {name!r}; choose one of {', '.join(BACKBONES)}.")
    return BACKBONES[name]


def build(spec: Backbone, draws: Draws, dropout: float) -> nn.Module:
    """The body on the meta device: shapes without values."""
    with torch.device("meta"):
        return FAMILIES[spec.family].build(spec, draws, dropout)


def group_of(spec: Backbone, name: str) -> str:
    """The trainable group of the body's parameter `name`."""
    for pattern, group in FAMILIES[spec.family].groups:
        if re.search(pattern, name):
            return group
    raise KeyError(f"no group for parameter {name!r} of family {spec.family!r}")
