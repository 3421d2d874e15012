"""GPT-2 without its causal mask: the control of causality (family gpt2, bidirectional)."""

from dataclasses import replace

import pytest
import torch
from tiny import TINY, WEIGHTS, spec, task_of
from torch import Tensor
from transformers import GPT2Model

from fpt.backbones import BACKBONES, Backbone
from fpt.training.model import Model, assemble

CPU = torch.device("cpu")
BOTH = replace(TINY[0], name="tiny-bidirectional", bidirectional=True)
LENGTH = 9


@pytest.fixture(autouse=True)
def _registered(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, BOTH.name, BOTH)


def model_of(which: Backbone) -> Model:
    run = spec(backbone=which.name, init="pretrained", weights=WEIGHTS, dropout=0.0)
    return assemble([run], task_of(run), CPU)[0].eval()


def vectors() -> Tensor:
    return torch.randn(4, LENGTH, 16, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_hidden_states_are_those_of_transformers_with_the_mask_lifted(tiny) -> None:
    theirs = GPT2Model.from_pretrained(tiny / "backbones" / WEIGHTS).eval()
    made, x = model_of(BOTH).backbone, vectors()
    table = theirs.wpe.weight[:LENGTH]
    lengths = torch.tensor([LENGTH, 1, 4, 8])
    mask = torch.arange(LENGTH) < lengths[:, None]
    for real in (torch.ones_like(mask), mask):
        # A mask with a row per query is taken as it is: nothing causal is added to it.
        seen = real[:, None, None].expand(-1, -1, LENGTH, -1)
        expected = theirs(inputs_embeds=x, attention_mask=seen).last_hidden_state
        causal = theirs(inputs_embeds=x, attention_mask=real.long()).last_hidden_state
        assert (expected - causal)[real].abs().max() > 0.1
        found = made(x + table, real)
        torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)
        read = real.sum(1, keepdim=True) - 1
        torch.testing.assert_close(
            made(x + table, real, read),
            expected[torch.arange(4)[:, None], read],
            rtol=1e-5,
            atol=1e-5,
        )
    torch.testing.assert_close(made(x), made(x, torch.ones_like(mask)), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_first_token_hears_the_last_only_without_the_mask() -> None:
    x = vectors()
    other = x.clone()
    other[:, -1] += torch.linspace(-1, 1, 16)
    for which, hears in ((TINY[0], False), (BOTH, True)):
        made = model_of(which).backbone
        moved = (made(x)[:, 0] - made(other)[:, 0]).abs().max()
        assert bool(moved > 1e-3) is hears is not which.causal


def test_causality_of_every_backbone() -> None:
    causal = {each.family for each in BACKBONES.values() if each.causal}
    controls = {"last-token", "mean-token", "gpt2-unfused"}
    assert causal == {"gpt2", "lstm", "lstm-released"} | controls
