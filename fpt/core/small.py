"""Bodies of our own: LSTMs, Long Range Arena's two encoders, GPT-2 with queries and keys
apart, and no transformer at all.

**LSTMs**: the layer-norm LSTM of Ba et al. (2016, arXiv:1607.06450), and that of the
released code, which the paper sets its transformers against (Tables 1 and 3). It forgets
within a few dozen steps whatever it reads, so the comparison needs a standard one beside
it.

**Encoders**: `vanilla` and `linformer` of the paper's Table 7, both LRA's encoder. The
Linformer (Wang et al. 2020, arXiv:2006.04768) mixes the T keys of a layer into `rank` ones,
and its values likewise, by one learned matrix over positions for all heads.

**`gpt2-unfused`**: GPT-2 whose queries and keys can be frozen by themselves (Dong et al.
2025, arXiv:2506.01115), and blocks without a feedforward layer.

**No transformer** (Tan et al. 2024, arXiv:2406.16964): the output net reads the vector of
the last token, or the mean of all tokens up to it.

All but the encoders are causal and ignore padding, which follows what is read.
"""

import torch
from torch import Tensor, nn

from ..backbones import Backbone
from .draws import Body, Dropout, Masks


class LSTMLayer(nn.Module):
    """Two projections to the four gates, in the order input, forget, output, new; three
    norms.

    Standard: the raw cell is carried, and a bias comes after the norms. `released`: its
    normalised cell is carried, dropout falls on the recurrent state at every step, and its
    norms divide by sqrt(unbiased variance + 1e-6), which up to a constant in the gain is
    the biased variance with 1e-6 * (n - 1) / n.
    """

    def __init__(self, width: int, released: bool, masks: Masks | None) -> None:
        super().__init__()
        self.released = released
        self.masks = masks
        self.from_input = nn.Linear(width, 4 * width)
        self.from_hidden = nn.Linear(width, 4 * width)
        self.input_norm = nn.LayerNorm(4 * width)
        self.hidden_norm = nn.LayerNorm(4 * width)
        self.cell_norm = nn.LayerNorm(width)
        self.bias = None if released else nn.Parameter(torch.empty(4 * width))
        if released:
            for norm in (self.input_norm, self.hidden_norm, self.cell_norm):
                (n,) = norm.normalized_shape
                norm.eps = 1e-6 * (n - 1) / n

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """(B, T, width) -> (B, T, width), from hidden and cell (B, width) before it."""
        if self.masks is not None and not self.released:
            x = self.masks.drop(x)
        kept = self.masks.take() if self.masks is not None and self.released else None
        driven = self.input_norm(self.from_input(x))
        if self.bias is not None:
            driven = driven + self.bias
        outputs = []
        for time, from_input in enumerate(driven.unbind(1)):
            gates = from_input + self.hidden_norm(self.from_hidden(hidden))
            gates, new = gates.split((3 * cell.shape[1], cell.shape[1]), 1)
            keep, forget, out = gates.sigmoid().chunk(3, 1)
            cell = forget * cell + keep * new.tanh()
            normal = self.cell_norm(cell)
            hidden = out * normal.tanh()
            if self.released:
                cell = normal
                hidden = hidden if kept is None else hidden * kept[:, time].to(hidden.dtype)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class LSTM(Body):
    """Layers of an LSTM. The standard one starts from zeros and drops values between
    layers, `residual` adds the input of each layer to its output; the released one starts
    from noise N(0, 1/width), in evaluation too."""

    def __init__(self, architecture: Backbone, dropout: float) -> None:
        super().__init__(dropout)
        self.width = architecture.width
        self.residual = architecture.residual
        self.released = architecture.family == "lstm-released"
        self.noisy_layers = architecture.layers if self.released else 0
        self.layers = nn.ModuleList(
            LSTMLayer(
                architecture.width,
                self.released,
                self.masks if self.released or depth else None,
            )
            for depth in range(architecture.layers)
        )

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        state = x.new_zeros(len(self.layers), 2, len(x), self.width)
        if self.released and self.masks.noise is not None:
            state = self.masks.noise * self.width**-0.5
        for layer, (hidden, cell) in zip(self.layers, state.unbind(0), strict=True):
            y = layer(x, hidden, cell)
            x = x + y if self.residual else y
        return x


class Attention(nn.Module):
    """Attention without biases among all tokens, or `rank` mixtures of them (encoders), or
    with biases among the tokens so far (GPT-2)."""

    def __init__(self, architecture: Backbone) -> None:
        super().__init__()
        width, is_causal = architecture.width, architecture.causal
        self.heads = architecture.heads
        self.causal = is_causal
        self.query = nn.Linear(width, width, bias=is_causal)
        self.key = nn.Linear(width, width, bias=is_causal)
        self.value = nn.Linear(width, width, bias=is_causal)
        self.out = nn.Linear(width, width, bias=is_causal)
        mix = torch.empty(architecture.positions, architecture.rank)
        self.mix = nn.Parameter(mix) if architecture.rank else None

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """(B, T, width) -> (B, T, width)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        visible = None if self.causal or real is None else real[:, None, None]
        if self.mix is not None:
            if real is not None:
                # LRA lets padding in; then a run would depend on its batch mates.
                key = key * real[..., None]
                value = value * real[..., None]
            mix = self.mix[: x.shape[1]].T  # (rank, T)
            key, value, visible = mix @ key, mix @ value, None
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (query, key, value)
        )
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        if self.causal:
            visible = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        if visible is not None:
            scores = scores.masked_fill(~visible, -torch.inf)
        weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
        return self.out((weights @ value).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and, unless the architecture has none, a feedforward layer."""

    def __init__(self, architecture: Backbone, masks: Masks) -> None:
        super().__init__()
        width = architecture.width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(architecture)
        self.drop = Dropout(masks)
        self.feedforward: nn.Module | None = None
        if architecture.feedforward:
            inner = (4 if architecture.causal else 2) * width
            self.feedforward_norm = nn.LayerNorm(width)
            self.feedforward = nn.Sequential(
                nn.Linear(width, inner), nn.GELU("tanh"), nn.Linear(inner, width)
            )

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        x = x + self.drop(self.attention(self.attention_norm(x), real))
        if self.feedforward is None:
            return x
        return x + self.drop(self.feedforward(self.feedforward_norm(x)))


class PreNormTransformer(Body):
    """The blocks and a last norm; GPT-2 drops values of its input, too."""

    def __init__(self, architecture: Backbone, dropout: float) -> None:
        super().__init__(dropout)
        self.causal = architecture.causal
        self.layers = nn.ModuleList(
            Block(architecture, self.masks) for _ in range(architecture.layers)
        )
        self.last_norm = nn.LayerNorm(architecture.width)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if self.causal:
            x = self.masks.drop(x)
        for layer in self.layers:
            x = layer(x, real)
        return self.last_norm(x)


class LastToken(Body):
    """The vectors as they are."""

    def __init__(self, architecture: Backbone, dropout: float) -> None:
        super().__init__(dropout)


class MeanToken(LastToken):
    """At each position the mean of the tokens so far: one over the whole sequence would
    give all positions that are read the same answer."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return x.cumsum(1) / count[:, None]
