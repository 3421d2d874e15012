"""How far back a body hears: the vanishing memory of an LSTM, measured (section 3.3).

The paper finds its random transformers far ahead of its random LSTM. The LSTM of the released code
forgets within a few dozen tokens by its construction; here that is a number for any body, frozen
and as it starts. That an early token does not move the last hidden state says that it cannot be
read out; that it moves it does not say that it can. A gradient that grows with distance is chaos
in the recurrence rather than memory; what a cell itself keeps is in `gates`.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ..backbones import backbone, build
from ..backbones.initialisations import body_state
from ..backbones.layers import Draws
from ..backbones.lstm import LayerNormLSTM, ReleasedLSTM
from ..files import FptError
from ..report.style import INK, LOOKS, MUTED, styled
from ..report.table import label
from ..tasks.rng import generator

LEVEL = 1e-3  # of the gradient one token back: below it a token counts as forgotten
SHOWN = 1e-6  # the figure ends here


def started(
    name: str, init: str, weights: str | None, seed: int, length: int, samples: int
) -> tuple[nn.Module, Tensor]:
    """The body of backbone `name` as it starts, and what it reads: `samples` sequences of standard
    normal vectors, as an embedding starts, plus its positions, (samples, length, width).

    In double precision, since the released LSTM's gradients fall below the reach of single; without
    dropout. FptError where `length` is more than the body has positions for.
    """
    spec = backbone(name)
    if spec.positions and length > spec.positions:
        raise FptError(
            f"Backbone {name!r} takes at most {spec.positions} tokens; its memory was asked for "
            f"over {length}."
        )
    draws = Draws()
    draws.seeds = (seed,)  # the released LSTM's initial state is random, in evaluation too
    body = build(spec, draws)
    state = body_state(spec, body, init, weights, seed)
    positions = state.pop("positions", None)
    body.load_state_dict(state, assign=True)
    shape = (samples, length, spec.width)
    draw = generator("cpu", seed, "memory", "inputs")
    inputs = torch.randn(shape, dtype=torch.double, generator=draw)
    if positions is not None:
        inputs += positions[:length]
    return body.double().eval().requires_grad_(False), inputs


def influence(body: nn.Module, inputs: Tensor, directions: Tensor) -> Tensor:
    """Gradient of the last hidden state by the input vector at distance 0, 1, ... before it, (T,).

    For `inputs` (N, T, width) and `directions` (N, width) of standard normal numbers: the gradient
    of the hidden state along a direction, its norm squared and averaged over N, is in expectation
    the squared Frobenius norm of the Jacobian; its root is returned.
    """
    inputs = inputs.clone().requires_grad_()
    along = (body(inputs)[:, -1] * directions).sum()
    (gradient,) = torch.autograd.grad(along, inputs)
    return gradient.square().sum(2).mean(0).sqrt().flip(0)


def memory(
    name: str,
    init: str = "random",
    weights: str | None = None,
    seed: int = 0,
    length: int = 256,
    samples: int = 8,
) -> pd.DataFrame:
    """The gradient of the last hidden state of backbone `name` by the token `distance` back.

    One row per distance from 0 to length - 1: `gradient` as in `influence`, and `relative` to that
    of distance 1, the nearest token that has to be remembered. Not to distance 0, because residual
    connections carry the last token to the output past all layers, and in a transformer past all
    attention.
    """
    body, inputs = started(name, init, weights, seed, length, samples)
    draw = generator("cpu", seed, "memory", "directions")
    directions = torch.randn(samples, inputs.shape[2], dtype=torch.double, generator=draw)
    gradient = influence(body, inputs, directions)
    relative = gradient / gradient[1]
    return pd.DataFrame(
        {"distance": range(length), "gradient": gradient.tolist(), "relative": relative.tolist()}
    )


def memory_length(frame: pd.DataFrame, level: float = LEVEL) -> int:
    """The distance from which on the relative gradient stays below `level`.

    Censored: a memory that reaches over the whole sequence gives its length, one more than the
    largest distance, and is at least that long. So does a gradient that grows.
    """
    return int(frame.loc[frame["relative"] >= level, "distance"].max()) + 1


def gates(
    name: str,
    init: str = "random",
    weights: str | None = None,
    seed: int = 0,
    length: int = 256,
    samples: int = 8,
) -> pd.DataFrame:
    """What the cells of an LSTM keep from one step to the next, one row per `layer`, from 0.

    `forget`, `low` and `high` are the mean and the 5th and 95th percentile of the forget gate, over
    units, steps and samples. A unit of the cell is multiplied by a factor as it is carried on: the
    forget gate, and in the released LSTM also the gain of its norm over the standard deviation of
    the cell. A memory in a unit falls by the geometric mean of its factors per step: `carry` is
    that of the median unit, `slowest` that of the unit which keeps longest.
    """
    body, inputs = started(name, init, weights, seed, length, samples)
    if not isinstance(body, LayerNormLSTM | ReleasedLSTM):
        raise FptError(f"Backbone {name!r} has no forget gate; choose an LSTM.")
    rows = []
    for depth, layer in enumerate(body.layers):
        forget, carry = kept(body, layer, inputs)
        low, high = np.quantile(forget.numpy(), (0.05, 0.95))
        units = carry.log().mean((0, 1)).exp().numpy()
        rows.append((depth, forget.mean().item(), low, high, np.median(units), units.max()))
    return pd.DataFrame(rows, columns=["layer", "forget", "low", "high", "carry", "slowest"])


@torch.no_grad()
def kept(body: LayerNormLSTM | ReleasedLSTM, layer: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Forget gate, and the factor of the cell, in every step of a layer, (N, T, width) each."""
    driven: list[Tensor] = []  # one for all steps
    recurrent: list[Tensor] = []
    cells: list[Tensor] = []  # raw, as they enter the norm
    hooks = [
        layer.input_norm.register_forward_hook(lambda _, given, made: driven.append(made)),
        layer.hidden_norm.register_forward_hook(lambda _, given, made: recurrent.append(made)),
        layer.cell_norm.register_forward_pre_hook(lambda _, given: cells.append(given[0])),
    ]
    try:
        body(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    values = driven[0] + torch.stack(recurrent, 1)
    if isinstance(body, LayerNormLSTM):
        forget = (values + layer.bias).chunk(4, 2)[1].sigmoid()
        return forget, forget  # the raw cell is carried
    forget = values.chunk(4, 2)[1].sigmoid()
    norm = layer.cell_norm
    variance = torch.stack(cells, 1).var(2, keepdim=True, correction=0)
    return forget, forget * norm.weight.abs() / (variance + norm.eps).sqrt()


def memory_figure(frame: pd.DataFrame) -> Figure:
    """Relative gradient by distance, from `memory` of several arms with a column `arm`."""
    with styled():
        figure = Figure(figsize=(6.4, 3.6))
        axes = figure.subplots()
        for arm, mine in frame[frame["distance"] > 0].groupby("arm", sort=False):
            look = LOOKS[str(arm)]
            axes.plot(
                mine["distance"], mine["relative"], color=look.colour, ls=look.line, lw=1.6,
                marker=look.marker, mfc=look.face, ms=5,
                markevery=max(1, len(mine) // 8), label=_line(str(arm), mine),
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_ylim(bottom=SHOWN)
        axes.axhline(LEVEL, color=INK, lw=1.0, ls=(0, (2, 1)))
        last = frame["distance"].max()
        axes.annotate(
            "below: forgotten", (last, LEVEL), (0, -3), textcoords="offset points",
            color=MUTED, fontsize=8, va="top", ha="right",
        )  # fmt: skip
        axes.set_xlim(0, last + 1)
        axes.set_xlabel("tokens back")
        axes.set_ylabel("gradient of the last hidden state,\nrelative to one token back")
        figure.legend(loc="outside upper left")
    return figure


def _line(arm: str, frame: pd.DataFrame) -> str:
    reach, length = memory_length(frame), int(frame["distance"].max()) + 1
    return f"{label(arm)}: " + (
        f"{reach} tokens" if reach < length else f"at least {length} tokens"
    )
