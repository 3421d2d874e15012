"""What a family and a backbone are, and the table of families that `fpt.backbones` fills."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .layers import Draws

LAYER = re.compile(r"\.(\d+)\.")  # the number of its layer, from 0, in a parameter's name
LAST_ATTENTION = "last-attention"  # the part of group `attention` in the last layer


@dataclass(frozen=True)
class Family:
    """One architecture: its builder, and the group of each of its parameters by name."""

    build: Callable[["Backbone", Draws, float], nn.Module]
    groups: tuple[tuple[str, str], ...]  # regular expression of the name -> trainable group
    causal: bool
    init_: Callable[[nn.Module, torch.Generator], None]  # default initialisation
    stores_positions: bool = True  # whether a published checkpoint has our table of positions
    # From the names in a published checkpoint to ours: (pattern, replacement), one after another.
    renamed: tuple[tuple[str, str], ...] = ()
    rows: Mapping[str, slice] = field(default_factory=dict)  # of a published table that are used

    def load(self, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a checkpoint of the architecture, or of a model around it, by our names;
        tensors that are not part of the backbone keep theirs."""
        found = {}
        for published, tensor in stored.items():
            name = published
            for pattern, replacement in self.renamed:
                name = re.sub(pattern, replacement, name)
            used = name != published and name in self.rows  # what we stored has our rows already
            found[name] = tensor[self.rows[name]] if used else tensor
        return found


FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Backbone:
    """A size of a family. `hub` names the published weights, if any."""

    name: str
    family: str
    layers: int
    width: int
    heads: int = 0
    positions: int = 0  # longest sequence; 0: any
    vocabulary: int = 0
    hub: str | None = None
    window: int = 0  # Longformer: the number of tokens around it that a token sees
    rank: int = 0  # Linformer: the number of keys of a sequence
    bidirectional: bool = False  # GPT-2: without its causal mask
    residual: bool = False  # LSTM: with a residual connection around each layer
    fixed: bool = False  # gpt2-unfused: attention that does not depend on the tokens
    feedforward: bool = True  # gpt2-unfused: with feedforward layers
    # Of a backbone by configuration (`fpt.backbones.generic`).
    config: str = field(default="", repr=False)  # transformers' configuration, JSON
    inside: str = ""  # groups of its own parameters; of a ViT, none
    outputs: int = 0  # width of its hidden states, if it is not that of its token vectors
    time_major: bool = False  # whether its norms see (T, N, width), as XLNet's do
    # The absolute folder of the weights; empty if they are found by their identity. It says where,
    # not which, so two backbones that differ in it alone are equal.
    folder: str = field(default="", compare=False, repr=False)

    @property
    def causal(self) -> bool:
        """Whether a token sees only itself and those before it."""
        return FAMILIES[self.family].causal and not self.bidirectional

    @property
    def meets_bare_tokens(self) -> bool:
        """Whether its first norm reads the token vectors alone, without positions added to them."""
        return not self.positions and self.family in ("generic", "t5-encoder")

    @property
    def groups(self) -> tuple[str, ...]:
        """Trainable groups of a model on this backbone, in the paper's order."""
        own = (group for _, group in FAMILIES[self.family].groups)
        inside = dict.fromkeys(self.inside.split() or own)
        if not self.feedforward:
            del inside["feedforward"]
        norms = ("layernorm",) if "layernorm" in inside else ()
        first = ("output", *norms, "input", *(("positions",) if self.positions else ()))
        return (*first, *(group for group in inside if group not in first))

    @property
    def trainable(self) -> tuple[str, ...]:
        """The names that `trainable` of a run may have: the groups, and the part of one."""
        return (*self.groups, *((LAST_ATTENTION,) if "attention" in self.groups else ()))
