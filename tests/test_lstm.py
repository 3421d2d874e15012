"""The two LSTMs: what they compute, their variants, and that packing changes nothing."""

import math

import numpy as np
import pytest
import torch
from test_pack import as_alone
from tiny import CPU, close, columns_of, spec

from fpt import FrozenTransformer
from fpt.backbones import BACKBONES, Backbone
from fpt.backbones.baselines import LSTM, lstm_init_
from fpt.backbones.dropout import Draws

WIDTH = 16
LENGTH = 7
BATCH = 3
SHAPE = (BATCH, LENGTH, WIDTH)


def make(family="lstm", layers=2, width=WIDTH, dropout=0.0, **form):
    lstm = LSTM(Backbone("", family, layers, width, **form), Draws(), dropout)
    lstm_init_(lstm, torch.Generator().manual_seed(1))
    return lstm


def inputs(rows=BATCH):
    return torch.randn(rows, LENGTH, WIDTH, generator=torch.Generator().manual_seed(2))


def by_hand(lstm, x, drops):
    """The equations of Ba et al., or of the released code: unbiased variance plus 1e-6, the cell
    normalised before it is carried, holes in the state."""

    def norm(module, x):
        n = x.shape[-1]
        if not lstm.released:
            variance = x.var(-1, keepdim=True, correction=0) + module.eps
            return (x - x.mean(-1, keepdim=True)) / variance.sqrt() * module.weight + module.bias
        gain = module.weight / math.sqrt((n - 1) / n)  # as the released code counts it
        scale = (x.var(-1, keepdim=True, correction=1) + 1e-6).sqrt()
        return (x - x.mean(-1, keepdim=True)) / scale * gain + module.bias

    for depth, (layer, (hidden, cell)) in enumerate(
        zip(lstm.layers, lstm.initial_state(x), strict=True)
    ):
        y = x * drops[depth - 1][0] if depth and not lstm.released else x
        outputs = []
        for time in range(LENGTH):
            gates = norm(layer.input_norm, layer.from_input(y[:, time]))
            gates = gates + norm(layer.hidden_norm, layer.from_hidden(hidden))
            gates = gates if lstm.released else gates + layer.bias
            keep, forget, out, new = gates.chunk(4, -1)
            cell = forget.sigmoid() * cell + keep.sigmoid() * new.tanh()
            normal = norm(layer.cell_norm, cell)
            hidden = out.sigmoid() * normal.tanh()
            if lstm.released:
                cell, hidden = normal, hidden * drops[depth][0, :, time]
            outputs.append(hidden)
        x = torch.stack(outputs, 1) + (x if lstm.residual else 0)
    return x


@pytest.mark.parametrize("family", ["lstm", "lstm-released", "residual"])
def test_both_follow_their_equations(family):
    """With dropout, and with gains and biases away from 1 and 0."""
    released = family == "lstm-released"
    residual = family == "residual"
    lstm = make("lstm-released" if released else "lstm", 3, dropout=0.3, residual=residual)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) / 3)
    draws = lstm.draws
    draws.begin(4, SHAPE, CPU)
    masks = [draws.kept(site) / (1 - p) for site, p in enumerate(draws.sites)]
    assert len(masks) == (3 if released else 2)  # of the state, or between layers
    assert all((mask == 0).any() for mask in masks)
    x = inputs()
    close(lstm(x), by_hand(lstm, x, masks), 1e-5, 1e-5)


def test_the_initial_state_of_an_example_depends_on_its_run_and_not_on_pack_or_batch():
    """Examples 60 to 69 of a split, in one batch and in two, alone and beside another run."""
    lstm = make("lstm-released").eval()
    x = torch.randn(10, LENGTH, WIDTH)

    def hidden(x, first, *seeds):
        lstm.draws.seeds = seeds
        lstm.draws.first = first
        return lstm(x)

    alone = hidden(x, 60, 4)
    torch.testing.assert_close(torch.cat([hidden(x[:3], 60, 4), hidden(x[3:], 63, 4)]), alone)
    mate, same = hidden(x.repeat(2, 1, 1), 60, 3, 4).split(10)
    torch.testing.assert_close(same, alone)
    assert not torch.allclose(mate, alone, atol=1e-4)


def test_a_prediction_does_not_depend_on_the_batch(monkeypatch):
    """Of a fitted estimator too, however many examples it reads at a time."""
    X = np.random.default_rng(0).normal(size=(30, 4, 2))
    model = FrozenTransformer("lstm-released-pico", init="random", steps=2).fit(
        X, np.arange(30) % 2
    )
    expected = model.predict_proba(X)
    monkeypatch.setattr("fpt.estimator.fitted.EVAL_TOKENS", 28)  # seven examples
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-4)


# ------------------------------------------------------- made more like a transformer


def test_a_table_of_positions_is_trained_per_run(monkeypatch):
    """Runs in a pack get what they get alone, and their tables part."""
    with_table = Backbone("lstm-with-positions", "lstm", 2, WIDTH, positions=64, residual=True)
    monkeypatch.setitem(BACKBONES, with_table.name, with_table)
    assert with_table.groups == ("output", "layernorm", "input", "positions", "recurrent")
    common = {"backbone": with_table.name, "trainable": ("input", "output", "positions"), "seed": 3}
    loop = as_alone([spec(lr=0.01, **common), spec(lr=0.03, **common)])
    tables = loop.rows.values[:, columns_of(loop.rows)["positions"]]
    assert tables.shape[1] == 4 * WIDTH  # the four tokens of the task
    assert not torch.equal(*tables)
