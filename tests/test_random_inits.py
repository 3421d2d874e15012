"""Random twins of a model from the hub: what each of them draws, and which gains its norms have."""

import re
from pathlib import Path

import pytest
import torch
from tiny import close
from transformers import LlamaConfig

from fpt.backbones import Backbone, build
from fpt.backbones.generic import facts
from fpt.backbones.generic.skeleton import text_of
from fpt.backbones.initialisations import INITS, Start

OWN = 1 / 24  # SmolLM2's
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def llama():
    """A Llama of two layers whose configuration asks for another spread than 0.02."""
    config = LlamaConfig(
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=11,
        initializer_range=OWN,
    )
    text = text_of(config.to_dict())
    return Backbone(name="llama", config=text, **facts(text))


@pytest.fixture(scope="module")
def learned(llama):
    """Weights that are unlike any draw: matrices of several scales, gains around 0.3."""
    draw = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(parameter.shape, generator=draw) * (0.1 + index / 50)
        if parameter.dim() > 1
        else 0.3 + 0.05 * torch.randn(parameter.shape, generator=draw)
        for index, (name, parameter) in enumerate(build(llama).named_parameters())
    }


def drawn(llama, init, learned, seed=1):
    return INITS[init].make(Start(llama, build(llama), learned, seed))


def std_of(state):
    return torch.cat([value.flatten() for value in state.values() if value.dim() > 1]).std().item()


def gains_of(state):
    return torch.cat([value for value in state.values() if value.dim() == 1])


def test_random_is_of_the_papers_day_and_random_own_of_the_models_configuration(llama, learned):
    usual, own = drawn(llama, "random", learned), drawn(llama, "random-own", learned)
    assert std_of(usual) == pytest.approx(0.02, rel=0.02)
    assert std_of(own) == pytest.approx(OWN, rel=0.02)
    for name in usual:  # the same draw, at another scale
        scaled = usual[name] * (OWN / 0.02) if usual[name].dim() > 1 else usual[name]
        close(scaled, own[name], 1e-5, 1e-7)
    module = build(llama)
    before = module.model.config.initializer_range
    INITS["random"].make(Start(llama, module, {}, 0))
    assert module.model.config.initializer_range == before == OWN


def stated_gains():
    """Of every initialisation the gains of the norms by the table of the page on them."""
    page = (ROOT / "docs/architecture.md").read_text()
    gains = {}
    for names, stated in re.findall(r"^\| (`.*?) \|.*\| (.*?) \|$", page, re.M):
        first, *more = re.findall("`(.+?)`", names)
        for name in [first, *more]:
            whole = first.removesuffix("-tensor") + name if name.startswith("-") else name
            gains[whole] = stated
    return gains


@pytest.mark.parametrize("init", INITS)
def test_the_page_says_which_gains_an_initialisation_has(init, llama, learned):
    if init == "random-scaled":  # of GPT-2 alone
        return
    gains, before = gains_of(drawn(llama, init, learned)), gains_of(learned)
    stated = stated_gains()[init]
    if stated == "1":
        assert torch.equal(gains, torch.ones_like(gains))
    elif stated == "pretrained":
        assert torch.equal(gains, before)
    else:
        assert not torch.equal(gains, before)
        assert gains.mean().item() == pytest.approx(before.mean().item(), abs=0.02)


def test_the_page_has_every_initialisation():
    assert {*stated_gains()} - {"init"} == {*INITS}
