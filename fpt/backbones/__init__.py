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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from torch import nn

from ..files import FptError, instead
from . import auto, bert, generic, gpt2, lstm, no_transformer, t5, vit
from .base import FAMILIES, LAST_ATTENTION, LAYER, Backbone, Family
from .isolation import on_meta
from .layers import Draws, normal_init_
from .pre_norm import ENCODER_GROUPS, UNFUSED_GROUPS, PreNormTransformer, encoder_init_
from .published import PUBLISHED, entry_of, pinned

FAMILIES |= {
    "gpt2": Family(gpt2.GPT2Backbone, gpt2.GROUPS, True, normal_init_, renamed=gpt2.RENAMED),
    "lstm": Family(lstm.LSTM, lstm.GROUPS, True, lstm.init_),
    "lstm-released": Family(lstm.LSTM, lstm.GROUPS, True, lstm.init_),
    "bert": Family(
        bert.BertBackbone, bert.GROUPS, False, normal_init_, renamed=bert.RENAMED, rows=bert.ROWS
    ),
    "t5-encoder": Family(t5.T5Backbone, t5.GROUPS, False, t5.init_, renamed=t5.RENAMED),
    "vit": Family(vit.ViTBackbone, vit.GROUPS, False, normal_init_, False, vit.RENAMED),
    "vanilla": Family(PreNormTransformer, ENCODER_GROUPS, False, encoder_init_),
    "linformer": Family(PreNormTransformer, ENCODER_GROUPS, False, encoder_init_),
    "gpt2-unfused": Family(PreNormTransformer, UNFUSED_GROUPS, True, normal_init_),
    "generic": Family(generic.GenericBackbone, (), True, generic.init_),
    "last-token": Family(no_transformer.LastToken, (), True, normal_init_),
    "mean-token": Family(no_transformer.MeanToken, (), True, normal_init_),
}
FAMILIES["longformer"] = replace(FAMILIES["bert"], rows=bert.LONGFORMER_ROWS)

# Layers, width and heads of the sizes that are pretrained here.
SIZES = {
    "pico": (2, 64, 2),
    "nano": (4, 128, 4),
    "micro": (6, 256, 4),
    "mini": (8, 512, 8),
    "small": (12, 768, 12),
}

LSTM_LAYERS = 3  # the paper's, of GPT-2's width; the local ones follow the local widths


def _of_size(size: str, layers: int, width: int, heads: int) -> Iterator[Backbone]:
    """Every architecture in one of the local sizes."""
    shape = (layers, width, heads)
    gpt2_of_size = Backbone(size, "gpt2", *shape, 1024, 4096)
    yield gpt2_of_size
    # The control of causality: the same weights, a token sees those after it too.
    yield replace(gpt2_of_size, name=f"bidirectional-{size}", bidirectional=True)
    # Table 17's architectures.
    yield Backbone(f"bert-{size}", "bert", *shape, 512)
    yield Backbone(f"t5-encoder-{size}", "t5-encoder", *shape)
    yield Backbone(f"longformer-{size}", "longformer", *shape, 4096, window=512)
    yield Backbone(f"vit-{size}", "vit", *shape, 1024)
    yield Backbone(f"lstm-{size}", "lstm", LSTM_LAYERS, width)
    yield Backbone(f"lstm-released-{size}", "lstm-released", LSTM_LAYERS, width)
    if layers > LSTM_LAYERS:
        # The LSTM made more like the transformer, one step after another (section 3.3, of the
        # paper's second version): as deep, with residual connections, with a table of positions.
        deep = Backbone(f"lstm-deep-{size}", "lstm", layers, width)
        yield deep
        yield replace(deep, name=f"lstm-residual-{size}", residual=True)
        yield replace(deep, name=f"lstm-positions-{size}", residual=True, positions=1024)
        # And two that are matched to it. `matched` has as many frozen matrix parameters, 8 width^2
        # per layer instead of the transformer's 12. `flops` can take as many FLOPs per token: it
        # has layers for attention in the longest sequence, of which a task takes the first ones
        # (`fpt.training.flops.as_costly`), and residuals, without which so many layers would pass
        # nothing on.
        matched = 3 * layers // 2
        as_costly = matched + layers * 1024 // (4 * width)
        yield replace(deep, name=f"lstm-matched-{size}", layers=matched)
        yield replace(deep, name=f"lstm-flops-{size}", layers=as_costly, residual=True)
    # The critics' controls.
    yield Backbone(f"last-token-{size}", "last-token", 0, width)
    yield Backbone(f"mean-token-{size}", "mean-token", 0, width)
    unfused = Backbone(f"split-{size}", "gpt2-unfused", *shape, 1024)
    yield unfused
    yield replace(unfused, name=f"fixed-{size}", fixed=True)
    yield replace(unfused, name=f"attention-{size}", layers=1, feedforward=False)


# Without a transformer, as wide as SmolLM2.
AS_WIDE_AS_SMOLLM2 = tuple(
    Backbone(f"{kind}-576", kind, 0, 576) for kind in ("last-token", "mean-token")
)

TABLE_7 = (  # trained from nothing
    Backbone("vanilla", "vanilla", 3, 64, 4, 1024),
    Backbone("linformer", "linformer", 3, 64, 4, 1024, rank=16),
)
LOCAL = [made for size, shape in SIZES.items() for made in _of_size(size, *shape)]
BUILT_IN = [model.backbone for model in PUBLISHED.values() if not model.config]
BACKBONES: Mapping[str, Backbone] = {
    made.name: made for made in (*LOCAL, *BUILT_IN, *TABLE_7, *AS_WIDE_AS_SMOLLM2)
}
BY_REPOSITORY = {made.hub: made.name for made in reversed(BUILT_IN) if made.hub}


def backbone(name: str) -> Backbone:
    """The backbone `name`: built in, of the list of published models, a repository of the hub, a
    folder or a GGUF file (`fpt.backbones.auto`). `NAME@L` is the first L layers of any of them,
    with its weights. A name means the same in every working directory, unless it is a relative
    path. FptError if there is none."""
    whole, layers = auto.split_layers(name)
    if known := known_backbone(whole):
        return known if layers is None else auto.first_layers(known, layers)
    if found := auto.resolve(name):
        return found
    names = [*BACKBONES, *PUBLISHED]
    raise FptError(
        f"There is no backbone or folder {name!r} with a config.json, and no such GGUF file; a "
        "repository is named as hub:OWNER/REPO@COMMIT"
        f"{instead(whole, list(dict.fromkeys(names)))}."
    )


def known_backbone(name: str) -> Backbone | None:
    """The backbone that is built in or in the list as `name`; None if there is none."""
    if built_in := BACKBONES.get(BY_REPOSITORY.get(name, name)):
        return built_in
    entry = entry_of(pinned(name))
    return entry.backbone if entry else None


def build(spec: Backbone, draws: Draws | None = None, dropout: float = 0.0) -> nn.Module:
    """The backbone on the meta device: shapes without values. `draws` are the random numbers of its
    dropout and noise."""
    with on_meta():
        return FAMILIES[spec.family].build(spec, draws or Draws(), dropout)


def group_of(spec: Backbone, name: str) -> str:
    """The trainable group of the parameter `name`."""
    if spec.inside:
        return generic.groups(spec.config)[name]
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
