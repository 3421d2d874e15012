"""How the input net is initialised: `RunSpec.input_init`."""

import math

import pytest
import torch
from tiny import close

from fpt.tasks.rng import generator
from fpt.training.model import INPUT_INITS
from fpt.training.packing.layers import INPUT_GAIN, PackedEmbedding, PackedLinear


def initial(name, init, dim=48, width=128, seed=0):
    return PackedLinear(dim, width).initial(name, init, generator("cpu", seed, name))


@pytest.mark.parametrize(("dim", "width"), [(1, 128), (48, 128), (64, 16)])
def test_an_orthogonal_one_has_the_released_gain(dim, width):
    weight = initial("weight", "orthogonal", dim, width).double()
    assert weight.shape == (width, dim)
    gram = weight.T @ weight if dim <= width else weight @ weight.T
    expected = INPUT_GAIN**2 * torch.eye(min(dim, width), dtype=torch.double)
    close(gram, expected, 0, 1e-5)
    assert INPUT_GAIN == 1.41
    assert not initial("bias", "orthogonal", dim, width).any()


def test_the_default_fills_the_librarys_bound_and_the_normal_one_has_unit_std():
    bound = 1 / math.sqrt(48)
    for name in ("weight", "bias"):
        assert 0.9 * bound < initial(name, "default").abs().max() <= bound
    assert initial("weight", "default").std().item() == pytest.approx(bound / 3**0.5, rel=0.03)
    assert initial("weight", "normal", 64, 512).std().item() == pytest.approx(1, rel=0.02)
    assert not initial("bias", "normal").any()


@pytest.mark.parametrize("init", INPUT_INITS)
def test_it_is_keyed_by_the_seed_and_not_an_embeddings(init):
    assert torch.equal(initial("weight", init), initial("weight", init))
    assert not torch.equal(initial("weight", init), initial("weight", init, seed=1))
    embedding = PackedEmbedding(30, 200).initial("weight", init, generator("cpu", 0))
    assert embedding.std().item() == pytest.approx(1, rel=0.05)
