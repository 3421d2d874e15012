"""Random draws are those that committed records were made with.

A key that changes, in its seed, its purpose or its other parts, changes what a run means: then
raise `semantics` in fpt/spec.py. Draws of the training itself are in the golden trace of
test_loop.py.
"""

import json
from pathlib import Path

import pytest
import torch
from tiny import TINY, WEIGHTS

from fpt.backbones import build
from fpt.backbones.dropout import Draws
from fpt.backbones.initialisations import INITS, initial_state
from fpt.tasks import get_task
from fpt.tasks.bits import membership
from fpt.tasks.images import ImageTask, draw_transforms
from fpt.tasks.rng import shuffled

NAMES = ("gpt2.h.1.mlp.c_fc.weight", "gpt2.h.1.ln_2.bias", "positions")
# The first entry of each of these tensors, drawn with seed 1 for the backbone `tiny`.
FIRST = json.loads(Path(__file__).with_name("golden_draws.json").read_text())


pytestmark = pytest.mark.usefixtures("prepared")


@pytest.mark.parametrize("init", INITS)
def test_backbones_start_from_the_same_values(init, tiny):
    weights = WEIGHTS if INITS[init].reads_weights else None
    state = initial_state(TINY[0], build(TINY[0]), init, weights, 1)
    first = tuple(state[name].flatten()[0].item() for name in NAMES)
    assert first == pytest.approx(tuple(FIRST[init]), rel=0.01)


def test_the_same_examples_are_used_and_evaluated():
    digits = get_task("digits")
    assert digits.subset("valid", 5).tolist() == [27, 77, 104, 136, 181]
    assert digits.subset("test", 5).tolist() == [39, 144, 221, 333, 424]
    cifar10 = get_task("cifar10")
    assert cifar10.subset("valid", 5).tolist() == [0, 1, 2, 3, 4]  # stored in random order
    assert cifar10.subset("test", 5).tolist() == [832, 3254, 5530, 6423, 8099]
    parts = {"digits": [421, 776, 1512, 2595, 3358, 3435]}
    parts["cifar10"] = [14005, 22667, 23328, 31745, 35595, 37343]
    for name, expected in parts.items():
        task = get_task(name, train=6)
        assert isinstance(task, ImageTask)
        assert task.part.tolist() == expected


@pytest.mark.parametrize(
    ("name", "options", "digest"),
    [
        ("bit-xor", {}, "327f3dec97d180fc"),
        ("bit-xor", {"n": 12}, "280ebfc3cc0a85e4"),
        ("bit-memory", {"n": 20, "patch": 5}, "fe62f2121aed1cf3"),
        ("listops", {"max_length": 30, "train": 60, "valid": 20, "test": 30}, "276ce2c9d3bb94c5"),
    ],
)
def test_generated_data_are_the_same(name, options, digest):
    assert get_task(name, **options).digest().startswith(digest)


def test_the_same_inputs_of_bit_xor_are_held_out():
    numbers = torch.arange(0, 94 * 7919, 7919)[:, None]
    bits = (numbers >> torch.arange(23, -1, -1)) & 1
    held_out = membership(bits.view(-1, 2, 12)).nonzero().flatten().tolist()
    assert held_out == [0, 8, 22, 24, 26, 31, 49, 54, 64, 73, 81, 93]


def test_runs_see_the_same_transforms_orders_and_initial_states():
    (numbers,) = draw_transforms([3], 2, 1, "cpu")[0].tolist()
    assert numbers == pytest.approx([0.324536, 0.991350, 0.157749, 0.973789], abs=1e-5)
    order = shuffled(torch.arange(9)[None, None], None, 1, (3,))
    assert order.flatten().tolist() == [4, 1, 5, 7, 3, 0, 6, 2, 8]
    draws = Draws([3])
    draws.first = 70  # an evaluation of run 3, from its 71st example
    noise = draws.normal("lstm state", (1, 2), torch.zeros(1), training=False)
    assert noise.flatten().tolist() == pytest.approx([1.240202, 1.747689], abs=1e-4)
