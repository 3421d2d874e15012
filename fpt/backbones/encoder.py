"""The two small encoders of the paper's Table 7: a plain transformer and a Linformer.

Both are the pre-norm encoder of Long Range Arena (LRA) and differ in their attention alone. The
Linformer (Wang et al. 2020, arXiv:2006.04768) mixes the T keys of a layer into `rank` ones, and
its values likewise, by a learned matrix over positions; as in LRA's code, one matrix per layer
serves keys, values and heads. Both are read at the last token as every backbone here is; LRA puts
a class token in front. Bidirectional; `positions` is a learned table, N(0, 0.02).

Table 7 quotes LRA for 3 layers, while the configurations that LRA released for this task have one
layer and differ between the two models; ours have 3 layers of one and the same size.
"""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Draws, Dropout, select_positions, visible_keys

if TYPE_CHECKING:
    from . import Backbone

GROUPS = (
    (r"norm\.", "layernorm"),
    (r"\.attention\.", "attention"),
    (r"\.feedforward\.", "feedforward"),
)


class Attention(nn.Module):
    """Attention of all tokens to all (rank 0), or to `rank` mixtures of them (Linformer)."""

    def __init__(self, width: int, heads: int, length: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mix = nn.Parameter(torch.empty(length, rank)) if rank else None

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(N, T, width) -> (N, T, width)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        visible = visible_keys(mask)
        if self.mix is not None:
            mix = self.mix[: x.shape[1]].T  # (rank, T)
            if mask is not None:  # LRA lets padding in; then a run would depend on its batch mates
                key, value = (y.masked_fill(~mask[..., None], 0.0) for y in (key, value))
            key, value, visible = mix @ key, mix @ value, None
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (query, key, value)
        )
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, spec: "Backbone", draws: Draws, dropout: float) -> None:
        super().__init__()
        width = spec.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, spec.heads, spec.positions, spec.rank)
        self.attention_dropout = Dropout(dropout, draws)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU("tanh"), nn.Linear(2 * width, width)
        )
        self.feedforward_dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention_dropout(self.attention(self.attention_norm(x), mask))
        return x + self.feedforward_dropout(self.feedforward(self.feedforward_norm(x)))


class Encoder(nn.Module):
    def __init__(self, spec: "Backbone", draws: Draws, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(spec, draws, dropout) for _ in range(spec.layers))
        self.last_norm = nn.LayerNorm(spec.width)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.last_norm(select_positions(x, read))


def init_(body: nn.Module, draw: torch.Generator) -> None:
    """LRA's initialisation: matrices U(+-sqrt(6 / (rows + columns))), norms 1 and 0, biases 0."""
    for name, parameter in body.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            parameter.uniform_(-bound, bound, generator=draw)
        else:
            parameter.fill_(float(name.endswith("norm.weight")))
