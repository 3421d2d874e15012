"""BERT, T5, Longformer, ViT and the two small encoders against transformers and by hand."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from tiny import assembled, close, gradients, one_of, random_values, spec
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

from fpt.backbones import BACKBONES, FAMILIES, Backbone, build
from fpt.backbones.dropout import Draws
from fpt.backbones.gpt2 import Attention

FAMILIES_TRIED = ("bert", "longformer", "t5-encoder", "vit", "vanilla", "linformer")
TINY = {family: one_of(family) for family in FAMILIES_TRIED}
TINY["gpt2"] = one_of("gpt2", bidirectional=True)  # the control of causality
FAMILY = pytest.mark.parametrize("family", TINY)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The backbones by name; their weights are looked for in the folder returned."""
    for architecture in TINY.values():
        monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    return tmp_path


def run_of(family, **changes):
    trainable = {"input", "layernorm", "output", "positions"} & set(TINY[family].groups)
    values = {"backbone": TINY[family].name, "trainable": tuple(sorted(trainable))}
    return spec(options={"n": 8}, **{**values, **changes})


def randomised(architecture):
    """The backbone with random values, in evaluation mode."""
    module = build(architecture).to_empty(device="cpu").eval()
    random_values(module)
    return module


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------- against transformers

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
T5_SIZES = {"vocab_size": 9, "d_model": 16, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 2}
LONGFORMER = {"attention_window": 8, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
WITH_HEADS = {
    "bert": lambda: BertForMaskedLM(BertConfig(vocab_size=9, max_position_embeddings=64, **SIZES)),
    "longformer": lambda: LongformerForMaskedLM(
        LongformerConfig(vocab_size=9, max_position_embeddings=66, **LONGFORMER, **SIZES)
    ),
    "t5-encoder": lambda: T5ForConditionalGeneration(T5Config(**T5_SIZES)),
    "vit": lambda: ViTForImageClassification(ViTConfig(image_size=16, patch_size=4, **SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=9, n_positions=64, n_embd=16, n_layer=2, n_head=2)
    ),
}


def published(family, folder):
    """A model of transformers with a head, as such weights are published, without its head; and
    ours with its weights."""
    theirs = WITH_HEADS[family]().eval()
    random_values(theirs)
    theirs.save_pretrained(folder / "weights")
    inner = theirs.encoder if family == "t5-encoder" else theirs.base_model
    return inner, loaded(family, "weights")


def loaded(family, weights):
    run = run_of(family, init="pretrained", weights=weights, dropout=0.0)
    return assembled(run)[0].eval()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("family", ["bert", "longformer", "t5-encoder", "gpt2"])
@torch.no_grad()
def test_hidden_states_are_those_of_transformers(family, masked, folder):
    """21 tokens: more than the Longformer's window, and no multiple of it."""
    theirs, model = published(family, folder)
    vectors = normal(4, 21, 16)
    lengths = torch.tensor([21, 1, 9, 20]) if masked else torch.full((4,), 21)
    mask = torch.arange(21) < lengths[:, None]
    # GPT-2 adds nothing causal to a mask that has a row for each query.
    theirs_mask = mask[:, None, None].expand(-1, -1, 21, -1) if family == "gpt2" else mask.long()
    expected = theirs(inputs_embeds=vectors, attention_mask=theirs_mask).last_hidden_state
    x = vectors
    if TINY[family].positions:
        name = "wpe" if family == "gpt2" else "embeddings.position_embeddings"
        table = theirs.get_parameter(f"{name}.weight")
        unused = 2 if family == "longformer" else 0
        x = vectors + table[unused:][:21]
        assert torch.equal(model.positions[0], table[unused:][: model.positions.shape[1]])
    used_mask = mask if masked else None
    close(model.backbone(x, used_mask)[mask], expected[mask])
    last = (lengths - 1)[:, None]
    expected = expected.gather(1, last[..., None].expand(-1, 1, 16))
    close(model.backbone(x, used_mask, last), expected)


@torch.no_grad()
def test_hidden_states_of_vit_are_those_of_transformers(folder):
    """The blocks on the vectors of transformers' model: 16 patches and a class token."""
    theirs, model = published("vit", folder)
    pixels = normal(3, 3, 16, 16)
    x = theirs.embeddings(pixels)
    close(model.backbone(x), theirs(pixels).last_hidden_state)
    mask = torch.arange(17) < torch.tensor([17, 5, 1])[:, None]
    expected = theirs(pixels, attention_mask=mask.long()).last_hidden_state
    close(model.backbone(x, mask)[mask], expected[mask])
    read = torch.tensor([[16], [4], [0]])
    close(model.backbone(x, mask, read), expected[torch.arange(3)[:, None], read])
    # The published table belongs to patches: ours is new, and drawn.
    assert model.positions.std().item() == pytest.approx(0.02, rel=0.1)


OLD_NAMES = {
    "bert": [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")],
    "vit": [
        ("vit.layers.", "encoder.layer."),
        (".attention.q_proj.", ".attention.attention.query."),
        (".attention.k_proj.", ".attention.attention.key."),
        (".attention.v_proj.", ".attention.attention.value."),
        (".attention.o_proj.", ".attention.output.dense."),
        (".mlp.fc1.", ".intermediate.dense."),
        (".mlp.fc2.", ".output.dense."),
        ("vit.", ""),
    ],
}


@pytest.mark.parametrize("family", OLD_NAMES)
def test_files_with_the_oldest_names_load_too(family, folder):
    """Published BERT and ViT files: gamma and beta; a layer's parts by their names of 2020."""
    model = WITH_HEADS[family]()
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    for new, old in OLD_NAMES[family]:
        assert any(new in name for name in stored)
        stored = {name.replace(new, old): value for name, value in stored.items()}
    model.save_pretrained(folder / "new")
    (folder / "old").mkdir()
    save_file(stored, folder / "old" / "model.safetensors")
    old_values = dict(loaded(family, "old").backbone.named_parameters())
    for name, value in loaded(family, "new").backbone.named_parameters():
        assert torch.equal(value, old_values[name]), name


@pytest.mark.parametrize("family", ["bert", "longformer", "t5-encoder", "vit"])
def test_random_ones_are_initialised_as_by_transformers(family):
    """Constants are equal, standard deviations close (ViT's tables and patches are not ours)."""
    wide = {name: 4 * size if "num" not in name else size for name, size in SIZES.items()}
    t5 = {**T5_SIZES, "d_model": 64, "d_kv": 32, "d_ff": 256}
    torch.manual_seed(0)
    theirs = {
        "bert": lambda: BertModel(BertConfig(vocab_size=9, **wide)),
        "longformer": lambda: LongformerModel(LongformerConfig(vocab_size=9, **wide)),
        "t5-encoder": lambda: T5EncoderModel(T5Config(**t5)),
        "vit": lambda: ViTModel(ViTConfig(**wide)),
    }[family]()
    fresh = FAMILIES[family].load(theirs.state_dict())
    for name, ours in initialised(replace(TINY[family], width=64)).named_parameters():
        if fresh[name].std() == 0:
            assert torch.equal(ours, fresh[name]), name
        else:
            ratio = (ours.detach().std() / fresh[name].std()).item()
            assert ratio == pytest.approx(1, abs=2.5 / ours.numel() ** 0.5), name


def initialised(architecture):
    """The backbone as its family draws it."""
    module = build(architecture).to_empty(device="cpu")
    with torch.no_grad():
        FAMILIES[architecture.family].init_(module, torch.Generator().manual_seed(0))
    return module


# ---------------------------------------------------------------------- sizes, groups and counts


# -------------------------------------------------------------------------- packs, all families


# A pack is only allowed because it changes no number.
@pytest.mark.parametrize("masked", [False, True])
@FAMILY
def test_packed_runs_are_single_runs(family, masked, folder):
    """Losses and gradients, with dropout, of runs that share a backbone of random values."""
    stored = randomised(TINY[family]).state_dict()
    stored |= {"positions": normal(64, 16).bfloat16().float(), "encoder.unused": torch.zeros(1)}
    (folder / "weights").mkdir()
    save_file(stored, folder / "weights" / "model.safetensors")
    common = {"init": "pretrained", "weights": "weights", "dropout": 0.1}
    third = "positions" if TINY[family].positions else "layernorm"
    specs = [
        run_of(family, seed=0, **common),
        run_of(family, seed=1, trainable=("input", "output"), **common),
        run_of(family, seed=2, trainable=("layernorm", third), **common),
    ]
    packed_loss, packed = gradients(*specs, masked=masked)
    for row, run in enumerate(specs):
        loss, (alone,) = gradients(run, masked=masked)
        close(packed_loss[row], loss[0], 1e-5, 1e-7)
        for name, gradient in alone.items():
            assert gradient.abs().max() > 0, name
            # float32 remains in the loss
            close(packed[row][name], gradient, 1e-5, 1e-7)


@FAMILY
def test_every_place_of_dropout_draws_its_own_mask(family, monkeypatch):
    draws = Draws()
    module = build(TINY[family], draws, 0.1).to_empty(device="cpu").train()
    random_values(module)
    used = []
    kept = Draws.kept
    monkeypatch.setattr(Draws, "kept", lambda self, site: used.append(site) or kept(self, site))
    places = {"bert": 5, "longformer": 5, "gpt2": 5, "t5-encoder": 6}
    assert len(draws.sites) == places.get(family, 4)
    draws.begin(0, (2, 7, 16), "cpu")
    x = normal(2, 7, 16)
    first = module(x)
    assert sorted(used) == list(range(len(draws.sites)))
    assert torch.equal(module(x), first)  # nothing else is random
    assert not torch.allclose(module.eval()(x), first)


# --------------------------------------------------------------- Longformer's window, and Table 7


def attended(attention, query, key, value):
    """What one head hands to the output matrix, by the definition of attention."""
    return attention.out((query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value)


@torch.no_grad()
def test_linformer_attends_to_mixtures_of_tokens_that_are_not_padding():
    attention = Attention(Backbone("", "linformer", 1, 4, 1, positions=9, rank=3))
    random_values(attention)
    x = normal(2, 7, 4)  # fewer tokens than positions
    mask = torch.arange(7) < torch.tensor([[5], [7]])
    mixed = [attention.mix[:7].T @ (layer(x) * mask[..., None])
             for layer in (attention.key, attention.value)]  # fmt: skip
    close(attention(x, mask), attended(attention, attention.query(x), *mixed))


@torch.no_grad()
def test_the_plain_transformer_is_pytorchs():
    module = randomised(TINY["vanilla"])
    x = normal(3, 11, 16)
    mask = torch.arange(11) < torch.tensor([11, 4, 8])[:, None]
    expected = x
    for layer in module.layers:
        theirs = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, nn.GELU("tanh"), batch_first=True, norm_first=True
        ).train()  # in evaluation it takes a short cut with another GELU
        own = layer.attention
        projections = [own.query.weight, own.key.weight, own.value.weight]
        theirs.self_attn.in_proj_weight.copy_(torch.cat(projections))
        theirs.self_attn.in_proj_bias.zero_()
        theirs.self_attn.out_proj.weight.copy_(own.out.weight)
        theirs.self_attn.out_proj.bias.zero_()
        theirs.norm1.load_state_dict(layer.attention_norm.state_dict())
        theirs.norm2.load_state_dict(layer.feedforward_norm.state_dict())
        theirs.linear1.load_state_dict(layer.feedforward[0].state_dict())
        theirs.linear2.load_state_dict(layer.feedforward[2].state_dict())
        expected = theirs(expected, src_key_padding_mask=~mask)
    close(module(x, mask)[mask], module.last_norm(expected)[mask])


# Half the bound is half the scale, which alone changes how fast a frozen network learns.
@pytest.mark.parametrize("family", ["vanilla", "linformer"])
def test_the_encoders_are_initialised_as_in_lra(family):
    """Matrices uniform within sqrt(6 / (rows + columns)), gains 1, biases 0."""
    for name, parameter in initialised(TINY[family]).named_parameters():
        if parameter.dim() == 2:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name
        else:
            assert parameter.eq(float(name.endswith("norm.weight"))).all(), name


# --------------------------------------------------------------------------- causality, controls

CONTROLS = {
    "split": one_of("gpt2-unfused"),
    "fixed": one_of("gpt2-unfused", fixed=True),
    "attention": one_of("gpt2-unfused", layers=1, feedforward=False),
    **{family: one_of(family) for family in ("last-token", "mean-token", "gpt2", "lstm")},
}


# A mask that is off by one token would make no loss worse.
@pytest.mark.parametrize("name", CONTROLS)
@torch.no_grad()
def test_a_causal_backbone_hears_what_came_before_and_nothing_else(name):
    module = randomised(CONTROLS[name])
    assert CONTROLS[name].causal
    x = normal(2, 9, 16)
    before = module(x)
    for place in (0, 4, 8):
        changed = x.clone()
        changed[:, place] += torch.linspace(-1, 1, 16)
        moved = (module(changed) - before).abs().amax((0, 2)) > 1e-5
        expected = [
            place == token if name == "last-token" else place <= token for token in range(9)
        ]
        assert moved.tolist() == expected
    read = torch.tensor([[2, 8], [0, 5]])
    close(module(x, None, read), before[torch.arange(2)[:, None], read])


@torch.no_grad()
def test_fixed_attention_depends_on_positions_alone():
    """Each token takes the values of those so far, by weights that are drawn with unit size."""
    attention = initialised(CONTROLS["fixed"]).layers[0].attention
    assert attention.query.std().item() == pytest.approx(1, rel=0.1)
    assert attention.value.weight.std().item() == pytest.approx(0.02, rel=0.2)
    attention = Attention(Backbone("", "gpt2-unfused", 1, 4, 1, positions=9, fixed=True))
    random_values(attention)
    x = normal(2, 7, 4)
    value = attention.value(x)
    for token in range(7):
        query = attention.query[token : token + 1]
        expected = attended(attention, query, attention.key[: token + 1], value[:, : token + 1])
        close(attention(x)[:, token], expected[:, 0])
