"""A token of zeros (a bit 0, a black patch) leaves every gradient finite and every group learning.

A backbone that adds no positions would keep it zero through all its norms, each of which multiplies
the gradient by 1 / sqrt(eps) in its backward pass.
"""

import pytest
import torch
from tiny import assembled, loop_of, one_of, spec

from fpt.backbones import BACKBONES, Backbone, generic
from fpt.spec import FOUR_GROUPS, canonical

DEPTH = 30  # of SmolLM2-135M
WIDTH = 32
LR = 0.01
LIKE_LLAMA = {
    "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "vocab_size": 9,
    "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1,
}  # fmt: skip
CONFIGURATIONS = {  # RMSNorm and LayerNorm; rotary, ALiBi and relative
    **dict.fromkeys(("llama", "qwen3", "gemma2", "olmo2", "gpt_neox", "phi"), LIKE_LLAMA),
    "modernbert": LIKE_LLAMA | {"cls_token_id": 0, "sep_token_id": 0},
    "bloom": {"hidden_size": WIDTH, "n_layer": DEPTH, "n_head": 2, "vocab_size": 9},
    "mpt": {"d_model": WIDTH, "n_layers": DEPTH, "n_heads": 2, "vocab_size": 9},
    "opt": LIKE_LLAMA | {"ffn_dim": 48, "word_embed_proj_dim": WIDTH},
}
DEEP = ("gpt2", "bert", "longformer", "vit", "t5-encoder", "gpt2-unfused", "vanilla", "linformer")
FAMILIES = [
    *(one_of(family, DEPTH, WIDTH) for family in DEEP),
    one_of("lstm", DEPTH, WIDTH, residual=True),
    *(one_of(family, 3, WIDTH) for family in ("lstm", "lstm-released", "last-token", "mean-token")),
]


def configured(kind):
    config = canonical({"model_type": kind, **CONFIGURATIONS[kind]})
    return Backbone(f"zeros-{kind}", config=config, **generic.facts(config))


@pytest.fixture
def architecture(request, monkeypatch):
    param = request.param
    built = configured(param) if isinstance(param, str) else param
    monkeypatch.setitem(BACKBONES, built.name, built)
    return built


# The gradient once grew by 1 / sqrt(eps) with each norm, and clipping left nothing for the rest.
@pytest.mark.parametrize("architecture", [*FAMILIES, *CONFIGURATIONS], indirect=True, ids=str)
def test_every_group_learns_from_strings_with_zeros(architecture):
    trainable = tuple(sorted({*FOUR_GROUPS} & {*architecture.groups}))
    changes = {"lr": LR, "dropout": 0.0, "trainable": trainable}
    loop = loop_of(spec(options={"n": 5}, backbone=architecture.name, **changes))
    before = loop.rows.values.clone()
    loop.train_step()
    _, norm, _ = loop.sums[:, 0].tolist()
    assert norm < 100
    moved = (loop.rows.values - before)[0].abs()
    # Adam's first step is the rate, unless clipping leaves less than its eps of a gradient.
    for part, columns in loop.rows.parts():
        if part.name != "positions":  # of which a token reads one row
            assert moved[columns].median() > 0.5 * LR, part.name


def test_the_drawn_bias_follows_the_seed_and_is_as_long_as_a_column(
    monkeypatch,
):
    architecture = configured("llama")
    monkeypatch.setitem(BACKBONES, architecture.name, architecture)

    def bias(**changes):
        run = spec(backbone=architecture.name, trainable=("input", "output"), **changes)
        model, _, _ = assembled(run)
        return model.input.bias[0].detach()

    drawn = bias()
    assert 0.7 < drawn.norm() / 1.41 < 1.3
    assert not torch.equal(drawn, bias(seed=1))
    assert torch.equal(drawn, bias(input_init="normal"))
