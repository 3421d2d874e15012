"""The backbones: their names, sizes and families, and how each is built.

A backbone is an `nn.Module` with `forward(x, mask, read)`: token vectors (N, T, width), positions
already added, to hidden states (N, T, width), or (N, R, width) at the positions `read` (N, R).
`mask` (N, T) is True for a real token. The N = K * B rows are the batches of K packed runs, one run
after the other. Dropout applies to vectors of the backbone's width, not to attention weights nor
inside a feedforward layer. A backbone is built on the meta device, without weights, which
`fpt.backbones.initialisations` gives it. Sizes come from this table, never from a download.
transformers is imported only when a backbone is built: its import takes longer than all of torch.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import torch
from torch import nn

from ..files import FptError, instead
from . import bert, gpt2, lstm, no_transformer, t5, vit
from .base import FAMILIES, LAST_ATTENTION, Backbone, Family
from .layers import Draws, normal_init_
from .pre_norm import ENCODER_GROUPS, UNFUSED_GROUPS, PreNormTransformer, encoder_init_

LAYER = re.compile(r"\.(\d+)\.")  # the number of its layer, from 0, in a parameter's name

FAMILIES |= {
    "gpt2": Family(gpt2.GPT2Body, gpt2.GROUPS, True, normal_init_, load=gpt2.load),
    "lstm": Family(lstm.LayerNormLSTM, lstm.GROUPS, True, lstm.init_),
    "lstm-released": Family(lstm.ReleasedLSTM, lstm.GROUPS, True, lstm.init_),
    "bert": Family(bert.BertBody, bert.GROUPS, False, normal_init_, load=bert.load),
    "longformer": Family(
        bert.BertBody, bert.GROUPS, False, normal_init_, load=bert.load_longformer
    ),
    "t5-encoder": Family(t5.T5Body, t5.GROUPS, False, t5.init_, load=t5.load),
    "vit": Family(vit.ViTBody, vit.GROUPS, False, normal_init_, 0.0, vit.load),
    "vanilla": Family(PreNormTransformer, ENCODER_GROUPS, False, encoder_init_),
    "linformer": Family(PreNormTransformer, ENCODER_GROUPS, False, encoder_init_),
    "gpt2-unfused": Family(PreNormTransformer, UNFUSED_GROUPS, True, normal_init_),
    "last-token": Family(no_transformer.LastToken, (), True, normal_init_),
    "mean-token": Family(no_transformer.MeanToken, (), True, normal_init_),
}

# Layers, width and heads of the sizes that are pretrained here.
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
    instead of the transformer's 12; `flops` can take as many FLOPs per token: it has layers for
    attention in the longest sequence, of which a task takes the first ones
    (`fpt.training.flops.as_costly`), and residuals, without which so many layers would pass nothing
    on. Empty for a size whose transformer is not deeper than `LSTM_LAYERS`."""
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
            lstm_like
            for size, (layers, width, _) in SIZES.items()
            for lstm_like in _lstms(size, layers, width)
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
            control
            for size, (layers, width, heads) in SIZES.items()
            for control in (
                Backbone(f"last-token-{size}", "last-token", 0, width),
                Backbone(f"mean-token-{size}", "mean-token", 0, width),
                Backbone(
                    f"attention-{size}", "gpt2-unfused", 1, width, heads, 1024, feedforward=False
                ),
                Backbone(f"split-{size}", "gpt2-unfused", layers, width, heads, 1024),
                Backbone(f"fixed-{size}", "gpt2-unfused", layers, width, heads, 1024, fixed=True),
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


def build(spec: Backbone, draws: Draws | None = None, dropout: float = 0.0) -> nn.Module:
    """The backbone on the meta device: shapes without values. `draws` are the random numbers of its
    dropout and noise."""
    with torch.device("meta"):
        return FAMILIES[spec.family].build(spec, draws or Draws(), dropout)


def group_of(spec: Backbone, name: str) -> str:
    """The trainable group of the parameter `name`."""
    for pattern, group in FAMILIES[spec.family].groups:
        if re.search(pattern, name):
            return group
    raise KeyError(f"no group for parameter {name!r} of family {spec.family!r}")


def trained_group(spec: Backbone, name: str, trained: Collection[str]) -> str | None:
    """The name in `trained` under which parameter `name` is trained; None if it is frozen."""
    group = group_of(spec, name)
    if group in trained:
        return group
    layer = LAYER.search(name)
    last = group == "attention" and layer is not None and int(layer[1]) == spec.layers - 1
    return LAST_ATTENTION if last and LAST_ATTENTION in trained else None
