"""What the transformers are compared with: two LSTMs, and no transformer at all.

**LSTMs**: the layer-norm LSTM of Ba et al. (2016), and the one of the released code. The
paper sets its transformers against the latter (Tables 1 and 3, sections 3.1 and 3.3). It
forgets within a few dozen steps whatever it reads, so the comparison needs a standard one
beside it. Order is in the recurrence: only the backbones `lstm-positions-*`, made like a
transformer, have a position table too.

**No transformer**: input and output net alone, a control (Tan et al. 2024,
arXiv:2406.16964). The output net reads the vector of the last token, or the mean of all
tokens up to it. If several positions are read, each has its own mean: one over the whole
sequence would give all of them the same answer.

All map (N, T, width) to (N, T, width), where the N = K * B rows are the batches of K packed
runs, one run after the other. All are causal and ignore the mask: padding follows the
tokens and cannot reach them.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .base import Backbone, Family, normal_init_, select_positions
from .dropout import Draws, Dropout


class LSTMLayer(nn.Module):
    """Two projections to the four gates, in the order input, forget, output, new; three
    norms.

    `dropout`, if there is one, falls on the input, or in the `released` LSTM on the state.
    """

    def __init__(self, width: int, released: bool, dropout: nn.Module | None) -> None:
        super().__init__()
        self.released = released
        self.dropout = dropout
        self.from_input = nn.Linear(width, 4 * width)
        self.from_hidden = nn.Linear(width, 4 * width)
        self.input_norm = nn.LayerNorm(4 * width)
        self.hidden_norm = nn.LayerNorm(4 * width)
        self.cell_norm = nn.LayerNorm(width)
        # A bias after the norms, so that it shifts the gates.
        self.bias = None if released else nn.Parameter(torch.empty(4 * width))
        if released:
            for norm in self.norms:
                # The released norm divides by sqrt(unbiased variance + 1e-6). Up to a
                # constant, which `init_` puts into the gain, this is the biased variance
                # with 1e-6 * (n - 1) / n.
                (n,) = norm.normalized_shape
                norm.eps = 1e-6 * (n - 1) / n

    @property
    def norms(self) -> tuple[nn.LayerNorm, nn.LayerNorm, nn.LayerNorm]:
        return self.input_norm, self.hidden_norm, self.cell_norm

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """(N, T, width) -> (N, T, width); `state` is the initial hidden and cell, (2, N,
        width)."""
        hidden, cell = state
        if self.dropout is not None and not self.released:
            x = self.dropout(x)
        driven = self.input_norm(self.from_input(x))
        if self.bias is not None:
            driven = driven + self.bias
        outputs = []
        for time, from_input in enumerate(driven.unbind(1)):
            gates = from_input + self.hidden_norm(self.from_hidden(hidden))
            # Splits, not slices: their backward passes are one concatenation each.
            gates, new = gates.split((3 * cell.shape[1], cell.shape[1]), 1)
            keep, forget, out = gates.sigmoid().chunk(3, 1)
            cell = torch.addcmul(forget * cell, keep, new.tanh())
            normal = self.cell_norm(cell)
            hidden = out * normal.tanh()
            if self.released:
                cell = normal  # carried forward: the memory is rescaled at every step
                hidden = hidden if self.dropout is None else self.dropout(hidden, time)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class LSTM(nn.Module):
    """The layer-norm LSTM of Ba et al. (2016, arXiv:1607.06450), or that of the released
    code.

    **Standard.** Norms with gain 1 and bias 0 on both projections and on the cell where it
    leaves; the raw cell is carried; zero initial state; dropout between layers. The
    projections have biases, as in PyTorch's LSTM: a norm of a vector of zeros (a bit 0, the
    first hidden state) would multiply gradients by 1 / sqrt(eps) in every layer and step,
    up to overflow. A further bias comes after the norms; its forget gate is initialised to
    1 (TensorFlow's layer-norm LSTM), the others to 0. `residual` adds the input of each
    layer, before dropout, to its output.

    **Released** [C], there 3 layers of 768. It differs in this: gains and biases of its
    norms are initialised as U(+-1/sqrt(n)), so that all gates are near their middle; the
    *normalised* cell is carried; dropout falls on the recurrent state at every step, in
    every layer; the initial state of every forward pass is N(0, 1/width), in evaluation
    too. There the draw is a fixed one here, which makes an evaluation repeatable.
    """

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.width = architecture.width
        self.draws = draws
        self.residual = architecture.residual
        self.released = architecture.family == "lstm-released"
        self.layers = nn.ModuleList(
            LSTMLayer(
                architecture.width,
                self.released,
                Dropout(dropout, draws) if self.released or depth else None,
            )
            for depth in range(architecture.layers)
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward`; N is a multiple of the number of runs of the
        pack."""
        for layer, state in zip(self.layers, self.initial_state(x), strict=True):
            y = layer(x, state)
            x = x + y if self.residual else y
        return select_positions(x, read)

    def initial_state(self, x: Tensor) -> Tensor:
        """Hidden and cell of every layer before the first token, (layers, 2, N, width)."""
        if not self.released:
            return x.new_zeros(len(self.layers), 2, len(x), self.width)
        shape = (len(self.layers), 2, len(x) // len(self.draws.seeds), self.width)
        state = self.draws.normal("lstm state", shape, x, self.training) / math.sqrt(
            self.width
        )
        return state.permute(1, 2, 0, 3, 4).flatten(2, 3)  # from (K, layers, 2, B, width)


@torch.no_grad()
def lstm_init_(module: Any, draw: torch.Generator) -> None:
    """Fill every parameter of an LSTM, not yet packed, in place."""
    width = module.width
    for layer in module.layers:
        bound = 1 / math.sqrt(width)
        for parameter in (*layer.from_input.parameters(), *layer.from_hidden.parameters()):
            parameter.uniform_(-bound, bound, generator=draw)
        for norm in layer.norms:
            norm.reset_parameters()  # gain 1, bias 0
            if module.released:
                (n,) = norm.normalized_shape
                bound = 1 / math.sqrt(n)
                # The norm divides by the biased variance.
                gain = math.sqrt((n - 1) / n) * bound
                norm.weight.uniform_(-gain, gain, generator=draw)
                norm.bias.uniform_(-bound, bound, generator=draw)
        if layer.bias is not None:
            layer.bias.zero_()
            layer.bias[width : 2 * width] = 1.0


class LastToken(nn.Module):
    """The identity."""

    def __init__(self, architecture: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        return select_positions(x, read)


class MeanToken(LastToken):
    """At each position the mean of the tokens so far. Padding follows them and has no
    effect."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None
    ) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return select_positions(x.cumsum(1) / count[:, None], read)


STANDARD = Family(
    LSTM,
    groups=(
        (r"\.(input|hidden|cell)_norm\.", "layernorm"),
        (r"\.from_(input|hidden)\.|\.\d+\.bias$", "recurrent"),
    ),
    causal=True,
    init_=lstm_init_,
)
FAMILIES = {
    "lstm": STANDARD,
    "lstm-released": STANDARD,
    "last-token": Family(LastToken, (), True, normal_init_),
    "mean-token": Family(MeanToken, (), True, normal_init_),
}
