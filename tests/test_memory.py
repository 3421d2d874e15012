"""The memory of a body: gradients checked by hand and against whole Jacobians."""

import math

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from fpt.analysis.memory import (
    LEVEL,
    SHOWN,
    gates,
    influence,
    kept,
    memory,
    memory_figure,
    memory_length,
    started,
)
from fpt.backbones import Backbone
from fpt.backbones.layers import Draws
from fpt.backbones.lstm import LayerNormLSTM, ReleasedLSTM, init_
from fpt.files import FptError
from fpt.report.style import LOOKS

WIDTH = 4


def one_cell(forget: float) -> LayerNormLSTM:
    """One layer without norms or recurrence; gates that are constant; nearly linear."""
    body = LayerNormLSTM(Backbone("", "lstm", 1, WIDTH), Draws(), 0.0)
    (layer,) = body.layers
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.zero_()
        layer.from_input.weight[3 * WIDTH :] = 1e-4 * torch.eye(WIDTH)
        layer.bias[WIDTH : 2 * WIDTH] = forget
    layer.input_norm = layer.hidden_norm = layer.cell_norm = nn.Identity()
    return body.double().eval()


def test_a_cell_alone_forgets_by_its_gate() -> None:
    """h = 1/2 tanh(c), c = f c + 1/2 tanh(1e-4 x): the gradient at distance t is 1e-4 f^t / 4, in
    each of 4 units; along a direction of ones, of norm 2 * 1e-4 f^t / 4."""
    f = 1 / (1 + math.exp(-0.7))
    x = torch.randn(3, 20, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    found = influence(one_cell(0.7), x, torch.ones(3, WIDTH, dtype=torch.double))
    expected = [2 * 1e-4 * f**t / 4 for t in range(20)]
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", [LayerNormLSTM, ReleasedLSTM])
def test_influence_is_the_norm_of_the_jacobian(kind: type) -> None:
    """With the basis as directions, which is what normal ones are on average."""
    body = kind(Backbone("", "lstm", 2, WIDTH), Draws(), 0.0).double()
    init_(body, torch.Generator().manual_seed(1))
    body.draws.seeds = (0,)
    x = torch.randn(1, 6, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    rows = []
    for row in range(WIDTH):
        directions = math.sqrt(WIDTH) * torch.eye(WIDTH, dtype=torch.double)[row : row + 1]
        rows.append(influence(body, x, directions).square())
    jacobian = torch.autograd.functional.jacobian(lambda x: body(x)[0, -1], x)[:, 0]
    expected = jacobian.square().sum((0, 2)).flip(0)  # (width, T, width)
    torch.testing.assert_close(torch.stack(rows).mean(0), expected)


def test_normal_directions_give_the_norm_of_the_jacobian_on_average(tiny) -> None:
    body, inputs = started("tiny", "random", None, 0, 5, 1)
    many = 4000
    draw = torch.Generator().manual_seed(0)
    directions = torch.randn(many, 16, dtype=torch.double, generator=draw)
    found = influence(body, inputs.expand(many, -1, -1), directions)
    jacobian = torch.autograd.functional.jacobian(lambda x: body(x)[0, -1], inputs)[:, 0]
    expected = jacobian.square().sum((0, 2)).sqrt().flip(0)
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0)


def test_positions_are_added_and_draws_are_repeatable(tiny) -> None:
    with_table, x = started("tiny", "random", None, 0, 6, 2)
    _, y = started("lstm-tiny", "random", None, 0, 6, 2)
    table = x - y
    assert torch.allclose(table[0], table[1])
    assert 0.01 < table.std() < 0.03
    assert not any(parameter.requires_grad for parameter in with_table.parameters())
    for name in ("tiny", "lstm-tiny", "lstm-released-tiny"):
        first, second = memory(name, length=6, samples=2), memory(name, length=6, samples=2)
        pd.testing.assert_frame_equal(first, second)
        assert first["distance"].tolist() == list(range(6))
        assert first["relative"][1] == 1
        np.testing.assert_allclose(
            first["relative"] * first["gradient"][1], first["gradient"], rtol=1e-12
        )
        assert not first["gradient"].equals(memory(name, seed=1, length=6, samples=2)["gradient"])


def test_the_released_lstm_forgets_where_others_do_not() -> None:
    """At three layers of 128 (nano)."""
    length = 96
    frames = {
        name: memory(name, length=length, samples=4)
        for name in ("lstm-released-nano", "lstm-nano", "lstm-residual-nano", "nano")
    }
    reach = {name: memory_length(frame) for name, frame in frames.items()}
    assert 10 < reach.pop("lstm-released-nano") < 70
    assert reach == dict.fromkeys(reach, length)
    # Attention spreads evenly at its start: no distance is far.
    assert frames["nano"]["relative"][1:].between(0.5, 2).all()


def test_the_length_of_a_memory() -> None:
    def frame(*relative: float) -> pd.DataFrame:
        return pd.DataFrame({"distance": range(len(relative)), "relative": relative})

    assert memory_length(frame(2.0, 1.0, 0.1, LEVEL, LEVEL / 2, 1e-9)) == 4
    assert memory_length(frame(2.0, 1.0, 1e-5, 0.1, 1e-5)) == 4  # a dip is not the end
    assert memory_length(frame(2.0, 1.0, 0.1)) == 3  # censored
    assert memory_length(frame(2.0, 1.0, 0.1, 0.01), level=0.05) == 3


@pytest.mark.parametrize("kind", [LayerNormLSTM, ReleasedLSTM])
def test_what_a_cell_keeps(kind: type) -> None:
    """Against the derivative of the new cell by the old one: its diagonal through the gate, and
    in the released cell through the gain of the norm, its mean and deviation held."""
    body = kind(Backbone("", "lstm", 1, WIDTH), Draws(), 0.0).double().eval()
    init_(body, torch.Generator().manual_seed(1))
    body.draws.seeds = (0,)
    (layer,) = body.layers
    x = torch.randn(2, 5, WIDTH, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    forget, factor = kept(body, layer, x)
    assert forget.shape == factor.shape == (2, 5, WIDTH)
    hidden = cell = torch.zeros(2, WIDTH, dtype=torch.double)
    if kind is ReleasedLSTM:
        state = body.draws.normal("lstm state", (1, 2, 2, WIDTH), x, False)[0, 0]
        hidden, cell = state / math.sqrt(WIDTH)
    for time in range(5):
        gates = layer.input_norm(layer.from_input(x[:, time]))
        gates = gates + layer.hidden_norm(layer.from_hidden(hidden))
        if kind is LayerNormLSTM:
            gates = gates + layer.bias
        keep, let, out, new = gates.chunk(4, 1)
        torch.testing.assert_close(forget[:, time], let.sigmoid())
        raw = let.sigmoid() * cell + keep.sigmoid() * new.tanh()
        scale = torch.ones_like(raw)
        if kind is ReleasedLSTM:
            mean = raw.mean(1, keepdim=True)
            deviation = (raw.var(1, keepdim=True, correction=0) + layer.cell_norm.eps).sqrt()
            scale = layer.cell_norm.weight.abs() / deviation
            cell = (raw - mean) / deviation * layer.cell_norm.weight + layer.cell_norm.bias
            hidden = out.sigmoid() * cell.tanh()
        else:
            cell = raw
            hidden = out.sigmoid() * layer.cell_norm(cell).tanh()
        torch.testing.assert_close(factor[:, time], let.sigmoid() * scale)


def test_gates_of_the_named_bodies() -> None:
    standard, released = (
        gates(name, length=24, samples=2) for name in ("lstm-nano", "lstm-released-nano")
    )
    for frame in (standard, released):
        assert frame["layer"].tolist() == [0, 1, 2]
        assert (frame["low"] < frame["forget"]).all()
        assert (frame["forget"] < frame["high"]).all()
        assert (frame["carry"] < frame["slowest"]).all()
    # All gates of the released cell are near their middle; a bias of 1 opens the standard one.
    assert released["low"].min() > 0.45
    assert released["high"].max() < 0.55
    assert standard["forget"].between(0.6, 0.75).all()
    assert (released["carry"] < standard["carry"]).all()


def test_what_cannot_be_measured_is_said(tiny) -> None:
    with pytest.raises(FptError, match="'tiny' takes at most 64 tokens; .* over 65"):
        memory("tiny", length=65)
    with pytest.raises(FptError, match="'tiny' has no forget gate"):
        gates("tiny", length=8)


def test_the_figure_has_a_line_per_arm_and_says_how_far_it_reaches() -> None:
    distance = np.arange(40)
    given = {"random": np.ones(40), "lstm": 1.1**distance, "lstm-released": 0.5**distance}
    frame = pd.concat(
        [pd.DataFrame({"arm": a, "distance": distance, "relative": r}) for a, r in given.items()]
    )
    figure = memory_figure(frame)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] == SHOWN
    lines = [line for line in axes.lines if len(line.get_xdata()) == 39]
    for line, (arm, relative) in zip(lines, given.items(), strict=True):
        assert matplotlib.colors.same_color(line.get_color(), LOOKS[arm].colour)
        np.testing.assert_array_equal(line.get_ydata(), relative[1:])
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert [text.rpartition(": ")[2] for text in texts] == [
        "at least 40 tokens",
        "at least 40 tokens",
        "10 tokens",
    ]
