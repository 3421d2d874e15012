"""How the input net starts: `RunSpec.input_init`."""

import json
import math
from dataclasses import fields, replace

import pytest
import torch
from tiny import pretrained, task_of
from torch import Tensor

from fpt.config import load, make_spec
from fpt.sections.arms import ARMS
from fpt.spec import RunSpec, canonical, from_dict
from fpt.tasks.rng import generator
from fpt.training.loop import Loop
from fpt.training.model import INPUT_INITS, assemble
from fpt.training.packing import INPUT_GAIN, PackedEmbedding, PackedLinear
from fpt.training.sweep import packs

CPU = torch.device("cpu")


def start(name: str, init: str, dim: int = 48, width: int = 128, seed: int = 0) -> Tensor:
    return PackedLinear(dim, width).initial(name, init, generator("cpu", seed, name))


@pytest.mark.parametrize(("dim", "width"), [(1, 128), (16, 64), (48, 128), (64, 16)])
def test_an_orthogonal_start_has_the_released_gain(dim: int, width: int) -> None:
    weight = start("weight", "orthogonal", dim, width).double()
    assert weight.shape == (width, dim)
    gram = weight.T @ weight if dim <= width else weight @ weight.T
    expected = INPUT_GAIN**2 * torch.eye(min(dim, width), dtype=torch.double)
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-5)
    assert INPUT_GAIN == 1.41
    assert torch.equal(start("bias", "orthogonal", dim, width), torch.zeros(width))


def test_the_default_start_fills_the_librarys_bound() -> None:
    bound = 1 / math.sqrt(48)
    weight, bias = start("weight", "default"), start("bias", "default")
    assert 0.98 * bound < weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert 0.9 * bound < bias.abs().max() <= bound
    torch.manual_seed(0)
    theirs = torch.nn.Linear(48, 128)
    assert theirs.weight.abs().max().item() == pytest.approx(weight.abs().max().item(), rel=0.02)
    assert theirs.bias.abs().max().item() == pytest.approx(bias.abs().max().item(), rel=0.1)


def test_the_normal_start_has_unit_std_and_no_bias() -> None:
    weight = start("weight", "normal", 64, 512)
    assert weight.mean().item() == pytest.approx(0, abs=4 / math.sqrt(weight.numel()))
    assert weight.std().item() == pytest.approx(1, rel=0.02)
    assert torch.equal(start("bias", "normal"), torch.zeros(128))


@pytest.mark.parametrize("init", INPUT_INITS)
def test_an_embedding_starts_normal_whatever_is_said(init: str) -> None:
    def draw(name: str) -> Tensor:
        return PackedEmbedding(30, 200).initial("weight", name, generator("cpu", 0))

    assert draw(init).std().item() == pytest.approx(1, rel=0.05)
    assert torch.equal(draw(init), draw("orthogonal"))


@pytest.mark.parametrize("init", INPUT_INITS)
def test_a_start_is_keyed_by_the_seed(init: str) -> None:
    assert torch.equal(start("weight", init), start("weight", init))
    assert not torch.equal(start("weight", init), start("weight", init, seed=1))


# ------------------------------------------------------------------------------ keys of specs


def test_the_default_is_not_part_of_the_key() -> None:
    spec = pretrained()
    assert spec.input_init == "orthogonal"
    assert replace(spec, input_init="orthogonal").key == spec.key
    older = {name: value for name, value in spec.to_dict().items() if name != "input_init"}
    assert from_dict(older) == spec
    assert from_dict(older).key == spec.key
    keys = {replace(spec, input_init=init).key for init in INPUT_INITS}
    assert len(keys) == len(INPUT_INITS)
    again = from_dict(json.loads(canonical(replace(spec, input_init="normal").to_dict())))
    assert again.input_init == "normal"


def test_a_key_from_before_the_field_is_found() -> None:
    """It names records that were made when a spec had no such field."""
    spec = RunSpec(
        data='{"data":{"generator":1},"name":"bit-xor","options":{"n":5,"test":1024,"valid":1024}}',
        backbone="nano",
        init="pretrained",
        weights="nano-english-0",
        trainable=("input", "layernorm", "output", "positions"),
        lr=0.003,
        batch=16,
        steps=600,
        eval_every=30,
        seed=0,
    )
    assert spec.key == "98a71fcb3fadc82c"
    assert "input_init" in {field.name for field in fields(RunSpec)}


@pytest.mark.parametrize("arm", [arm for arm in ARMS if "input-" in arm])
def test_arms_set_it(arm: str) -> None:
    spec = make_spec(load("smoke"), ARMS[arm], "digits", 0)
    assert spec.input_init == arm.rpartition("-")[2]
    assert ("input" in spec.trainable) is not arm.startswith("frozen")
    assert spec.init == "pretrained"


# ------------------------------------------------------------------------------------- in a pack


def runs() -> list[RunSpec]:
    """All starts, trained and frozen, otherwise alike."""
    given = {"options": {"n": 3}, "dropout": 0.1}
    frozen = ("layernorm", "output", "positions")
    return [
        pretrained(**given, input_init=init, **extra)
        for extra in ({}, {"trainable": frozen})
        for init in INPUT_INITS
    ]


def values(loop: Loop, row: int) -> dict[str, Tensor]:
    """The values of run `row` by parameter, trained or fixed."""
    return {
        name: part.values[row, columns].clone()
        for part in (loop.frozen, loop.rows)
        for name, columns in part.columns().items()
    }


@pytest.mark.usefixtures("tiny")
def test_runs_that_differ_in_it_share_a_pack_and_are_single_runs() -> None:
    specs = runs()
    assert packs(specs) == [tuple(specs)]
    packed = Loop(specs, task_of(specs[0]), CPU)
    before = [values(packed, row) for row in range(len(specs))]
    for _ in range(4):
        packed.train_step()
    for row, spec in enumerate(specs):
        single = Loop([spec], task_of(spec), CPU)
        first = values(single, 0)
        assert first.keys() == before[row].keys()
        assert all(torch.equal(first[name], before[row][name]) for name in first)
        for _ in range(4):
            single.train_step()
        after = values(packed, row)
        for name, value in values(single, 0).items():
            torch.testing.assert_close(after[name], value, rtol=0, atol=3e-2 * spec.lr)
        moved = not torch.equal(after["input.weight"], before[row]["input.weight"])
        assert moved is ("input" in spec.trainable)
    weights = [one["input.weight"] for one in before[: len(INPUT_INITS)]]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


@pytest.mark.usefixtures("tiny")
def test_it_changes_the_input_net_alone() -> None:
    first, *others = runs()[: len(INPUT_INITS)]

    def initial(spec: RunSpec) -> dict[str, Tensor]:
        _, trained, _ = assemble([spec], task_of(spec), CPU)
        return {name: trained.values[0, columns] for name, columns in trained.columns().items()}

    plain = initial(first)
    for spec in others:
        changed = {name for name, v in initial(spec).items() if not torch.equal(v, plain[name])}
        assert "input.weight" in changed
        assert changed <= {"input.weight", "input.bias"}
