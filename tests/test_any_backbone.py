"""Backbones that transformers builds from a configuration: by a folder or a repository's name."""

import json
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from safetensors.torch import load_file, save_file
from saved_models import config_of, hidden_of, save_model
from tiny import assembled, close, loop_of, spec

from fpt import FrozenTransformer
from fpt.backbones import backbone, build, group_of
from fpt.backbones.generic import facts
from fpt.backbones.generic.skeleton import hidden_states
from fpt.backbones.generic.trial import layers_of_each_kind, tried
from fpt.backbones.weights import read_weights
from fpt.spec import FOUR_GROUPS, canonical


def run_of(folder, **changes):
    architecture = backbone(folder)
    values = {
        "backbone": architecture.name,
        "init": "pretrained",
        "weights": architecture.name,
        "dropout": 0.0,
        "trainable": tuple(sorted({*FOUR_GROUPS} & {*architecture.groups})),
        "options": {"n": 5},
    }
    return spec(**{**values, **changes})


def state_of(name):
    architecture = backbone(name)
    return read_weights(architecture, build(architecture), architecture.name)


# XLNet's norms see tokens before examples.
@pytest.mark.parametrize("kind", ["gpt2", "gemma", "albert", "modernbert", "t5", "vit", "xlnet"])
@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_pack_trains_as_each_alone_and_leaves_the_rest(kind, init, put):
    folder = put(kind)
    run = run_of(folder, init=init)
    faster = replace(run, lr=0.02)
    loops = [loop_of(run, faster), loop_of(run), loop_of(faster)]
    starts = [deepcopy(dict(loop.model.backbone.named_parameters())) for loop in loops]
    for loop in loops:
        for _ in range(3):
            loop.train_step()
    for row in (0, 1):
        alone = loops[1 + row].rows.values[0]
        close(loops[0].rows.values[row], alone, 1e-3, 1e-4)
    for loop, start in zip(loops, starts, strict=True):
        for name, value in loop.model.backbone.named_parameters():
            norm = group_of(backbone(folder), name) == "layernorm"
            assert norm is not torch.equal(value, start[name]), name
            assert norm or torch.equal(value, starts[0][name])  # a random one, from its seed


def test_shards_are_read_as_one_file_and_damage_is_said(put):
    folder = put("qwen3")
    model = save_model("qwen3", folder)
    identity = backbone(folder).name
    state = state_of(folder)
    (Path(folder) / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    shards = sorted(Path(folder).glob("model-*.safetensors"))
    sharded = state_of(folder)
    assert len(shards) > 2
    assert backbone(folder).name != identity  # it is known by its content
    assert all(torch.equal(sharded[name], state[name]) for name in state)
    shards[0].write_bytes(shards[0].read_bytes()[:-8])
    refuses(lambda: state_of(folder), shards[0].name, "is damaged")
    shards[0].unlink()
    refuses(lambda: state_of(folder), f"({shards[0].name} is missing)")


def test_a_folder_is_another_one_with_another_configuration(put):
    """Of the same weights: a layer norm that divides by something else, for example."""
    folder = Path(put("gpt2"))
    before = backbone(str(folder)).name
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"layer_norm_epsilon": 0.1}))
    assert backbone(str(folder)).name != before
    refuses(lambda: backbone(before), before)  # it is no longer here


@pytest.mark.parametrize("kind", ["mamba", "resnet", "no-such-type"])
def test_what_does_not_fit_is_refused(kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "model.safetensors").touch()
    refuses(lambda: backbone(str(tmp_path)), repr(kind), "what fits is")


# --------------------------------------------------------------------- tried before it is trained


# Those that people use most, and one for each way in which they differ.
TAKEN = """gpt2 gpt_neox opt llama qwen2 qwen3 gemma gemma3_text mistral apertus qwen3_moe olmo
    ctrl rwkv bert roberta distilbert albert electra modernbert nomic_bert xlnet longformer roformer
    t5"""
REFUSED = "fnet funnel roc_bert dpr cohere bart"


def as_transformers(folder, length, padding=0):
    """Whether the backbone in `folder` gives the hidden states of transformers, for two sequences
    of `length` tokens, the last of which are padding in the second one."""
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    theirs = theirs.encoder if theirs.config.model_type == "t5" else theirs
    architecture = backbone(folder)
    x = torch.randn(2, length, architecture.width, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(length) < torch.tensor([[length], [length - padding]])
    with torch.no_grad():
        expected = hidden_states(theirs, x, mask)[mask]
    hidden = hidden_of(architecture, x, mask if padding else None)[mask]
    return torch.allclose(hidden, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", TAKEN.split())
def test_an_architecture_gives_the_numbers_of_transformers(kind, put):
    folder = put(kind)
    assert as_transformers(folder, 10)
    assert as_transformers(folder, 10, padding=3)


@pytest.mark.parametrize("kind", REFUSED.split())
def test_an_architecture_that_would_give_others_is_refused(kind, put):
    folder = put(kind)
    refuses(lambda: backbone(folder), repr(kind), "what fits is")


SCALED = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 8},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8},
    "longrope": {"short_factor": [1.0, 1.1, 1.2, 1.5], "long_factor": [2.0, 3.0, 4.0, 5.0],
                 "factor": 4.0, "original_max_position_embeddings": 8},
}  # fmt: skip


@pytest.mark.parametrize("scaling", SCALED)
def test_rotary_positions_are_scaled_as_by_transformers(scaling, put):
    rope = {"rope_type": scaling, "rope_theta": 1e4, **SCALED[scaling]}
    folder = put("llama", max_position_embeddings=8, rope_parameters=rope)
    assert as_transformers(folder, 5)
    assert as_transformers(folder, 20)
    X = [np.ones((3 + index % 9, 2)) for index in range(20)]
    fit = partial(FrozenTransformer(folder, steps=2).fit, X, np.arange(20) % 2)
    if scaling in ("dynamic", "longrope"):  # the length of a batch changes all of its sequences
        refuses(fit, "8 tokens", "padding")
    else:
        fit()


def stored_in(folder):
    return load_file(Path(folder) / "model.safetensors")


def store(folder, tensors):
    save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def apertus(put):
    """The folder of a model whose layers have buffers, beta and eps, that are stored."""
    return put("apertus")


def betas(module):
    return [value.item() for name, value in module.named_buffers() if name.endswith("beta")]


def read_betas(folder):
    """Those of the checkpoint; a backbone that is built has the computed ones."""
    architecture = backbone(folder)
    module = build(architecture)
    assert betas(module) == [0.5, 0.5]
    read_weights(architecture, module, architecture.name)
    return betas(module)


def test_buffers_are_those_of_the_checkpoint_or_computed(apertus):
    tensors = stored_in(apertus)
    changed = {
        name: torch.full_like(value, 0.75) if name.endswith("beta") else value
        for name, value in tensors.items()
    }
    store(apertus, changed)
    assert as_transformers(apertus, 5)
    assert read_betas(apertus) == [0.75, 0.75]
    run = run_of(apertus, init="random", weights=None)
    assert betas(assembled(run)[0].backbone) == [0.5, 0.5]
    store(apertus, {name: tensors[name] for name in tensors if not name.endswith("beta")})
    assert read_betas(apertus) == [0.5, 0.5]


def test_eight_bit_floats_are_read_unless_their_scales_would_be_lost(
    apertus,
):
    tensors = stored_in(apertus)
    eight = {
        name: value.to(torch.float8_e4m3fn) if name.endswith("proj.weight") else value
        for name, value in tensors.items()
    }
    store(apertus, eight)
    assert as_transformers(apertus, 5)
    store(apertus, eight | {"layers.0.mlp.up_proj.weight_scale_inv": torch.ones(1, 1)})
    refuses(lambda: state_of(apertus), "weight_scale_inv")
    codes = eight | {"layers.0.mlp.up_proj.weight": torch.ones(24, 16, dtype=torch.int8)}
    store(apertus, codes)
    refuses(lambda: state_of(apertus), "up_proj.weight", "int8")
    store(apertus, tensors | {"layers.0.mlp.up_proj.weight": torch.ones(3, 3)})
    refuses(lambda: state_of(apertus), "up_proj.weight", "(24, 16)", "(3, 3)")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"rope_theta": float("inf")}, "not finite"),
    ],
)
def test_configurations_that_cannot_be_built_are_refused_at_once(changes, sentence, apertus):
    path = Path(apertus) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refuses(lambda: backbone(apertus), sentence, "what fits is")


def test_the_program_around_changes_no_trial_and_keeps_its_random_state(apertus):
    before = torch.get_rng_state()
    with torch.inference_mode():
        architecture = backbone(apertus)
    assert torch.equal(torch.get_rng_state(), before)
    facts.cache_clear()
    assert backbone(apertus) == architecture


def test_of_a_big_model_the_first_layers_of_each_kind_are_tried(monkeypatch):
    pattern = ["sliding_attention"] * 5 + ["full_attention"]
    config = config_of("gemma3_text", num_hidden_layers=12, layer_types=pattern * 2)
    assert layers_of_each_kind(config) == 6
    text = canonical(config.to_dict())
    of_all_layers = tried(text)
    monkeypatch.setattr("fpt.backbones.generic.trial.BIG", 0)
    assert tried(text) == of_all_layers


SMALL = {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}


# With large random biases, all tokens are alike after many layers, and nothing shows that the last
# one changes the others: deep encoders were taken for causal, and their padding was not masked.
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {"num_hidden_layers": 12}),
        ("bert", {"num_hidden_layers": 48}),
        ("roberta", {"num_hidden_layers": 24}),
        ("electra", {"num_hidden_layers": 12, "embedding_size": 64}),
        ("albert", {"num_hidden_layers": 24, "embedding_size": 16}),
        ("albert", {"num_hidden_layers": 4, "inner_group_num": 3, "embedding_size": 16}),
        ("deberta-v2", {"num_hidden_layers": 12}),
    ],
)
def test_a_deep_encoder_is_bidirectional(kind, changes):
    config = transformers.AutoConfig.for_model(kind, **SMALL, **changes)
    assert not tried(canonical(config.to_dict())).causal
