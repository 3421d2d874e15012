"""GPT-2 without its causal mask: the control of causality (family gpt2, bidirectional)."""

from dataclasses import replace

import pytest
import torch
from tiny import TINY, WEIGHTS, spec, task_of
from torch import Tensor
from transformers import GPT2Model

from fpt.backbones import BACKBONES, SIZES, Backbone, backbone, build
from fpt.backbones.initialisations import body_state
from fpt.training.model import Model, assemble

CPU = torch.device("cpu")
BOTH = replace(TINY[0], name="tiny-bidirectional", bidirectional=True)
LENGTH = 9


@pytest.fixture(autouse=True)
def bodies(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, BOTH.name, BOTH)


def model_of(body: Backbone) -> Model:
    run = spec(backbone=body.name, init="pretrained", weights=WEIGHTS, dropout=0.0)
    return assemble([run], task_of(run), CPU)[0].eval()


def vectors() -> Tensor:
    return torch.randn(4, LENGTH, 16, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_hidden_states_are_those_of_transformers_with_the_mask_lifted(tiny) -> None:
    theirs = GPT2Model.from_pretrained(tiny / "backbones" / WEIGHTS).eval()
    body, x = model_of(BOTH).backbone, vectors()
    table = theirs.wpe.weight[:LENGTH]
    lengths = torch.tensor([LENGTH, 1, 4, 8])
    mask = torch.arange(LENGTH) < lengths[:, None]
    for real in (torch.ones_like(mask), mask):
        # A mask with a row per query is taken as it is: nothing causal is added to it.
        seen = real[:, None, None].expand(-1, -1, LENGTH, -1)
        expected = theirs(inputs_embeds=x, attention_mask=seen).last_hidden_state
        causal = theirs(inputs_embeds=x, attention_mask=real.long()).last_hidden_state
        assert (expected - causal)[real].abs().max() > 0.1
        found = body(x + table, real)
        torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)
        read = real.sum(1, keepdim=True) - 1
        torch.testing.assert_close(
            body(x + table, real, read),
            expected[torch.arange(4)[:, None], read],
            rtol=1e-5,
            atol=1e-5,
        )
    torch.testing.assert_close(body(x), body(x, torch.ones_like(mask)), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_first_token_hears_the_last_only_without_the_mask() -> None:
    x = vectors()
    other = x.clone()
    other[:, -1] += torch.linspace(-1, 1, 16)
    for body, hears in ((TINY[0], False), (BOTH, True)):
        made = model_of(body).backbone
        moved = (made(x)[:, 0] - made(other)[:, 0]).abs().max()
        assert bool(moved > 1e-3) is hears is not body.causal


@torch.no_grad()
def test_what_is_read_does_not_depend_on_padding() -> None:
    body, x = model_of(BOTH).backbone, vectors()
    mask = torch.arange(LENGTH) < torch.tensor([[3]] * 4)
    read = torch.tensor([[2]] * 4)
    padded = torch.where(mask[..., None], x, 50.0)
    alone = body(x[:, :3])
    torch.testing.assert_close(body(padded, mask)[:, :3], alone, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(body(padded, mask, read), alone[:, 2:], rtol=1e-5, atol=1e-5)


def test_both_are_one_body() -> None:
    """The same tensors from the same file or seed."""
    for init, weights in (
        ("pretrained", WEIGHTS),
        ("random", None),
        ("statistics-tensor", WEIGHTS),
    ):
        causal, both = (body_state(body, build(body), init, weights, 3) for body in (TINY[0], BOTH))
        assert list(causal) == list(both)
        for name, tensor in causal.items():
            assert torch.equal(tensor, both[name]), name


def test_the_shortcut_of_the_last_block_has_the_gradients_of_the_whole() -> None:
    body, x = model_of(BOTH).backbone, vectors()
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [2], [5], [7]])
    read = mask.sum(1, keepdim=True) - 1
    gradients = []
    for shortcut in (True, False):
        leaf = x.clone().requires_grad_()
        if shortcut:
            hidden = body(leaf, mask, read)
        else:
            hidden = body(leaf, mask)[torch.arange(4)[:, None], read]
        hidden.square().sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    assert gradients[0].abs().max() > 0.1
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [*SIZES, "gpt2"])
def test_the_named_ones_differ_from_the_causal_in_the_mask_alone(size: str) -> None:
    name = "bidirectional" if size == "gpt2" else f"bidirectional-{size}"
    causal, both = backbone(size), backbone(name)
    assert (causal.causal, both.causal) == (True, False)
    assert replace(both, name=size, bidirectional=False) == causal
    assert backbone(f"{name}@1").causal is False


def test_causality_of_every_backbone() -> None:
    causal = {body.family for body in BACKBONES.values() if body.causal}
    controls = {"last-token", "mean-token", "gpt2-unfused"}
    assert causal == {"gpt2", "lstm", "lstm-released"} | controls
