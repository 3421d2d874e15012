"""What is drawn, kept and refused in backbones of types that differ from a plain decoder."""

import json
import sys
import threading

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses
from saved_models import save_model

from fpt import FrozenTransformer
from fpt.backbones import backbone, build
from fpt.backbones.base import matrices
from fpt.backbones.generic.skeleton import class_of, quiet
from fpt.backbones.initialisations import INITS, initial_state

X = np.random.default_rng(0).normal(size=(40, 5, 2))
Y = np.arange(40) % 2


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a random model of a type into a folder; its path."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))

    def write(kind):
        save_model(kind, tmp_path / kind)
        return str(tmp_path / kind)

    return write


def drawn(folder, init, seed=0):
    architecture = backbone(folder)
    return initial_state(architecture, build(architecture), init, architecture.name, seed)


# openai-gpt draws its matrices in its constructor alone, and Apertus its activations.
@pytest.mark.parametrize("kind", ["openai-gpt", "apertus", "gemma", "t5", "albert", "qwen3_moe"])
@pytest.mark.parametrize("init", ["random", "random-own", "random-at-scale"])
def test_every_value_of_a_random_backbone_is_drawn(kind, init, put):
    folder = put(kind)
    states = [drawn(folder, init, seed) for seed in (0, 0, 1)]
    for name, values in states[0].items():
        assert values.isfinite().all(), name
        assert torch.equal(values, states[1][name]), name
    assert any(not torch.equal(values, states[2][name]) for name, values in states[0].items())


@pytest.mark.parametrize("kind", ["qwen3_moe", "xlnet"])
def test_matrices_that_are_no_linear_layers_are_scaled_or_refused(kind, put):
    folder = put(kind)
    for init in ("spectrum", "permuted-rows"):
        refuses(lambda init=init: drawn(folder, init), "axis of inputs", "'shuffled'")
    pretrained, scaled = drawn(folder, "pretrained"), drawn(folder, "random-at-scale")
    inside = [
        name
        for name, tensor in pretrained.items()
        if tensor.numel() > max(tensor.shape) and "layer" in name
    ]
    assert len(inside) > len([*matrices(build(backbone(folder)))])
    spread = [
        torch.cat([state[name].flatten() for name in inside]).std()
        for state in (pretrained, scaled)
    ]
    assert spread[1] == pytest.approx(spread[0].item(), rel=0.02)


def test_a_dense_decoder_keeps_every_initialisation(put):
    folder = put("llama")
    for init in INITS:
        if init != "random-scaled":
            drawn(folder, init)


@pytest.mark.parametrize(
    ("kind", "setting", "usual"),
    [("big_bird", "attention_type", "original_full"), ("rwkv", "rescale_every", 0)],
)
def test_a_model_does_not_change_itself_as_it_computes(kind, setting, usual):
    settings = transformers.CONFIG_MAPPING[kind]().to_dict()
    assert getattr(class_of(settings)[0], setting) == usual


def test_an_rwkv_of_many_layers_keeps_its_frozen_weights(tmp_path, monkeypatch):
    """transformers halves those of the later layers at the first evaluation."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    config = transformers.RwkvConfig(
        hidden_size=16,
        attention_hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=8,
        vocab_size=9,
        context_length=32,
    )
    transformers.RwkvModel(config).save_pretrained(tmp_path / "rwkv")
    groups = ("input", "output", "layernorm", "attention", "feedforward")
    model = FrozenTransformer(
        str(tmp_path / "rwkv"), steps=8, eval_every=8, lr=0.02, trainable=groups
    )
    inputs = np.random.default_rng(0).normal(size=(120, 6, 2))
    labels = (inputs.mean((1, 2)) > 0) * 1
    held_out = (inputs[60:], labels[60:])
    model.fit(inputs[:60], labels[:60], validation=held_out)
    probability = model.predict_proba(held_out[0])[np.arange(60), held_out[1]]
    loss = model.learning_curve_["valid_loss"].iloc[-1]
    assert -np.log(probability).mean() == pytest.approx(loss, rel=1e-4)


def save_minicpm3(folder):
    config = transformers.MiniCPM3Config(
        hidden_size=32, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2,
        vocab_size=9, q_lora_rank=8, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8,
        v_head_dim=8, scale_depth=1.4,
    )  # fmt: skip
    transformers.MiniCPM3Model(config).save_pretrained(folder / "minicpm3")


def test_a_model_whose_layers_depend_on_their_number_is_not_cut(tmp_path):
    save_minicpm3(tmp_path)
    backbone(str(tmp_path / "minicpm3"))
    refuses(lambda: backbone(str(tmp_path / "minicpm3@2")), "scaled by how many there are")


# A model of real size is tried by its first layers.
def test_a_big_model_that_cannot_be_cut_is_tried_as_it_is(tmp_path, monkeypatch):
    save_minicpm3(tmp_path)
    monkeypatch.setattr("fpt.backbones.generic.trial.BIG", 0)
    assert backbone(str(tmp_path / "minicpm3")).layers == 4


def test_an_esm_is_cut_and_its_parameters_are_counted(tmp_path):
    """The shape of its head for contacts depends on the number of layers."""
    config = transformers.EsmConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
        vocab_size=9, position_embedding_type="rotary", token_dropout=False,
    )  # fmt: skip
    transformers.EsmModel(config).save_pretrained(tmp_path / "esm")
    for name, layers in (("esm", 3), ("esm@2", 2)):
        model = FrozenTransformer(str(tmp_path / name), steps=2).fit(X, Y)
        matrices = model.trainable_parameters().loc["attention", "parameters"]
        assert matrices == layers * 4 * (16 * 16 + 16)


@pytest.mark.parametrize("kind", ["xlnet"])
def test_what_changes_nothing_is_not_counted(kind, put):
    counts = FrozenTransformer(put(kind), steps=2).fit(X, Y).trainable_parameters()
    assert "embeddings" not in counts.index


def test_a_norm_without_gains_is_no_group_that_is_asked_for(put):
    """The default groups leave out what a backbone does not have."""
    model = FrozenTransformer(put("olmo"), steps=2).fit(X, Y)
    assert model.fitted_.spec.trainable == ("input", "output")
    without = FrozenTransformer(put("olmo"), steps=2, trainable=("layernorm",))
    refuses(lambda: without.fit(X, Y), "'layernorm' is not known")


def test_numbered_embeddings_are_no_layers(tmp_path):
    config = transformers.MarkupLMConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        vocab_size=9, max_position_embeddings=32, xpath_unit_hidden_size=2, max_depth=5,
    )  # fmt: skip
    transformers.MarkupLMModel(config).save_pretrained(tmp_path / "markuplm")
    assert backbone(str(tmp_path / "markuplm")).layers == 2


def test_a_configuration_that_asks_for_tuples_is_read(put):
    folder = put("llama")
    path = f"{folder}/config.json"
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content | {"return_dict": False}, file)
    assert backbone(folder).layers == 2


def test_what_another_thread_says_while_a_model_is_loaded_is_not_lost(capsys):
    with quiet():
        thread = threading.Thread(target=lambda: print("still here", file=sys.stderr))
        thread.start()
        thread.join()
    assert "still here" in capsys.readouterr().err
