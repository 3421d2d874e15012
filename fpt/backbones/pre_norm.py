"""Pre-norm transformers of our own, for what transformers does not offer.

`vanilla` and `linformer` are the two small encoders of the paper's Table 7, both the encoder of
Long Range Arena (LRA); they differ in their attention alone. The Linformer (Wang et al. 2020,
arXiv:2006.04768) mixes the T keys of a layer into `rank` ones, and its values likewise, by a
learned matrix over positions; as in LRA's code, one matrix per layer serves keys, values and heads.
Table 7 quotes LRA for 3 layers, while the configurations that LRA released for this task have one
layer and differ between the two models; ours have 3 layers of one and the same size, and are read
at the last token, as every backbone here is, instead of at a class token in front.

`gpt2-unfused` is GPT-2 with queries, keys and values in separate tensors, which can be frozen one
by one (Dong et al. 2025, arXiv:2506.01115). Two variants: blocks without a feedforward layer, and
`fixed` attention, whose weights do not depend on the tokens. It has a query and a key per head and
position, drawn once, in place of those that are computed from a token; their scores are N(0, 1)
before the softmax. Dong et al. draw the mixing matrix of a head directly; ours has the rank of a
head, and needs no matrix of length by length.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, Gelu, select_positions, visible_keys

ENCODER_GROUPS = (
    (r"norm\.", "layernorm"),
    (r"\.attention\.", "attention"),
    (r"\.feedforward\.", "feedforward"),
)
UNFUSED_GROUPS = ((r"\.attention\.(query|key)(\.|$)", "query-key"), *ENCODER_GROUPS)


class Attention(nn.Module):
    """Attention of the family of `spec`: without biases among all tokens or `rank` mixtures of
    them (encoders), or with biases among the tokens so far, perhaps `fixed` (GPT-2)."""

    def __init__(self, spec: Backbone) -> None:
        super().__init__()

        def projection() -> nn.Linear:
            return nn.Linear(spec.width, spec.width, bias=spec.causal)

        def query_or_key() -> nn.Module | nn.Parameter:
            if spec.fixed:
                return nn.Parameter(torch.empty(spec.positions, spec.width))
            return projection()

        self.heads, self.causal, self.fixed = spec.heads, spec.causal, spec.fixed
        self.query, self.key = query_or_key(), query_or_key()
        self.value, self.out = projection(), projection()
        self.mix = nn.Parameter(torch.empty(spec.positions, spec.rank)) if spec.rank else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, T, width) -> (N, T, width). Causal attention ignores `mask` (N, T): padding follows
        the tokens."""
        value, visible = self.value(x), None if self.causal else visible_keys(mask)
        query, key = (
            part[None, : x.shape[1]] if isinstance(part, nn.Parameter) else part(x)
            for part in (self.query, self.key)
        )
        if self.mix is not None:
            mix = self.mix[: x.shape[1]].T  # (rank, T)
            if mask is not None:  # LRA lets padding in; then a run would depend on its batch mates
                key, value = (y.masked_fill(~mask[..., None], 0.0) for y in (key, value))
            key, value, visible = mix @ key, mix @ value, None
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (query, key, value)
        )
        if self.fixed:  # the same for all examples, so once
            y = causal_probabilities(query, key) @ value
        else:
            y = F.scaled_dot_product_attention(query, key, value, visible, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


def causal_probabilities(query: Tensor, key: Tensor) -> Tensor:
    """What each query takes from each key, (N, heads, T, T), of (N, heads, T, width of a head)."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1)


class Block(nn.Module):
    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        width = spec.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(spec)
        self.attention_dropout = Dropout(dropout, draws)
        self.feedforward: nn.Module | None = None
        if spec.feedforward:
            inner = (4 if spec.causal else 2) * width
            self.feedforward_norm = nn.LayerNorm(width)
            self.feedforward = nn.Sequential(
                nn.Linear(width, inner), Gelu(), nn.Linear(inner, width)
            )
            self.feedforward_dropout = Dropout(dropout, draws)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention_dropout.add(x, self.attention(self.attention_norm(x), mask))
        if self.feedforward is None:
            return x
        return self.feedforward_dropout.add(x, self.feedforward(self.feedforward_norm(x)))


class PreNormTransformer(nn.Module):
    """The blocks and a last norm; GPT-2 drops values of its input, too."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout, draws) if spec.causal else nn.Identity()
        self.layers = nn.ModuleList(Block(spec, draws, dropout) for _ in range(spec.layers))
        self.last_norm = nn.LayerNorm(spec.width)

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.last_norm(select_positions(x, read))


def encoder_init_(module: nn.Module, draw: torch.Generator) -> None:
    """LRA's initialisation: matrices U(+-sqrt(6 / (rows + columns))), norms 1 and 0, biases 0."""
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            parameter.uniform_(-bound, bound, generator=draw)
        else:
            parameter.fill_(float(name.endswith("norm.weight")))
