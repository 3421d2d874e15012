"""ViT through transformers: blocks and last norm, without patches and class token.

As in the released code, `positions` is a new table of 1,024 rows, also for pretrained weights,
whose own table belongs to 14 x 14 patches and a class token. There it starts at zero; here it is
drawn like every other table, since a black patch would reach the first norm as zeros. It is
bidirectional: padding is masked. So against GPT-2, modality, causality and positions all differ.
"""

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, select_positions, visible_keys

GROUPS = (
    (r"(^|\.)layernorm", "layernorm"),
    (r"\.attention\.", "attention"),
    (r"\.mlp\.", "feedforward"),
)
RENAMED = (  # to the names of transformers' modules
    (r"^vit\.", ""),
    (r"^encoder\.layer\.", "layers."),
    (r"\.attention\.attention\.(q|k|v)\w+\.", r".attention.\1_proj."),
    (r"\.attention\.output\.dense\.", ".attention.o_proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
)


def facts(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a `Backbone` says of transformers' configuration, beside its name."""
    from transformers import ViTConfig

    whole = ViTConfig.from_dict(dict(config))  # with the defaults that a file may leave out
    return {
        "family": "vit",
        "positions": 1024,
        "layers": whole.num_hidden_layers,
        "width": whole.hidden_size,
        "heads": whole.num_attention_heads,
    }


class ViTBackbone(nn.Module):
    """ViT's blocks and last norm."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import ViTConfig, ViTModel

        super().__init__()
        config = ViTConfig(
            hidden_size=spec.width,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.heads,
            intermediate_size=4 * spec.width,
        )
        if spec.config:
            config = ViTConfig.from_dict(json.loads(spec.config))
            config.num_hidden_layers = spec.layers  # maybe its first ones alone
        config.attention_probs_dropout_prob = 0.0  # in every backbone: a named deviation
        vit: Any = ViTModel(config, add_pooling_layer=False)
        self.layers, self.layernorm = vit.layers, vit.layernorm
        self.dropouts = nn.ModuleList(Dropout(dropout, draws) for _ in range(2 * spec.layers))

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible = visible_keys(mask)
        # A layer of transformers has one dropout module for both its places; here each place has
        # its own, so that it draws its own mask.
        places = zip(self.layers, self.dropouts[::2], self.dropouts[1::2], strict=True)
        for layer, first, second in places:
            x = x + first(layer.attention(layer.layernorm_before(x), visible)[0])
            x = x + second(layer.mlp(layer.layernorm_after(x)))
        return self.layernorm(select_positions(x, read))
