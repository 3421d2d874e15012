"""Backbones that keep only part of a pretrained one: what stays, what goes, and who draws anew."""

from typing import get_args

import pytest
import torch
from refusals import check_said, refusal
from tiny import TINY, WEIGHTS, pretrained, task_of
from torch import Tensor

from fpt.backbones import Backbone, build
from fpt.backbones.initialisations import INITS, Part, initial_state, layer_of, part_of
from fpt.backbones.weights import State
from fpt.training.loop import Loop
from fpt.training.sweep import backbone_identity

pytestmark = pytest.mark.usefixtures("tiny")
SMALL = TINY[0]
WIDE = Backbone("wide", "gpt2", 2, 64, 2, 64, 50)  # enough entries to measure a std
DERIVED = [name for name in INITS if name not in ("pretrained", "random", "random-scaled")]
CHANCE = [name for name in DERIVED if name != "random-layernorm"]  # norms are 1 and 0 at first
REDRAWN = [name for name in DERIVED if name.startswith("statistics") or name == "shuffled"]


def state(init: str, seed: int = 0, weights: str | None = WEIGHTS) -> State:
    return initial_state(SMALL, build(SMALL), init, weights, seed)


@pytest.fixture
def known() -> State:
    """Pretrained weights of `WIDE` whose every tensor has a mean and a std of its own."""
    shapes = {name: tuple(p.shape) for name, p in build(WIDE).named_parameters()}
    shapes["positions"] = (WIDE.positions, WIDE.width)
    draw = torch.Generator().manual_seed(1)
    made = {
        name: torch.randn(shape, generator=draw) * (0.5 + index / 8) + index / 4
        for index, (name, shape) in enumerate(shapes.items())
    }
    return made


def derived(init: str, known: State, seed: int = 0) -> State:
    """What `init` makes of `known`, before it is rounded."""
    return INITS[init].make(WIDE, build(WIDE), known, seed)


def moments(tensors: list[Tensor]) -> tuple[float, float]:
    values = torch.cat([tensor.flatten() for tensor in tensors]).double()
    return values.mean().item(), values.std(correction=0).item()


def kind_of(name: str, known: State) -> str:
    if name == "positions":
        return name
    matrix = "matrix" if known[name].dim() == 2 else name.rpartition(".")[2]
    return f"{matrix} {part_of(WIDE, name)}"


def test_random_at_scale_differs_from_random_by_one_factor(known: State) -> None:
    made, random = derived("random-at-scale", known), derived("random", known)
    assert set(made) == set(random)
    matrix_names = [name for name in known if known[name].dim() == 2 and name != "positions"]
    factors = torch.cat([(made[name] / random[name]).flatten() for name in matrix_names])
    assert factors.min().item() == pytest.approx(factors.max().item(), rel=1e-5)
    wanted = moments([known[name] for name in matrix_names])[1]
    assert moments([made[name] for name in matrix_names])[1] == pytest.approx(wanted, rel=1e-3)
    for name in known.keys() - set(matrix_names):
        assert torch.equal(made[name], random[name])


@pytest.mark.parametrize("level", ["tensor", "layer", "global"])
def test_statistics_are_those_of_the_pool_and_nothing_else(level: str, known: State) -> None:
    drawn = derived(f"statistics-{level}", known)
    assert set(drawn) == set(known)
    for name, tensor in drawn.items():
        pool = [
            known[other]
            for other in known
            if other == name
            or (level != "tensor" and kind_of(other, known) == kind_of(name, known))
            and (level == "global" or layer_of(other) == layer_of(name))
        ]
        mean, std = moments(pool)
        count = tensor.numel()
        assert tensor.mean().item() == pytest.approx(mean, abs=4.5 * std / count**0.5)
        assert tensor.std().item() == pytest.approx(std, rel=4.5 / (2 * count) ** 0.5)
        both = torch.stack([tensor.flatten(), known[name].flatten()])
        assert abs(torch.corrcoef(both)[0, 1].item()) < 4.5 / count**0.5


def test_the_granularities_share_their_draws_and_differ_in_their_pools(known: State) -> None:
    name = "gpt2.h.0.attn.c_attn.weight"
    levels = ("tensor", "layer", "global")
    drawn = [derived(f"statistics-{level}", known)[name].double() for level in levels]
    stds = [values.std() for values in drawn]
    assert stds[0] < 0.8 * stds[1] < 0.8 * stds[2]
    normal = [(values - values.mean()) / values.std() for values in drawn]
    for other in normal[1:]:
        torch.testing.assert_close(normal[0], other, rtol=0, atol=1e-5)


def test_shuffled_keeps_every_histogram() -> None:
    before, after = state("pretrained"), state("shuffled")
    for name, tensor in before.items():
        assert torch.equal(tensor.flatten().sort().values, after[name].flatten().sort().values)
        assert not torch.equal(tensor, after[name]) or len(tensor.unique()) == 1


def test_permuted_rows_keeps_each_matrix_but_for_the_order_of_its_inputs() -> None:
    before, after = state("pretrained"), state("permuted-rows")
    orders = []
    for name, tensor in before.items():
        if name == "positions" or tensor.dim() == 1:
            assert torch.equal(tensor, after[name])
            continue
        # GPT-2 stores (inputs, outputs): rows move as wholes.
        same = (after[name][:, None] == tensor[None]).all(-1)
        assert same.sum(0).eq(1).all()
        assert same.sum(1).eq(1).all()
        assert not torch.equal(tensor, after[name])
        torch.testing.assert_close(
            torch.linalg.svdvals(tensor), torch.linalg.svdvals(after[name]), rtol=1e-4, atol=1e-5
        )
        orders.append(tuple(same.int().argmax(1).tolist()))
    assert len(set(orders)) == len(orders) == 4 * SMALL.layers


@pytest.mark.parametrize("part", get_args(Part))
def test_body_norms_and_positions_are_separate_axes(part: str) -> None:
    read, drawn = state("pretrained"), state("random", 3)
    without, alone = state(f"random-{part}", 3), state(f"pretrained-{part}", 3)
    for name in read:
        assert not torch.equal(read[name], drawn[name])
        place = "positions" if name == "positions" else "layernorm" if ".ln_" in name else "body"
        mine = part == place
        assert torch.equal(without[name], (drawn if mine else read)[name])
        assert torch.equal(alone[name], (read if mine else drawn)[name])


@pytest.mark.parametrize("init", CHANCE)
def test_each_seed_has_its_own_draw_and_only_one(init: str) -> None:
    first, again, other = state(init, 0), state(init, 0), state(init, 1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert INITS[init].depends_on_seed
    runs = [pretrained(init=init, seed=seed) for seed in (0, 1)]
    assert backbone_identity(runs[0]) != backbone_identity(runs[1])
    assert all(torch.equal(t, t.bfloat16().float()) for t in first.values())


@pytest.mark.parametrize("init", REDRAWN)
def test_equal_tensors_do_not_get_one_draw(init: str, known: State) -> None:
    first, second = (f"gpt2.h.{layer}.mlp.c_fc.weight" for layer in (0, 1))
    known[second] = known[first].clone()
    drawn = derived(init, known)
    both = torch.stack([drawn[first].flatten(), drawn[second].flatten()])
    assert abs(torch.corrcoef(both)[0, 1].item()) < 4.5 / both.shape[1] ** 0.5


@pytest.mark.parametrize("init", DERIVED)
def test_runs_train_on_every_initialisation(init: str) -> None:
    run = pretrained(init=init)
    loop = Loop([run], task_of(run), torch.device("cpu"))
    before = loop.rows.values.clone()
    loop.train_step()
    assert loop.sums.isfinite().all()
    assert not torch.equal(before, loop.rows.values)


def test_those_that_read_weights_or_depend_on_the_seed_say_so() -> None:
    depends = {init for init in INITS if INITS[init].depends_on_seed}
    assert set(INITS) - depends == {"pretrained", "random-layernorm"}
    one, two = (state("random-layernorm", seed) for seed in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    for init in INITS:
        if INITS[init].reads_weights:
            check_said(refusal(lambda init=init: state(init, weights=None)), ["needs `weights`"])
        else:
            state(init, weights=None)


def test_spectrum_keeps_singular_values_and_nothing_of_their_vectors(known: State) -> None:
    kept, other = derived("spectrum", known), derived("spectrum", known, seed=1)
    for name, before in known.items():
        if part_of(WIDE, name) != "body" or before.dim() != 2:
            assert torch.equal(kept[name], before)
            continue
        values = torch.linalg.svdvals(before)
        torch.testing.assert_close(torch.linalg.svdvals(kept[name]), values, rtol=1e-4, atol=1e-4)
        # Two random matrices of these sizes have a cosine of about 0.01.
        for unlike in (before, other[name]):
            cosine = torch.cosine_similarity(kept[name].flatten(), unlike.flatten(), 0)
            assert cosine.abs() < 0.1
