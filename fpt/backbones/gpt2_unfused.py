"""GPT-2 with queries, keys and values in separate tensors, for the controls of its attention.

The same blocks as `gpt2`; separate tensors can be frozen one by one (Dong et al. 2025,
arXiv:2506.01115). Two variants: `fixed` attention, whose weights do not depend on the tokens, and
blocks without a feedforward layer.

Fixed attention has a query and a key per head and position, drawn once, in place of those that are
computed from a token; their scores are N(0, 1) before the softmax. Dong et al. draw the mixing
matrix of a head directly; ours has the rank of a head, and needs no matrix of length by length.
"""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import Draws, Dropout, Gelu, select_positions

if TYPE_CHECKING:
    from . import Backbone

GROUPS = (
    (r"norm\.", "layernorm"),
    (r"\.attention\.(query|key)(\.|$)", "query-key"),
    (r"\.attention\.", "attention"),
    (r"\.feedforward\.", "feedforward"),
)


class Attention(nn.Module):
    """Causal attention; `fixed`: by position alone, `positions` of them at most."""

    def __init__(self, width: int, heads: int, positions: int, fixed: bool) -> None:
        super().__init__()
        self.heads, self.fixed = heads, fixed
        self.query: nn.Module | nn.Parameter
        self.key: nn.Module | nn.Parameter
        if fixed:
            self.query = nn.Parameter(torch.empty(positions, width))
            self.key = nn.Parameter(torch.empty(positions, width))
        else:
            self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def weights(self, x: Tensor) -> Tensor:
        """Attention probabilities (N, heads, T, T): what each query takes from each key. Fixed
        attention uses only the length of x (N, T, width), and N is 1."""
        length = x.shape[1]
        query, key = self._pair(x)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) -> (N, T, width)."""
        value = self._by_head(self.value(x))
        if self.fixed:  # the same for all examples, so once
            y = self.weights(x) @ value
        else:
            y = F.scaled_dot_product_attention(*self._pair(x), value, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def _pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys, each (N or 1, heads, T, width of a head)."""
        parts = [
            part[None, : x.shape[1]] if isinstance(part, nn.Parameter) else part(x)
            for part in (self.query, self.key)
        ]
        return self._by_head(parts[0]), self._by_head(parts[1])

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, spec: "Backbone", draws: Draws, dropout: float) -> None:
        super().__init__()
        width = spec.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, spec.heads, spec.positions, spec.fixed)
        self.attention_dropout = Dropout(dropout, draws)
        if spec.feedforward:
            self.feedforward_norm = nn.LayerNorm(width)
            self.feedforward = nn.Sequential(
                nn.Linear(width, 4 * width), Gelu(), nn.Linear(4 * width, width)
            )
            self.feedforward_dropout = Dropout(dropout, draws)
        self.mixes_only = not spec.feedforward

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_dropout.add(x, self.attention(self.attention_norm(x)))
        if self.mixes_only:
            return x
        return self.feedforward_dropout.add(x, self.feedforward(self.feedforward_norm(x)))


class UnfusedGPT2(nn.Module):
    """GPT-2's blocks and last norm. Causal: a padding mask changes nothing while padding follows
    the tokens."""

    def __init__(self, spec: "Backbone", draws: Draws, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout, draws)
        self.layers = nn.ModuleList(Block(spec, draws, dropout) for _ in range(spec.layers))
        self.last_norm = nn.LayerNorm(spec.width)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x)
        return self.last_norm(select_positions(x, read))


def init_(body: nn.Module, draw: torch.Generator) -> None:
    """GPT-2's flat initialisation: weights N(0, 0.02), biases 0, norms 1 and 0; fixed queries and
    keys N(0, 1)."""
    for name, parameter in body.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
        elif "norm." in name:
            parameter.fill_(1.0)
        else:
            std = 1.0 if name.endswith(("query", "key")) else 0.02
            parameter.normal_(0.0, std, generator=draw)
