"""Two LSTMs: the layer-norm LSTM of Ba et al. (2016), and the one of the released code.

The paper sets its transformers against an LSTM (Tables 1 and 3, sections 3.1 and 3.3). The LSTM of
its released code [C: models/lstm.py] forgets within a few dozen steps whatever it reads
(`fpt.analysis.memory` measures it), so the comparison needs a standard one beside it. Both map
(N, T, width) to (N, T, width), where the N = K * B rows are the batches of K packed runs, one
run after the other. Order is in the recurrence: only the backbones `lstm-positions-*`, made like a
transformer, have a position table too. Both are causal and ignore the mask: padding follows the
tokens and cannot reach them.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, Dropout, select_positions

GROUPS = (
    (r"\.(input|hidden|cell)_norm\.", "layernorm"),
    (r"\.from_(input|hidden)\.|\.\d+\.bias$", "recurrent"),
)


class _Layer(nn.Module):
    """Two projections to the four gates, in the order input, forget, output, new; three norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(width, 4 * width)
        self.from_hidden = nn.Linear(width, 4 * width)
        self.input_norm = nn.LayerNorm(4 * width)
        self.hidden_norm = nn.LayerNorm(4 * width)
        self.cell_norm = nn.LayerNorm(width)


class _StandardLayer(_Layer):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.bias = nn.Parameter(torch.empty(4 * width))  # after the norms, so it shifts the gates

    def forward(self, x: Tensor) -> Tensor:
        hidden = cell = x.new_zeros(x.shape[0], x.shape[2])
        outputs = []
        for driven in (self.input_norm(self.from_input(x)) + self.bias).unbind(1):
            out, cell = _update(driven + self.hidden_norm(self.from_hidden(hidden)), cell)
            hidden = out * self.cell_norm(cell).tanh()
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class _ReleasedLayer(_Layer):
    def __init__(self, width: int, dropout: Dropout) -> None:
        super().__init__(width)
        self.dropout = dropout
        for norm in (self.input_norm, self.hidden_norm, self.cell_norm):
            # The released norm divides by sqrt(unbiased variance + 1e-6). Up to a constant, which
            # `init_` puts into the gain, this is the biased variance with 1e-6 * (n - 1) / n.
            (n,) = norm.normalized_shape
            norm.eps = 1e-6 * (n - 1) / n

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        outputs = []
        for time, driven in enumerate(self.input_norm(self.from_input(x)).unbind(1)):
            out, cell = _update(driven + self.hidden_norm(self.from_hidden(hidden)), cell)
            cell = self.cell_norm(cell)  # carried forward: the memory is rescaled at every step
            hidden = self.dropout(out * cell.tanh(), time)  # carried forward with its holes
            outputs.append(hidden)
        return torch.stack(outputs, 1)


def _update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Output gate (N, width) and new raw cell (N, width) from the gates (N, 4 * width)."""
    width = cell.shape[1]
    # Splits, not slices: their backward passes are one concatenation each.
    gates, new = gates.split((3 * width, width), 1)
    keep, forget, out = gates.sigmoid().chunk(3, 1)
    return out, torch.addcmul(forget * cell, keep, new.tanh())


class LayerNormLSTM(nn.Module):
    """The standard layer-norm LSTM (Ba et al. 2016, arXiv:1607.06450), `layers` deep.

    Norms with gain 1 and bias 0 on both projections and on the cell where it leaves; the raw cell
    is carried; zero initial state; dropout between layers. The projections have biases, as in
    PyTorch's LSTM: a norm of a vector of zeros (a bit 0, the first hidden state) would multiply
    gradients by 1 / sqrt(eps) in every layer and step, up to overflow. A further bias comes after
    the norms; its forget gate starts at 1 (TensorFlow's layer-norm LSTM), the others at 0.

    `residual` adds the input of each layer, before dropout, to its output.
    """

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.width, self.draws, self.residual = spec.width, draws, spec.residual
        self.layers = nn.ModuleList(_StandardLayer(spec.width) for _ in range(spec.layers))
        self.dropouts = nn.ModuleList(Dropout(dropout, draws) for _ in range(spec.layers - 1))

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        for depth, layer in enumerate(self.layers):
            y = layer(self.dropouts[depth - 1](x) if depth else x)
            x = x + y if self.residual else y
        return select_positions(x, read)


class ReleasedLSTM(nn.Module):
    """The LSTM of the released code as it is shipped [C], there 3 layers of 768.

    It differs from the standard one in this: gains and biases of its norms start as
    U(+-1/sqrt(n)), so that all gates start near their middle; the *normalised* cell is carried;
    dropout falls on the recurrent state at every step, in every layer; the initial state of every
    forward pass is N(0, 1/width), in evaluation too. There the draw is a fixed one here, which
    makes an evaluation repeatable.
    """

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()
        self.width, self.draws = spec.width, draws
        self.layers = nn.ModuleList(
            _ReleasedLayer(spec.width, Dropout(dropout, draws)) for _ in range(spec.layers)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward`; N is a multiple of the number of runs of the pack."""
        runs = len(self.draws.seeds)
        assert runs > 0, "Draws.seeds does not name the runs of this pass"
        shape = (len(self.layers), 2, x.shape[0] // runs, self.width)
        state = self.draws.normal("lstm state", shape, x, self.training) / math.sqrt(self.width)
        # (K, layers, 2, B, width) -> per layer: hidden and cell, each (K * B, width)
        for layer, (hidden, cell) in zip(
            self.layers, state.permute(1, 2, 0, 3, 4).flatten(2, 3), strict=True
        ):
            x = layer(x, hidden, cell)
        return select_positions(x, read)


@torch.no_grad()
def init_(module: Any, draw: torch.Generator) -> None:
    """Fill every parameter of an LSTM, not yet packed, in place."""
    for layer in module.layers:
        bound = 1 / math.sqrt(module.width)
        for parameter in (*layer.from_input.parameters(), *layer.from_hidden.parameters()):
            parameter.uniform_(-bound, bound, generator=draw)
        for norm in (layer.input_norm, layer.hidden_norm, layer.cell_norm):
            if isinstance(layer, _ReleasedLayer):
                (n,) = norm.normalized_shape
                bound = 1 / math.sqrt(n)
                gain = math.sqrt((n - 1) / n) * bound  # see _ReleasedLayer
                norm.weight.uniform_(-gain, gain, generator=draw)
                norm.bias.uniform_(-bound, bound, generator=draw)
            else:
                norm.reset_parameters()  # gain 1, bias 0
        if isinstance(layer, _StandardLayer):
            layer.bias.zero_()
            layer.bias[module.width : 2 * module.width] = 1.0
