"""GPT-2 without its causal mask: the control of causality (family gpt2, bidirectional)."""

from dataclasses import replace

import pytest
import torch
from tiny import TINY, assembled, close, pretrained
from transformers import GPT2Model

from fpt.backbones import BACKBONES

BIDIRECTIONAL = replace(TINY[0], name="tiny-bidirectional", bidirectional=True)
LENGTH = 9


@pytest.fixture(autouse=True)
def theirs(tiny, monkeypatch):
    monkeypatch.setitem(BACKBONES, BIDIRECTIONAL.name, BIDIRECTIONAL)
    return GPT2Model.from_pretrained(tiny / "backbones" / "tiny-weights").eval()


def model_of(architecture):
    return assembled(pretrained(backbone=architecture.name))[0].eval()


def vectors():
    return torch.randn(4, LENGTH, 16, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_hidden_states_are_those_of_transformers_with_the_mask_lifted(theirs):
    backbone = model_of(BIDIRECTIONAL).backbone
    x = vectors() + theirs.wpe.weight[:LENGTH]
    mask = torch.arange(LENGTH) < torch.tensor([LENGTH, 1, 4, 8])[:, None]
    for real in (torch.ones_like(mask), mask):
        # A mask with a row per query is taken as it is: nothing causal is added to it.
        visible = real[:, None, None].expand(-1, -1, LENGTH, -1)
        expected = theirs(inputs_embeds=vectors(), attention_mask=visible).last_hidden_state
        close(backbone(x, real)[real], expected[real])
        read = real.sum(1, keepdim=True) - 1
        expected = expected[torch.arange(4)[:, None], read]
        close(backbone(x, real, read), expected)
    close(backbone(x), backbone(x, torch.ones_like(mask)))
