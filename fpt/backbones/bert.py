"""BERT through transformers: the encoder alone, fed with vectors instead of token ids.

The published model adds word, position and token-type vectors, then applies a norm and dropout.
Here positions are added before the body, so the body begins with the token-type vector (of the
first segment, the only one there is) and that norm. Bidirectional: padding is masked. `positions`
is the published table of 512 absolute positions.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .common import at, keys_seen
from .dropout import Draws, Dropout

if TYPE_CHECKING:
    from . import Backbone

GROUPS = (
    (r"(^embedding_norm|\.LayerNorm)\.", "layernorm"),
    (r"\.attention\.", "attention"),
    (r"\.(intermediate|output)\.", "feedforward"),
    (r"^token_type\.", "embeddings"),
)


class BertBody(nn.Module):
    """BERT's embedding norm and blocks. With `window`, a token sees that many around it, half on
    either side, and itself: a Longformer without global attention."""

    def __init__(
        self, spec: "Backbone", draws: Draws, dropout: float, eps: float, window: int = 0
    ) -> None:
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
            attention_probs_dropout_prob=0.0,  # 0 in every body: a named deviation
            layer_norm_eps=eps,
        )
        bert: Any = BertModel(config, add_pooling_layer=False)
        self.reach = window // 2
        self.token_type = bert.embeddings.token_type_embeddings
        self.embedding_norm = bert.embeddings.LayerNorm
        self.dropout = Dropout(dropout, draws)
        self.layers = bert.encoder.layer
        for layer in self.layers:
            layer.attention.output.dropout = Dropout(dropout, draws)
            layer.output.dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """(N, T, width) -> (N, T, width), or (N, R, width) at the positions `read` (N, R).
        `mask` (N, T): True = a real token."""
        seen = self.seen(x, mask)
        x = self.dropout(self.embedding_norm(x + self.token_type.weight))
        for layer in self.layers:
            x = layer(x, seen)
        return at(x, read)

    def seen(self, x: Tensor, mask: Tensor | None) -> Tensor | None:
        """The keys that each query sees, (N or 1, 1, T or 1, T); None: all."""
        keys = keys_seen(mask)
        if self.reach == 0 or x.shape[1] <= self.reach + 1:  # the window covers the sequence
            return keys
        place = torch.arange(x.shape[1], device=x.device)
        apart = (place[:, None] - place).abs()
        band = (apart <= self.reach)[None, None]
        # Far out in the padding there is no key, and some kernels make NaN of a query without one.
        return band if keys is None else (band & keys) | (apart == 0)


def load(spec: "Backbone", stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint of BERT or of a model around it, by our names. The oldest call gain and bias
    gamma and beta."""
    del spec
    found = {_name(name): tensor for name, tensor in stored.items()}
    if "token_type.weight" in found:
        found["token_type.weight"] = found["token_type.weight"][:1]
    return found


def _name(name: str) -> str:
    name = re.sub(r"^(bert|longformer|roberta)\.", "", name)
    name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
    name = re.sub(r"^encoder\.layer\.", "layers.", name)
    name = re.sub(r"^embeddings\.LayerNorm\.", "embedding_norm.", name)
    name = re.sub(r"^embeddings\.token_type_embeddings\.", "token_type.", name)
    return re.sub(r"^embeddings\.position_embeddings\.weight$", "positions", name)


def build(spec: "Backbone", draws: Draws, dropout: float) -> nn.Module:
    return BertBody(spec, draws, dropout, eps=1e-12)
