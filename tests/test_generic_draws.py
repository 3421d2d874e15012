"""What is drawn, kept and refused in backbones of types that differ from a plain decoder."""

import sys
import threading

import numpy as np
import pytest
import torch
import transformers
from refusals import refuses

from fpt import FrozenTransformer
from fpt.backbones import backbone, build
from fpt.backbones.base import matrices
from fpt.backbones.generic.skeleton import class_of, quiet
from fpt.backbones.initialisations import INITS, initial_state

X = np.random.default_rng(0).normal(size=(40, 5, 2))
Y = np.arange(40) % 2


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


def test_an_rwkv_of_many_layers_keeps_its_frozen_weights(put):
    """transformers halves those of the later layers at the first evaluation."""
    groups = ("input", "output", "layernorm", "attention", "feedforward")
    folder = put("rwkv", num_hidden_layers=8, context_length=32)
    model = FrozenTransformer(folder, steps=8, eval_every=8, lr=0.02, trainable=groups)
    inputs = np.random.default_rng(0).normal(size=(120, 6, 2))
    labels = (inputs.mean((1, 2)) > 0) * 1
    held_out = np.arange(60, 120)
    model.fit(inputs, labels, validation=held_out)
    probability = model.predict_proba(inputs[held_out])[np.arange(60), labels[held_out]]
    loss = model.learning_curve_["valid_loss"].iloc[-1]
    assert -np.log(probability).mean() == pytest.approx(loss, rel=1e-4)


def test_a_model_whose_layers_depend_on_their_number_is_not_cut(put):
    folder = put("minicpm3")
    backbone(folder)
    refuses(lambda: backbone(f"{folder}@2"), "scaled by how many there are")


# A model of real size is tried by its first layers.
def test_a_big_model_that_cannot_be_cut_is_tried_as_it_is(put, monkeypatch):
    monkeypatch.setattr("fpt.backbones.generic.trial.BIG", 0)
    assert backbone(put("minicpm3")).layers == 4


def test_an_esm_is_cut_and_its_parameters_are_counted(put):
    """The shape of its head for contacts depends on the number of layers."""
    folder = put("esm", num_hidden_layers=3, position_embedding_type="rotary", token_dropout=False)
    for name, layers in ((folder, 3), (f"{folder}@2", 2)):
        model = FrozenTransformer(name, steps=2).fit(X, Y)
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


def test_numbered_embeddings_are_no_layers(put):
    assert backbone(put("markuplm", xpath_unit_hidden_size=2, max_depth=5)).layers == 2


def test_a_configuration_that_asks_for_tuples_is_read(put):
    assert backbone(put("llama", return_dict=False)).layers == 2


def test_what_another_thread_says_while_a_model_is_loaded_is_not_lost(capsys):
    with quiet():
        thread = threading.Thread(target=lambda: print("still here", file=sys.stderr))
        thread.start()
        thread.join()
    assert "still here" in capsys.readouterr().err
