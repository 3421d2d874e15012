"""BERT and Longformer through transformers: the encoder alone, fed with vectors instead of ids.

The published BERT adds word, position and token-type vectors, then applies a norm and dropout.
Here positions are added before the backbone, so the backbone begins with the token-type vector (of
the first segment, the only one there is) and that norm. Bidirectional: padding is masked.
`positions` is the published table of 512 absolute positions.

Longformer (Beltagy et al. 2020) is RoBERTa whose tokens see a window. Without global attention,
which the tasks here give no token, it is a BERT under a band mask: the same parameters by the same
names, the same numbers as transformers' model (tested). Its chunked attention would pad every
sequence to whole windows of 512; the band needs no padding. The projections for global attention
are left out. `positions` is the published table of 4,096.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, select_positions, visible_keys

GROUPS = (
    (r"(^embedding_norm|\.LayerNorm)\.", "layernorm"),
    (r"\.attention\.", "attention"),
    (r"\.(intermediate|output)\.", "feedforward"),
    (r"^token_type\.", "embeddings"),
)
# The oldest files call gain and bias gamma and beta.
RENAMED_NORMS = ((r"\.gamma$", ".weight"), (r"\.beta$", ".bias"))
RENAMED = (
    (r"^(bert|longformer|roberta)\.", ""),
    *RENAMED_NORMS,
    (r"^encoder\.layer\.", "layers."),
    (r"^embeddings\.LayerNorm\.", "embedding_norm."),
    (r"^embeddings\.token_type_embeddings\.", "token_type."),
    (r"^embeddings\.position_embeddings\.weight$", "positions"),
)
ROWS = {"token_type.weight": slice(1)}
LONGFORMER_ROWS = ROWS | {"positions": slice(2, None)}  # as RoBERTa, it leaves two rows unused


class BertBackbone(nn.Module):
    """BERT's embedding norm and blocks. With a window in `spec`, a token sees that many around it,
    half on either side, and itself: a Longformer."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        config = BertConfig(
            vocab_size=1,
            max_position_embeddings=1,
            type_vocab_size=1,
            hidden_size=spec.width,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.heads,
            intermediate_size=4 * spec.width,
            attention_probs_dropout_prob=0.0,  # 0 in every backbone: a named deviation
            layer_norm_eps=1e-5 if spec.window else 1e-12,
        )
        bert: Any = BertModel(config, add_pooling_layer=False)
        self.reach = spec.window // 2
        self.token_type = bert.embeddings.token_type_embeddings
        self.embedding_norm = bert.embeddings.LayerNorm
        self.dropout = Dropout(dropout, draws)
        self.layers = bert.encoder.layer
        for layer in self.layers:
            layer.attention.output.dropout = Dropout(dropout, draws)
            layer.output.dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        visible = self.visible(x, mask)
        x = self.dropout(self.embedding_norm(x + self.token_type.weight))
        for layer in self.layers:
            x = layer(x, visible)
        return select_positions(x, read)

    def visible(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        """The keys that each query sees, (N or 1, 1, T or 1, T); None: all."""
        keys = visible_keys(mask)
        if self.reach == 0 or x.shape[1] <= self.reach + 1:  # the window covers the sequence
            return keys
        place = torch.arange(x.shape[1], device=x.device)
        apart = (place[:, None] - place).abs()
        band = (apart <= self.reach)[None, None]
        # Far out in the padding there is no key, and some kernels make NaN of a query without one.
        return band if keys is None else (band & keys) | (apart == 0)
