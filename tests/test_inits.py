"""Backbones that keep only part of a pretrained one: what stays, what goes, and who draws anew."""

from typing import get_args

import pytest
import torch
from refusals import refuses
from tiny import TINY, WEIGHTS, close, one_of, pretrained

from fpt.backbones import Backbone, build
from fpt.backbones.initialisations import INITS, Part, Start, initial_state, layer_of
from fpt.training.sweep import backbone_identity

pytestmark = pytest.mark.usefixtures("tiny")
SMALL = TINY[0]
WIDE = Backbone("wide", "gpt2", 2, 64, 2, 64, 50)  # enough entries to measure a std
part_of = Start(WIDE, build(WIDE), {}, 0).part_of
FIXED = ("pretrained", "random-layernorm")  # norms are 1 and 0 at first


def state(init, seed=0, weights=WEIGHTS):
    return initial_state(SMALL, build(SMALL), init, weights, seed)


@pytest.fixture
def read():
    """Pretrained weights of `WIDE` whose every tensor has a mean and a std of its own."""
    shapes = {name: tuple(p.shape) for name, p in build(WIDE).named_parameters()}
    shapes["positions"] = (WIDE.positions, WIDE.width)
    draw = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(shape, generator=draw) * (0.5 + index / 8) + index / 4
        for index, (name, shape) in enumerate(shapes.items())
    }


def derived(init, read, seed=0):
    """The state that `init` makes of `read`, before it is rounded."""
    return INITS[init].make(Start(WIDE, build(WIDE), read, seed))


def moments(tensors):
    values = torch.cat([tensor.flatten() for tensor in tensors]).double()
    return values.mean().item(), values.std(correction=0).item()


def test_random_at_scale_differs_from_random_by_one_factor(read):
    scaled = derived("random-at-scale", read)
    random = derived("random", read)
    with_norms = derived("random-at-scale-norms", read)
    matrices = [name for name in read if read[name].dim() == 2 and name != "positions"]
    factors = torch.cat([(scaled[name] / random[name]).flatten() for name in matrices])
    assert factors.min().item() == pytest.approx(factors.max().item(), rel=1e-5)
    expected = moments([read[name] for name in matrices])[1]
    assert moments([scaled[name] for name in matrices])[1] == pytest.approx(expected, rel=1e-3)
    for name in read:
        if name not in matrices:
            assert torch.equal(scaled[name], random[name])
        norm = part_of(name) == "layernorm"
        assert torch.equal(with_norms[name], (read if norm else scaled)[name])


def kind_of(name, tensor):
    return part_of(name), "matrix" if tensor.dim() == 2 else name.rpartition(".")[2]


@pytest.mark.parametrize("level", ["tensor", "layer", "global"])
def test_statistics_are_those_of_the_pool_and_nothing_else(level, read):
    drawn = derived(f"statistics-{level}", read)
    assert set(drawn) == set(read)
    for name, tensor in drawn.items():
        pool = {
            "tensor": lambda n, name=name: n == name,
            "layer": lambda n, name=name: layer_of(n) == layer_of(name),
            "global": lambda n: True,
        }[level]
        kind = kind_of(name, tensor)
        mean, std = moments([read[n] for n in read if pool(n) and kind_of(n, read[n]) == kind])
        count = tensor.numel()
        assert tensor.mean().item() == pytest.approx(mean, abs=4.5 * std / count**0.5)
        assert tensor.std().item() == pytest.approx(std, rel=4.5 / (2 * count) ** 0.5)
        both = torch.stack([tensor.flatten(), read[name].flatten()])
        assert abs(torch.corrcoef(both)[0, 1].item()) < 4.5 / count**0.5


def test_shuffled_keeps_every_histogram():
    shuffled = state("shuffled")
    for name, tensor in state("pretrained").items():
        assert torch.equal(tensor.flatten().sort().values, shuffled[name].flatten().sort().values)
        assert not torch.equal(tensor, shuffled[name]) or len(tensor.unique()) == 1


def test_permuted_rows_keeps_each_matrix_but_for_the_order_of_its_inputs():
    permuted = state("permuted-rows")
    orders = []
    for name, tensor in state("pretrained").items():
        if name == "positions" or tensor.dim() == 1:
            assert torch.equal(tensor, permuted[name])
            continue
        # GPT-2 stores (inputs, outputs): rows move as wholes.
        same = (permuted[name][:, None] == tensor[None]).all(-1)
        assert same.sum(0).eq(1).all()
        assert same.sum(1).eq(1).all()
        assert not torch.equal(tensor, permuted[name])
        orders.append(tuple(same.int().argmax(1).tolist()))
    assert len(set(orders)) == len(orders) == 4 * SMALL.layers


def test_spectrum_keeps_singular_values_and_nothing_of_their_vectors(read):
    rotated = derived("spectrum", read)
    other_seed = derived("spectrum", read, seed=1)
    for name, before in read.items():
        if part_of(name) != "body" or before.dim() != 2:
            assert torch.equal(rotated[name], before)
            continue
        values = torch.linalg.svdvals(before)
        close(torch.linalg.svdvals(rotated[name]), values, 1e-4, 1e-4)
        # Two random matrices of these sizes have a cosine of about 0.01.
        for unlike in (before, other_seed[name]):
            cosine = torch.cosine_similarity(rotated[name].flatten(), unlike.flatten(), 0)
            assert cosine.abs() < 0.1


@pytest.mark.parametrize("part", get_args(Part))
def test_body_norms_and_positions_are_separate_axes(part):
    pretrained_state = state("pretrained")
    drawn = state("random", 3)
    without = state(f"random-{part}", 3)
    alone = state(f"pretrained-{part}", 3)
    for name, tensor in pretrained_state.items():
        assert not torch.equal(tensor, drawn[name])
        if name == "positions":
            own = part == "positions"
        else:
            own = part == ("layernorm" if ".ln_" in name else "body")
        assert torch.equal(without[name], drawn[name] if own else tensor)
        assert torch.equal(alone[name], tensor if own else drawn[name])


@pytest.mark.parametrize("init", INITS)
def test_each_seed_has_its_own_draw_and_only_one(init):
    first = state(init, 0)
    again = state(init, 0)
    second = state(init, 1)
    drawn = init not in FIXED
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], second[name]) for name in first) is drawn
    assert INITS[init].depends_on_seed is drawn
    runs = [pretrained(init=init, seed=seed) for seed in (0, 1)]
    assert (backbone_identity(runs[0]) != backbone_identity(runs[1])) is drawn


def test_norms_that_are_drawn_are_no_part_of_a_shared_backbone():
    """Runs of all seeds share one whose norms are new, since these are 1 and 0."""
    released = one_of("lstm-released")
    start = Start(released, build(released), {}, 0)
    refuses(lambda: INITS["random-layernorm"].make(start), "the released LSTM draws its own")
