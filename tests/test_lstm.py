"""The LSTM bodies: what they compute, their variants, and that packing changes nothing."""

import math
import re

import pytest
import torch
from test_pack import loop_of, trace
from tiny import spec
from torch import Tensor, nn

from fpt.backbones import BACKBONES, SIZES, Backbone, backbone, build, group_of
from fpt.backbones.layers import Draws
from fpt.backbones.lstm import GROUPS, LayerNormLSTM, ReleasedLSTM, init_

CPU = torch.device("cpu")
WIDTH, LENGTH, BATCH = 16, 7, 3
BODIES = pytest.mark.parametrize("kind", [LayerNormLSTM, ReleasedLSTM])
Body = LayerNormLSTM | ReleasedLSTM


def make(kind: type, layers: int = 2, width: int = WIDTH, dropout: float = 0.0) -> Body:
    body = kind(Backbone("", "lstm", layers, width), Draws(), dropout)
    init_(body, torch.Generator().manual_seed(1))
    body.draws.seeds = (0,)
    return body


def inputs(rows: int = BATCH, width: int = WIDTH) -> Tensor:
    return torch.randn(rows, LENGTH, width, generator=torch.Generator().manual_seed(2))


def masks(body: Body) -> list[Tensor]:
    """This step's factors of every site of dropout, (K, B, T, width)."""
    draws = body.draws
    return [draws.kept(site) / (1 - p) for site, p in enumerate(draws.sites)]


def test_without_norms_the_standard_body_is_the_lstm_of_torch() -> None:
    body = make(LayerNormLSTM)
    reference = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
    keep, forget, out, new = torch.arange(4 * WIDTH).split(WIDTH)
    order = torch.cat([keep, forget, new, out])  # torch orders its gates so
    with torch.no_grad():
        for depth, layer in enumerate(body.layers):
            layer.input_norm = layer.hidden_norm = layer.cell_norm = nn.Identity()
            getattr(reference, f"weight_ih_l{depth}").copy_(layer.from_input.weight[order])
            getattr(reference, f"weight_hh_l{depth}").copy_(layer.from_hidden.weight[order])
            getattr(reference, f"bias_ih_l{depth}").copy_(
                (layer.from_input.bias + layer.bias)[order]
            )
            getattr(reference, f"bias_hh_l{depth}").copy_(layer.from_hidden.bias[order])
    x = inputs()
    torch.testing.assert_close(body(x), reference(x)[0], atol=1e-5, rtol=0)


def test_the_standard_body_normalises_each_projection_and_the_leaving_cell_only() -> None:
    """One layer against the equations of Ba et al., with gains and biases away from 1 and 0."""
    body = make(LayerNormLSTM, layers=1)
    layer, draw, x = body.layers[0], torch.Generator().manual_seed(3), inputs()
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) / 3)

    def norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + module.eps).sqrt() * module.weight + module.bias

    hidden = cell = torch.zeros(BATCH, WIDTH)
    expected = []
    for time in range(LENGTH):
        gates = norm(layer.input_norm, layer.from_input(x[:, time]))
        gates = gates + norm(layer.hidden_norm, layer.from_hidden(hidden)) + layer.bias
        keep, forget, out, new = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + keep.sigmoid() * new.tanh()
        hidden = out.sigmoid() * norm(layer.cell_norm, cell).tanh()
        expected.append(hidden)
    torch.testing.assert_close(body(x), torch.stack(expected, 1), atol=1e-5, rtol=0)


def test_a_sequence_that_starts_with_zeros_has_an_ordinary_gradient() -> None:
    body = make(LayerNormLSTM)
    body(torch.zeros(BATCH, LENGTH, WIDTH)).square().mean().backward()
    norm = torch.stack([p.grad.norm() for p in body.parameters() if p.grad is not None]).norm()
    assert norm < 10


def test_the_standard_body_drops_between_its_layers_only() -> None:
    body, x = make(LayerNormLSTM, dropout=0.5), inputs()
    body.draws.begin((5,), 4, (BATCH, LENGTH, WIDTH), CPU)
    (mask,) = masks(body)
    lower, upper = body.layers
    assert body(x).equal(upper(lower(x) * mask[0]))


def test_the_released_body_follows_the_released_equations() -> None:
    """Unbiased variance plus 1e-6, cell normalised before it is carried, holes in the state."""
    body = make(ReleasedLSTM, dropout=0.3)
    x = y = inputs()
    body.draws.begin((5,), 4, (BATCH, LENGTH, WIDTH), CPU)
    drops = masks(body)
    assert all((mask == 0).any() for mask in drops)
    state = body.draws.normal("lstm state", (2, 2, BATCH, WIDTH), x, True)[0] / math.sqrt(WIDTH)

    def norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
        n = x.shape[-1]
        gain = module.weight / math.sqrt((n - 1) / n)  # the gain as the released code counts it
        scale = (x.var(-1, keepdim=True, correction=1) + 1e-6).sqrt()
        return (x - x.mean(-1, keepdim=True)) / scale * gain + module.bias

    for depth, layer in enumerate(body.layers):
        hidden, cell = state[depth]
        outputs = []
        for time in range(LENGTH):
            gates = norm(layer.input_norm, layer.from_input(y[:, time]))
            gates = gates + norm(layer.hidden_norm, layer.from_hidden(hidden))
            keep, forget, out, new = gates.chunk(4, -1)
            cell = forget.sigmoid() * cell + keep.sigmoid() * new.tanh()
            cell = norm(layer.cell_norm, cell)
            hidden = out.sigmoid() * cell.tanh() * drops[depth][0, :, time]
            outputs.append(hidden)
        y = torch.stack(outputs, 1)
    torch.testing.assert_close(body(x), y, atol=1e-6, rtol=0)


def test_initial_values() -> None:
    standard, released = make(LayerNormLSTM, width=64), make(ReleasedLSTM, width=64)
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


@BODIES
def test_built_without_values_then_filled_is_the_same_body(kind: type) -> None:
    with torch.device("meta"):
        body = kind(Backbone("", "lstm", 2, WIDTH), Draws(), 0.0)
    assert all(parameter.is_meta for parameter in body.parameters())
    body.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.fill_(torch.nan)
    init_(body, torch.Generator().manual_seed(1))
    body.draws.seeds = (0,)
    assert body(inputs()).equal(make(kind)(inputs()))
    init_(body, torch.Generator().manual_seed(2))
    assert not body(inputs()).equal(make(kind)(inputs()))


@BODIES
def test_every_parameter_is_in_one_group_and_gets_a_gradient(kind: type) -> None:
    body = make(kind)
    body(inputs()).square().sum().backward()
    groups: dict[str, int] = {}
    for name, parameter in body.named_parameters():
        (group,) = (group for pattern, group in GROUPS if re.search(pattern, name))
        groups[group] = groups.get(group, 0) + parameter.numel()
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name
    # per layer: three norms of 4w, 4w and w; two matrices of 4w * w; three biases, or two, of 4w
    biases = 3 if kind is LayerNormLSTM else 2
    recurrent = 2 * (8 * WIDTH**2 + 4 * WIDTH * biases)
    assert groups == {"layernorm": 2 * 18 * WIDTH, "recurrent": recurrent}


@BODIES
@pytest.mark.parametrize("training", [True, False])
def test_a_run_gets_the_same_alone_and_in_a_pack(kind: type, training: bool) -> None:
    body = make(kind, dropout=0.2).train(training)
    x, shape = inputs(3 * BATCH), (BATCH, LENGTH, WIDTH)
    body.draws.begin((7, 8, 9), 5, shape, CPU)
    packed = body(x).split(BATCH)
    for rows, seed, together in zip(x.split(BATCH), (7, 8, 9), packed, strict=True):
        body.draws.begin((seed,), 5, shape, CPU)
        torch.testing.assert_close(body(rows), together, atol=1e-6, rtol=0)
    body.draws.begin((9,), 6, shape, CPU)
    next_step = body(x[-BATCH:])
    assert torch.allclose(next_step, packed[-1], atol=1e-6) is not training


def test_the_initial_state_of_an_example_depends_on_neither_pack_nor_batch() -> None:
    """Examples 60 to 69 of a split, in one batch and in two, alone and beside another run."""
    body = make(ReleasedLSTM).eval()
    x = torch.randn(10, LENGTH, WIDTH)
    body.draws.seeds, body.draws.first = (4,), 60
    alone = body(x)
    parts = []
    for first, rows in ((60, x[:3]), (63, x[3:])):
        body.draws.first = first
        parts.append(body(rows))
    torch.testing.assert_close(torch.cat(parts), alone)
    body.draws.seeds, body.draws.first = (3, 4), 60
    torch.testing.assert_close(body(x.repeat(2, 1, 1))[10:], alone)


def test_the_released_initial_state_is_random_and_keyed_by_run() -> None:
    body = make(ReleasedLSTM).eval()
    x = inputs()
    first = body(x)
    assert first.equal(body(x))
    body.draws.seeds = (1,)
    assert not torch.allclose(body(x), first, atol=1e-4)


@BODIES
def test_what_follows_does_not_change_what_was_read(kind: type) -> None:
    """Why a padding mask is not needed."""
    body, x = make(kind).eval(), inputs()
    other = x.clone()
    other[:, -2:] = 5.0
    mask = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    mask[:, -2:] = False
    before, after = body(x), body(other, mask)
    torch.testing.assert_close(before[:, :-2], after[:, :-2], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-6)


# ------------------------------------------------------- made more like a transformer


def residual_body(layers: int = 3, dropout: float = 0.0) -> LayerNormLSTM:
    body = LayerNormLSTM(Backbone("", "lstm", layers, WIDTH, residual=True), Draws(), dropout)
    init_(body, torch.Generator().manual_seed(1))
    return body


def test_layers_that_say_nothing_leave_a_residual_body_the_identity() -> None:
    body = residual_body()
    with torch.no_grad():
        for layer in body.layers:
            layer.cell_norm.weight.zero_()  # what leaves a cell is tanh(0)
    x = inputs()
    assert body(x).equal(x)
    body.residual = False
    assert body(x).eq(0).all()


def test_a_residual_body_adds_what_each_layer_was_given() -> None:
    """The dropout falls on what a layer hears, as in the plain body, not on what is added."""
    body, x = residual_body(2, dropout=0.5), inputs()
    body.draws.begin((5,), 4, (BATCH, LENGTH, WIDTH), CPU)
    (mask,) = masks(body)
    lower, upper = body.layers
    y = x + lower(x)
    assert body(x).equal(y + upper(y * mask[0]))


@pytest.mark.parametrize("size", [size for size, (layers, _, _) in SIZES.items() if layers > 3])
def test_the_steps_from_the_lstm_to_the_transformer(size: str) -> None:
    """Each has what the one before has and one thing more; the last has the transformer's."""
    transformer = backbone(size)
    plain, deep, residual, positions, matched = (
        backbone(f"lstm-{step}{size}")
        for step in ("", "deep-", "residual-", "positions-", "matched-")
    )
    assert {body.width for body in (plain, deep, residual, positions, matched)} == {
        transformer.width
    }
    assert (plain.layers, plain.residual, plain.positions) == (3, False, 0)
    assert (deep.layers, deep.residual, deep.positions) == (transformer.layers, False, 0)
    assert (residual.layers, residual.residual, residual.positions) == (deep.layers, True, 0)
    assert (positions.layers, positions.residual) == (deep.layers, True)
    assert positions.positions == transformer.positions
    assert (matched.residual, matched.positions) == (False, 0)
    assert set(positions.groups) - set(residual.groups) == {"positions"}
    for body in (deep, residual, positions, matched):
        made = build(body)
        assert isinstance(made, LayerNormLSTM)
        assert (len(made.layers), made.residual) == (body.layers, body.residual)


def test_the_transformer_of_the_paper_gives_twelve_layers() -> None:
    assert backbone("lstm-deep-small").layers == backbone("gpt2").layers == 12
    assert backbone("lstm-matched-small").layers == 18


@pytest.mark.parametrize("kind", ["deep", "residual", "matched"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_deep_bodies_have_finite_states_and_gradients(kind: str, value: float) -> None:
    """12 and 18 layers as at the paper's size, narrower and on constant input: bits that stay."""
    layers = backbone(f"lstm-{kind}-small").layers
    spec_ = Backbone("", "lstm", layers, WIDTH, residual=kind == "residual")
    body = LayerNormLSTM(spec_, Draws(), 0.0)
    init_(body, torch.Generator().manual_seed(1))
    x = torch.full((2, 40, WIDTH), value, requires_grad=True)
    hidden = body(x)
    assert hidden.isfinite().all()
    hidden[:, -1].sum().backward()
    for parameter in (x, *body.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert x.grad is not None
    assert x.grad[:, -1].abs().max() > 0


def test_a_table_of_positions_is_trained_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in a pack get what they get alone, and their tables part."""
    body = Backbone("lstm-with-positions", "lstm", 2, WIDTH, positions=64, residual=True)
    monkeypatch.setitem(BACKBONES, body.name, body)
    assert body.groups == ("output", "layernorm", "input", "positions", "recurrent")
    names = [name for name, _ in build(body).named_parameters()]
    assert {group_of(body, name) for name in names} == {"layernorm", "recurrent"}
    common = {"backbone": body.name, "trainable": ("input", "output", "positions"), "seed": 3}
    specs = [spec(lr=0.01, **common), spec(lr=0.03, **common)]
    loop = loop_of(*specs)
    columns = loop.rows.columns()["positions"]
    start = loop.rows.values[:, columns].clone()
    assert start[0].equal(start[1])
    assert start.shape[1] == 4 * WIDTH  # the four tokens of the task
    assert 0.015 < start.std() < 0.025
    loss, _, values = trace(loop, 4)
    table = values[:, columns]
    for row, run in enumerate(specs):
        assert (table[row] - start[row]).abs().max() > run.lr / 10
        alone, _, single = trace(loop_of(run), 4)
        torch.testing.assert_close(loss[:, row], alone[:, 0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(values[row], single[0], rtol=0, atol=3e-2 * run.lr)
