"""The two LSTMs: what they compute, their variants, and that packing changes nothing."""

import math
import re

import numpy as np
import pytest
import torch
from test_pack import loop_of, trace
from tiny import columns_of, spec
from torch import Tensor, nn

from fpt import FrozenTransformer
from fpt.backbones import BACKBONES, Backbone, backbone, build, group_of
from fpt.backbones.dropout import Draws
from fpt.backbones.baselines import LSTM, LSTM_GROUPS as GROUPS, lstm_init_ as init_

CPU = torch.device("cpu")
WIDTH, LENGTH, BATCH = 16, 7, 3
FAMILIES = pytest.mark.parametrize("family", ["lstm", "lstm-released"])


def make(
    family: str = "lstm", layers: int = 2, width: int = WIDTH, dropout: float = 0.0, **form: bool
) -> LSTM:
    lstm = LSTM(Backbone("", family, layers, width, **form), Draws(), dropout)
    init_(lstm, torch.Generator().manual_seed(1))
    return lstm


def inputs(rows: int = BATCH) -> Tensor:
    return torch.randn(rows, LENGTH, WIDTH, generator=torch.Generator().manual_seed(2))


def masks(lstm: LSTM) -> list[Tensor]:
    """This step's factors of every site of dropout, (K, B, T, width)."""
    draws = lstm.draws
    return [draws.kept(site) / (1 - p) for site, p in enumerate(draws.sites)]


def by_hand(lstm: LSTM, x: Tensor, drops: list[Tensor]) -> Tensor:
    """The equations of Ba et al., or of the released code: unbiased variance plus 1e-6, the cell
    normalised before it is carried, holes in the state."""

    def norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
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
def test_both_follow_their_equations(family: str) -> None:
    """With dropout, and with gains and biases away from 1 and 0."""
    released = family == "lstm-released"
    lstm = make("lstm-released" if released else "lstm", 3, dropout=0.3, residual=family[0] == "r")
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) / 3)
    lstm.draws.seeds = (5,)
    lstm.draws.begin(4, (BATCH, LENGTH, WIDTH), CPU)
    drops = masks(lstm)
    assert len(drops) == (3 if released else 2)  # of the state, or between layers
    assert all((mask == 0).any() for mask in drops)
    x = inputs()
    torch.testing.assert_close(lstm(x), by_hand(lstm, x, drops), atol=1e-5, rtol=1e-5)


def test_without_norms_the_standard_one_is_the_lstm_of_torch() -> None:
    lstm = make()
    reference = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
    keep, forget, out, new = torch.arange(4 * WIDTH).split(WIDTH)
    order = torch.cat([keep, forget, new, out])  # torch orders its gates so
    with torch.no_grad():
        for depth, layer in enumerate(lstm.layers):
            layer.input_norm = layer.hidden_norm = layer.cell_norm = nn.Identity()
            theirs = {
                "weight_ih": layer.from_input.weight,
                "weight_hh": layer.from_hidden.weight,
                "bias_ih": layer.from_input.bias + layer.bias,
                "bias_hh": layer.from_hidden.bias,
            }
            for name, values in theirs.items():
                getattr(reference, f"{name}_l{depth}").copy_(values[order])
    x = inputs()
    torch.testing.assert_close(lstm(x), reference(x)[0], atol=1e-5, rtol=0)


def test_initial_values() -> None:
    standard, released = make(width=64), make("lstm-released", width=64)
    for layer in standard.layers:
        assert layer.bias.tolist() == [0.0] * 64 + [1.0] * 64 + [0.0] * 128
        for norm in (layer.input_norm, layer.hidden_norm, layer.cell_norm):
            assert norm.weight.eq(1).all()
            assert norm.bias.eq(0).all()
        assert 0.12 < layer.from_hidden.weight.abs().max() <= 0.125  # 1 / sqrt(64)
    for layer in released.layers:
        for norm, bound in ((layer.input_norm, 1 / 16), (layer.cell_norm, 1 / 8)):
            for parameter in norm.parameters():
                assert 0.9 * bound < parameter.abs().max() <= bound
        assert 0.1 < layer.from_input.bias.abs().max() <= 0.125


@FAMILIES
def test_every_parameter_is_filled_is_in_one_group_and_gets_a_gradient(family: str) -> None:
    spec_ = Backbone("", family, 2, WIDTH)
    with torch.device("meta"):
        lstm = LSTM(spec_, Draws(), 0.0)
    lstm.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.fill_(torch.nan)
    init_(lstm, torch.Generator().manual_seed(1))
    assert lstm(inputs()).equal(make(family)(inputs()))
    lstm(inputs()).square().sum().backward()
    groups: dict[str, int] = {}
    for name, parameter in lstm.named_parameters():
        (group,) = (group for pattern, group in GROUPS if re.search(pattern, name))
        groups[group] = groups.get(group, 0) + parameter.numel()
        assert parameter.grad is not None, name
        assert 0 < parameter.grad.abs().max() < math.inf, name
    # per layer: three norms of 4w, 4w and w; two matrices of 4w * w; three biases, or two, of 4w
    recurrent = 2 * (8 * WIDTH**2 + 4 * WIDTH * (2 if lstm.released else 3))
    assert groups == {"layernorm": 2 * 18 * WIDTH, "recurrent": recurrent}


@FAMILIES
@pytest.mark.parametrize("training", [True, False])
def test_a_run_gets_the_same_alone_and_in_a_pack(family: str, training: bool) -> None:
    lstm = make(family, dropout=0.2).train(training)
    x, shape = inputs(3 * BATCH), (BATCH, LENGTH, WIDTH)
    lstm.draws.seeds = (7, 8, 9)
    lstm.draws.begin(5, shape, CPU)
    packed = lstm(x).split(BATCH)
    for rows, seed, together in zip(x.split(BATCH), (7, 8, 9), packed, strict=True):
        lstm.draws.seeds = (seed,)
        lstm.draws.begin(5, shape, CPU)
        torch.testing.assert_close(lstm(rows), together, atol=1e-6, rtol=0)
    lstm.draws.begin(6, shape, CPU)
    next_step = lstm(x[-BATCH:])
    assert torch.allclose(next_step, packed[-1], atol=1e-6) is not training


def test_the_initial_state_of_an_example_depends_on_its_run_and_not_on_pack_or_batch() -> None:
    """Examples 60 to 69 of a split, in one batch and in two, alone and beside another run."""
    lstm = make("lstm-released").eval()
    x = torch.randn(10, LENGTH, WIDTH)
    lstm.draws.seeds, lstm.draws.first = (4,), 60
    alone = lstm(x)
    parts = []
    for first, rows in ((60, x[:3]), (63, x[3:])):
        lstm.draws.first = first
        parts.append(lstm(rows))
    torch.testing.assert_close(torch.cat(parts), alone)
    lstm.draws.seeds, lstm.draws.first = (3, 4), 60
    other, same = lstm(x.repeat(2, 1, 1)).split(10)
    torch.testing.assert_close(same, alone)
    assert not torch.allclose(other, alone, atol=1e-4)


def test_what_is_predicted_of_an_example_does_not_depend_on_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a fitted estimator too, however many examples it reads at a time."""
    X, y = np.random.default_rng(0).normal(size=(30, 4, 2)), np.arange(30) % 2
    made = FrozenTransformer("lstm-released-pico", init="random", steps=2).fit(X, y)
    whole = made.predict_proba(X)
    monkeypatch.setattr("fpt.training.fitted.EVAL_TOKENS", 28)  # seven examples
    np.testing.assert_allclose(made.predict_proba(X), whole, rtol=1e-4)


@FAMILIES
def test_what_follows_does_not_change_what_was_read(family: str) -> None:
    """Why a padding mask is not needed."""
    lstm, x = make(family).eval(), inputs()
    other = x.clone()
    other[:, -2:] = 5.0
    mask = torch.arange(LENGTH).expand(BATCH, -1) < LENGTH - 2
    before, after = lstm(x), lstm(other, mask)
    torch.testing.assert_close(before[:, :-2], after[:, :-2], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-6)


# ------------------------------------------------------- made more like a transformer


@pytest.mark.parametrize("kind", ["deep", "residual", "matched"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_deep_ones_have_finite_states_and_gradients(kind: str, value: float) -> None:
    """12 and 18 layers as at the paper's size, narrower and on constant input: bits that stay."""
    lstm = make(layers=backbone(f"lstm-{kind}-small").layers, residual=kind == "residual")
    x = torch.full((2, 40, WIDTH), value, requires_grad=True)
    hidden = lstm(x)
    assert hidden.isfinite().all()
    hidden[:, -1].square().mean().backward()
    gradients = [it.grad for it in (x, *lstm.parameters()) if it.grad is not None]
    assert len(gradients) == 1 + len([*lstm.parameters()])
    assert torch.stack([gradient.norm() for gradient in gradients]).norm() < 100
    assert gradients[0][:, -1].abs().max() > 0


def test_a_table_of_positions_is_trained_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in a pack get what they get alone, and their tables part."""
    with_table = Backbone("lstm-with-positions", "lstm", 2, WIDTH, positions=64, residual=True)
    monkeypatch.setitem(BACKBONES, with_table.name, with_table)
    assert with_table.groups == ("output", "layernorm", "input", "positions", "recurrent")
    names = [name for name, _ in build(with_table).named_parameters()]
    assert {group_of(with_table, name) for name in names} == {"layernorm", "recurrent"}
    common = {"backbone": with_table.name, "trainable": ("input", "output", "positions"), "seed": 3}
    specs = [spec(lr=0.01, **common), spec(lr=0.03, **common)]
    loop = loop_of(*specs)
    columns = columns_of(loop.rows)["positions"]
    start = loop.rows.values[:, columns].clone()
    assert start[0].equal(start[1])
    assert start.shape[1] == 4 * WIDTH  # the four tokens of the task
    assert 0.015 < start.std() < 0.025
    loss, _, values = trace(loop, 4)
    for row, run in enumerate(specs):
        assert (values[row, columns] - start[row]).abs().max() > run.lr / 10
        alone, _, single = trace(loop_of(run), 4)
        torch.testing.assert_close(loss[:, row], alone[:, 0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(values[row], single[0], rtol=0, atol=3e-2 * run.lr)
