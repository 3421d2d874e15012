"""Encoders through transformers, fed with vectors: BERT, Longformer, T5's encoder and ViT.

All are bidirectional: padding is masked.

**BERT.** The published one adds word, position and token-type vectors, then applies a norm
and dropout. Here positions are added before the backbone, so it begins with the token-type
vector (of the first segment, the only one there is) and that norm. `positions` is the
published table of 512 absolute positions.

**Longformer** (Beltagy et al. 2020) is RoBERTa whose tokens see a window. Without global
attention, which the tasks here give no token, it is a BERT under a band mask: the same
parameters by the same names, the same numbers as transformers' model (tested). Its chunked
attention would pad every sequence to whole windows of 512; the band needs no padding. The
projections for global attention are left out. `positions` is the published table of 4,096.

**T5** has no table of absolute positions, and none is added: there is no `positions` group.
Order is in the relative bias of the first block's attention (buckets x heads), which all
blocks use. Packed runs share it, so it stays frozen; it is a group of its own, `relative`,
that a run alone may train. Its norms scale without shifting.

**ViT**, without patches and class token. As in the released code, `positions` is a new
table of 1,024 rows, also for pretrained weights, whose own table belongs to 14 x 14 patches
and a class token. There it starts at zero; here it is drawn like every other table, since a
black patch would reach the first norm as zeros. So against GPT-2, modality, causality and
positions all differ.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .base import Backbone, Family, normal_init_, select_positions, visible_keys
from .dropout import Draws, Dropout


class BertBackbone(nn.Module):
    """BERT's embedding norm and blocks. With a `window`, a token sees that many around it,
    half on either side, and itself: a Longformer."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        config = BertConfig(
            vocab_size=1,
            max_position_embeddings=1,
            type_vocab_size=1,
            hidden_size=architecture.width,
            num_hidden_layers=architecture.layers,
            num_attention_heads=architecture.heads,
            intermediate_size=4 * architecture.width,
            # 0 in every backbone: a named deviation.
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=1e-5 if architecture.window else 1e-12,
        )
        bert: Any = BertModel(config, add_pooling_layer=False)
        self.reach = architecture.window // 2
        self.token_type = bert.embeddings.token_type_embeddings
        self.embedding_norm = bert.embeddings.LayerNorm
        self.dropout = Dropout(dropout, draws)
        self.layers = bert.encoder.layer
        for layer in self.layers:
            layer.attention.output.dropout = Dropout(dropout, draws)
            layer.output.dropout = Dropout(dropout, draws)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible = self.visible(x, mask)
        x = self.dropout(self.embedding_norm(x + self.token_type.weight))
        for layer in self.layers:
            x = layer(x, visible)
        return select_positions(x, read)

    def visible(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        """The keys that each query sees, (N or 1, 1, T or 1, T); None: all."""
        keys = visible_keys(mask)
        if self.reach == 0 or x.shape[1] <= self.reach + 1:
            # The window covers the sequence.
            return keys
        place = torch.arange(x.shape[1], device=x.device)
        distance = (place[:, None] - place).abs()
        band = (distance <= self.reach)[None, None]
        # Far out in the padding there is no key, and some kernels make NaN of a query
        # without one.
        return band if keys is None else (band & keys) | (distance == 0)


class T5Backbone(nn.Module):
    """T5's encoder blocks and last norm. Dropout is where T5 has it on vectors of the
    model's width; inside the feedforward layers and on attention weights it is 0, a named
    deviation."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Stack

        super().__init__()
        config = T5Config(
            vocab_size=2,  # never embedded; the default end symbol must be one of them
            d_model=architecture.width,
            d_kv=architecture.width // architecture.heads,
            d_ff=4 * architecture.width,
            num_layers=architecture.layers,
            num_heads=architecture.heads,
            dropout_rate=0.0,
            use_cache=False,
        )
        stack: Any = T5Stack(config)
        self.first_dropout = Dropout(dropout, draws)
        self.block = stack.block
        for block in self.block:
            for layer in block.layer:
                layer.dropout = Dropout(dropout, draws)
        self.final_layer_norm = stack.final_layer_norm
        self.last_dropout = Dropout(dropout, draws)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible = visible_keys(mask)
        bias = None  # of the relative positions, which the first block computes
        x = self.first_dropout(x)
        for block in self.block:
            x, bias, _ = block(x, visible, bias)
        return self.last_dropout(self.final_layer_norm(select_positions(x, read)), read)


def t5_init_(module: Any, draw: torch.Generator) -> None:
    """T5's default initialisation: N(0, 1 / inputs), queries divided by sqrt(width of a
    head) too, since nothing scales their products; norms 1."""
    for name, parameter in module.named_parameters():
        if "layer_norm" in name:
            parameter.fill_(1.0)
            continue
        inputs = parameter.shape[1]
        if name.endswith("SelfAttention.q.weight"):
            inputs *= module.block[0].layer[0].SelfAttention.key_value_proj_dim
        elif "relative_attention_bias" in name:
            inputs = len(module.final_layer_norm.weight)
        parameter.normal_(0.0, inputs**-0.5, generator=draw)


def vit_facts(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of `Backbone` in transformers' configuration of a ViT."""
    from transformers import ViTConfig

    # With the defaults that a file may leave out.
    complete = ViTConfig.from_dict(dict(config))
    return {
        "family": "vit",
        "positions": 1024,
        "layers": complete.num_hidden_layers,
        "width": complete.hidden_size,
        "heads": complete.num_attention_heads,
    }


class ViTBackbone(nn.Module):
    """ViT's blocks and last norm."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import ViTConfig, ViTModel

        super().__init__()
        config = ViTConfig(
            hidden_size=architecture.width,
            num_hidden_layers=architecture.layers,
            num_attention_heads=architecture.heads,
            intermediate_size=4 * architecture.width,
        )
        if architecture.config:
            config = ViTConfig.from_dict(json.loads(architecture.config))
            config.num_hidden_layers = architecture.layers  # maybe its first ones alone
        config.attention_probs_dropout_prob = 0.0  # in every backbone: a named deviation
        vit: Any = ViTModel(config, add_pooling_layer=False)
        self.layers = vit.layers
        self.layernorm = vit.layernorm
        self.dropouts = nn.ModuleList(
            Dropout(dropout, draws) for _ in range(2 * architecture.layers)
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible = visible_keys(mask)
        # A layer of transformers has one dropout module for both its places; here each
        # place has its own, so that it draws its own mask.
        places = zip(self.layers, self.dropouts[::2], self.dropouts[1::2], strict=True)
        for layer, first, second in places:
            x = x + first(layer.attention(layer.layernorm_before(x), visible)[0])
            x = x + second(layer.mlp(layer.layernorm_after(x)))
        return self.layernorm(select_positions(x, read))


BERT = Family(
    BertBackbone,
    groups=(
        (r"(^embedding_norm|\.LayerNorm)\.", "layernorm"),
        (r"\.attention\.", "attention"),
        (r"\.(intermediate|output)\.", "feedforward"),
        (r"^token_type\.", "embeddings"),
    ),
    causal=False,
    init_=normal_init_,
    renamed=(
        (r"^(bert|longformer|roberta)\.", ""),
        (r"\.gamma$", ".weight"),  # the oldest files call gain and bias gamma and beta
        (r"\.beta$", ".bias"),
        (r"^encoder\.layer\.", "layers."),
        (r"^embeddings\.LayerNorm\.", "embedding_norm."),
        (r"^embeddings\.token_type_embeddings\.", "token_type."),
        (r"^embeddings\.position_embeddings\.weight$", "positions"),
    ),
    rows={"token_type.weight": slice(1)},
)
FAMILIES = {
    "bert": BERT,
    # As RoBERTa, it leaves two rows of positions unused.
    "longformer": replace(BERT, rows={**BERT.rows, "positions": slice(2, None)}),
    "t5-encoder": Family(
        T5Backbone,
        groups=(
            (r"layer_norm\.", "layernorm"),
            (r"\.relative_attention_bias\.", "relative"),
            (r"\.SelfAttention\.", "attention"),
            (r"\.DenseReluDense\.", "feedforward"),
        ),
        causal=False,
        init_=t5_init_,
        renamed=((r"^encoder\.", ""),),
    ),
    "vit": Family(
        ViTBackbone,
        groups=(
            (r"(^|\.)layernorm", "layernorm"),
            (r"\.attention\.", "attention"),
            (r"\.mlp\.", "feedforward"),
        ),
        causal=False,
        init_=normal_init_,
        stores_positions=False,
        renamed=(  # to the names of transformers' modules
            (r"^vit\.", ""),
            (r"^encoder\.layer\.", "layers."),
            (r"\.attention\.attention\.(q|k|v)\w+\.", r".attention.\1_proj."),
            (r"\.attention\.output\.dense\.", ".attention.o_proj."),
            (r"\.intermediate\.dense\.", ".mlp.fc1."),
            (r"\.output\.dense\.", ".mlp.fc2."),
        ),
    ),
}
