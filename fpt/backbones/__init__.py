"""What is frozen: names, sizes, and how a body of each family is built.

Every body is an `nn.Module` with `forward(x, mask, read)`: packed token vectors (N, T, width),
positions already added, to hidden states (N, T, width), or those at `read` (N, R). Dropout falls on
vectors of the body's width, not on attention weights nor inside a feedforward layer. A body is
built without weights, on the meta device; `fpt.backbones.weights` fills it. Sizes come from this
table, never from a download. What a body takes of transformers is imported when one is built: that
takes longer than all of torch, and most pages and commands build none.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..files import FptError, instead
from . import bert, common, encoder, gpt2, longformer, lstm, none, split, t5, vit
from .dropout import Draws

LAST_ATTENTION = "last-attention"  # of group `attention`, what lies in the last layer
LAYER = re.compile(r"\.(\d+)\.")  # the number of its layer, from 0, in a parameter's name


@dataclass(frozen=True)
class Family:
    """One architecture: its builder, and the group of each of its parameters by name."""

    build: Callable[["Backbone", Draws, float], nn.Module]
    groups: tuple[tuple[str, str], ...]  # regular expression of the name -> trainable group
    causal: bool
    init_: Callable[[nn.Module, torch.Generator], None]  # default start of the body
    position_std: float = 0.02  # default start of the table
    # A checkpoint's tensors by the body's names, and "positions"; stored that way where None.
    load: Callable[["Backbone", Mapping[str, Tensor]], dict[str, Tensor]] | None = None


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
    window: int = 0  # Longformer: how many tokens around it one token sees
    rank: int = 0  # Linformer: how many keys are left of a sequence
    bidirectional: bool = False  # GPT-2: without its causal mask
    residual: bool = False  # LSTM: with a residual connection around each layer
    fixed: bool = False  # split: attention that does not depend on the tokens
    feedforward: bool = True  # split: with feedforward layers

    @property
    def causal(self) -> bool:
        """Whether a token hears only of those before it."""
        return FAMILIES[self.family].causal and not self.bidirectional

    @property
    def groups(self) -> tuple[str, ...]:
        """Trainable groups of a model on this backbone, in the paper's order."""
        inside = dict.fromkeys(group for _, group in FAMILIES[self.family].groups)
        if not self.feedforward:
            del inside["feedforward"]
        norms = ("layernorm",) if "layernorm" in inside else ()
        first = ("output", *norms, "input", *(("positions",) if self.positions else ()))
        return (*first, *(group for group in inside if group not in first))

    @property
    def trainable(self) -> tuple[str, ...]:
        """The groups, and the part of one that can be named instead: a run that trains all groups
        names no part."""
        return (*self.groups, *((LAST_ATTENTION,) if "attention" in self.groups else ()))


FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gpt2.build, gpt2.GROUPS, True, gpt2.init_, load=gpt2.load),
    "lstm": Family(lstm.build_standard, lstm.GROUPS, True, lstm.init_),
    "lstm-released": Family(lstm.build_released, lstm.GROUPS, True, lstm.init_),
    "bert": Family(bert.build, bert.GROUPS, False, common.init_, load=bert.load),
    "longformer": Family(
        longformer.build, longformer.GROUPS, False, common.init_, load=longformer.load
    ),
    "t5-encoder": Family(t5.build, t5.GROUPS, False, t5.init_, load=t5.load),
    "vit": Family(vit.build, vit.GROUPS, False, common.init_, 0.0, vit.load),
    "vanilla": Family(encoder.build, encoder.GROUPS, False, encoder.init_),
    "linformer": Family(encoder.build, encoder.GROUPS, False, encoder.init_),
    "split": Family(split.build, split.GROUPS, True, split.init_),
    "last-token": Family(none.build_last, none.GROUPS, True, none.init_),
    "mean-token": Family(none.build_mean, none.GROUPS, True, none.init_),
}

# Layers, width and heads of the local sizes.
SIZES = {
    "pico": (2, 64, 2),
    "nano": (4, 128, 4),
    "micro": (6, 256, 4),
    "mini": (8, 512, 8),
    "small": (12, 768, 12),
}
BASE = (12, 768, 12)  # the published size of GPT-2, BERT, T5, Longformer and ViT


def _gpt2(name: str, layers: int, width: int, heads: int, hub: str | None = None) -> Backbone:
    vocabulary = 50257 if hub else 4096
    return Backbone(name, "gpt2", layers, width, heads, 1024, vocabulary, hub)


LSTM_LAYERS = 3  # the paper's, of GPT-2's width; the local ones follow the local widths


def _lstms(size: str, layers: int, width: int) -> tuple[Backbone, ...]:
    """The LSTM made more like the transformer of a size, one step after another (section 3.3, of
    the paper's second version): as deep, with residual connections, with a table of positions. And
    two that are matched to it: `matched` has as many frozen matrix parameters, 8 width^2 per layer
    where the transformer has 12; `flops` can take as many FLOPs per token, so it has layers for
    what attention costs in the longest sequence (of which a task takes the first ones, see
    `fpt.training.flops.as_costly`), and residuals without which so many would pass nothing on. None
    at a size where that would not be deeper."""
    if layers <= LSTM_LAYERS:
        return ()
    as_costly = 3 * layers // 2 + layers * 1024 // (4 * width)
    return (
        Backbone(f"lstm-deep-{size}", "lstm", layers, width),
        Backbone(f"lstm-residual-{size}", "lstm", layers, width, residual=True),
        Backbone(f"lstm-positions-{size}", "lstm", layers, width, positions=1024, residual=True),
        Backbone(f"lstm-matched-{size}", "lstm", 3 * layers // 2, width),
        Backbone(f"lstm-flops-{size}", "lstm", as_costly, width, residual=True),
    )


BACKBONES: Mapping[str, Backbone] = {
    backbone.name: backbone
    for backbone in (
        *(_gpt2(size, *shape) for size, shape in SIZES.items()),
        _gpt2("gpt2", *BASE, "openai-community/gpt2"),
        _gpt2("gpt2-medium", 24, 1024, 16, "openai-community/gpt2-medium"),
        _gpt2("gpt2-large", 36, 1280, 20, "openai-community/gpt2-large"),
        _gpt2("gpt2-xl", 48, 1600, 25, "openai-community/gpt2-xl"),
        # The control of causality: the same weights, a token sees those after it too.
        *(
            replace(_gpt2(f"bidirectional-{size}", *shape), bidirectional=True)
            for size, shape in SIZES.items()
        ),
        replace(_gpt2("bidirectional", *BASE, "openai-community/gpt2"), bidirectional=True),
        *(
            Backbone(f"{family}-{size}", family, LSTM_LAYERS, width)
            for family in ("lstm", "lstm-released")
            for size, (_, width, _) in SIZES.items()
        ),
        *(
            body
            for size, (layers, width, _) in SIZES.items()
            for body in _lstms(size, layers, width)
        ),
        # Table 17's architectures, as published and in the local sizes.
        *(
            Backbone(f"{family}-{size}", family, *shape, positions, window=window)
            for family, positions, window in (
                ("bert", 512, 0),
                ("t5-encoder", 0, 0),
                ("longformer", 4096, 512),
                ("vit", 1024, 0),
            )
            for size, shape in SIZES.items()
        ),
        Backbone("bert-base", "bert", *BASE, 512, 30522, "google-bert/bert-base-uncased"),
        Backbone("t5-base", "t5-encoder", *BASE, 0, 32128, "google-t5/t5-base"),
        Backbone(
            "longformer-base", "longformer", *BASE, 4096, 50265, "allenai/longformer-base-4096", 512
        ),
        Backbone("vit-base", "vit", *BASE, 1024, 0, "google/vit-base-patch16-224-in21k"),
        # Table 7's two that are trained from nothing.
        Backbone("vanilla", "vanilla", 3, 64, 4, 1024),
        Backbone("linformer", "linformer", 3, 64, 4, 1024, rank=16),
        # The critics' controls.
        *(
            body
            for size, (layers, width, heads) in SIZES.items()
            for body in (
                Backbone(f"last-token-{size}", "last-token", 0, width),
                Backbone(f"mean-token-{size}", "mean-token", 0, width),
                Backbone(f"attention-{size}", "split", 1, width, heads, 1024, feedforward=False),
                Backbone(f"split-{size}", "split", layers, width, heads, 1024),
                Backbone(f"fixed-{size}", "split", layers, width, heads, 1024, fixed=True),
            )
        ),
    )
}


def backbone(name: str) -> Backbone:
    """The backbone `name`; `NAME@L` is the first L layers of NAME, with its weights."""
    whole, at, layers = name.partition("@")
    if whole not in BACKBONES:
        raise FptError(f"There is no backbone {name!r}{instead(whole, list(BACKBONES))}.")
    found = BACKBONES[whole]
    if not at:
        return found
    if layers not in map(str, range(1, found.layers + 1)):
        raise FptError(
            f"There is no backbone {name!r}: {whole} has {found.layers} layers, so write "
            f"{whole}@L with L from 1 to {found.layers}."
        )
    return replace(found, name=name, layers=int(layers))


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


def trained_group(spec: Backbone, name: str, trained: Collection[str]) -> str | None:
    """The name in `trained` under which parameter `name` is trained; None where it is frozen."""
    group = group_of(spec, name)
    if group in trained:
        return group
    layer = LAYER.search(name)
    last = group == "attention" and layer is not None and int(layer[1]) == spec.layers - 1
    return LAST_ATTENTION if last and LAST_ATTENTION in trained else None
