"""T5's encoder through transformers, fed with vectors instead of token ids.

T5 has no table of absolute positions, and none is added: there is no `positions` group. Order is
in the relative bias of the first block's attention (buckets x heads), which all blocks use. Packed
runs share it, so it stays frozen; it is a group of its own, `relative`, that a run alone may
train. Its norms scale without shifting. Bidirectional: padding is masked.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, select_positions, visible_keys

GROUPS = (
    (r"layer_norm\.", "layernorm"),
    (r"\.relative_attention_bias\.", "relative"),
    (r"\.SelfAttention\.", "attention"),
    (r"\.DenseReluDense\.", "feedforward"),
)
RENAMED = ((r"^encoder\.", ""),)


class T5Backbone(nn.Module):
    """T5's encoder blocks and last norm. Dropout is where T5 has it on vectors of the model's
    width; inside the feedforward layers and on attention weights it is 0, a named deviation."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Stack

        super().__init__()
        config = T5Config(
            vocab_size=2,  # never embedded; the default end symbol must be one of them
            d_model=spec.width,
            d_kv=spec.width // spec.heads,
            d_ff=4 * spec.width,
            num_layers=spec.layers,
            num_heads=spec.heads,
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

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible, bias = visible_keys(mask), None
        x = self.first_dropout(x)
        for block in self.block:
            x, bias, _ = block(x, visible, bias)
        return self.last_dropout(self.final_layer_norm(select_positions(x, read)), read)


def init_(module: Any, draw: torch.Generator) -> None:
    """T5's default initialisation: N(0, 1 / inputs), queries divided by sqrt(width of a head) too,
    since nothing scales their products; norms 1."""
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
