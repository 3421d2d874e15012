"""Weights of backbones: what is stored is what is read, random draws are as described, and anything
else is refused in one sentence and never opened."""

import json
import math
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from refusals import check_said, refusal, refuses
from safetensors.torch import load_file, save_file
from tiny import WEIGHTS

from fpt.backbones import backbone, build
from fpt.backbones.initialisations import INITS, initial_state
from fpt.backbones.weights import file_digest, find
from fpt.pretraining.ensure import ensure_weights
from fpt.pretraining.plans import plan_of

BIAS = "transformer.h.1.mlp.c_fc.bias"
TABLE = "transformer.wpe.weight"


def initial(init="pretrained", weights=WEIGHTS, name="tiny", seed=0):
    architecture = backbone(name)
    return initial_state(architecture, build(architecture), init, weights, seed)


def file_of(tiny):
    return tiny / "backbones" / WEIGHTS / "model.safetensors"


def change(tiny, name, by):
    stored = load_file(file_of(tiny))
    save_file({**stored, name: by(stored[name]).contiguous()}, file_of(tiny))


def test_pretrained_weights_are_the_stored_ones(tiny):
    """With the head's prefix and without it, in any precision."""
    assert find(WEIGHTS) == file_of(tiny)
    stored = load_file(file_of(tiny))
    state = initial()
    assert len(state) == 2 * 12 + 3
    for name, value in state.items():
        theirs = TABLE if name == "positions" else name.replace("gpt2.", "transformer.")
        assert torch.equal(value, stored[theirs])
    for kind in (torch.float32, torch.float64):
        bare = {name.removeprefix("transformer."): t.to(kind) for name, t in stored.items()}
        save_file(bare, file_of(tiny))
        assert all(torch.equal(value, state[name]) for name, value in initial().items())


@pytest.mark.parametrize("init", INITS)
def test_every_backbone_is_rounded_to_bfloat16(init, tiny):
    fine = {name: value + 1e-4 for name, value in load_file(file_of(tiny)).items()}
    save_file(fine, file_of(tiny))
    for name, value in initial(init).items():
        assert value.dtype == torch.float32
        assert torch.equal(value, value.bfloat16().float()), name
        assert value.isfinite().all(), name


@pytest.mark.parametrize("init", ["random", "random-scaled"])
def test_both_default_initialisations_of_gpt2(init):
    """Standard deviations per tensor: 0.02, and over sqrt(2 * layers) where a block adds."""
    for name, value in initial(init, None, "nano").items():
        if name.endswith("bias"):
            assert value.eq(0).all(), name
        elif ".ln_" in name:
            assert value.eq(1).all(), name
        else:
            scaled = init == "random-scaled" and "c_proj" in name
            std = 0.02 / math.sqrt(2 * 4) if scaled else 0.02
            error = std / math.sqrt(2 * value.numel())  # of an estimated standard deviation
            assert value.std().item() == pytest.approx(std, abs=5 * error + 1e-3 * std), name
            assert abs(value.mean().item()) < 5 * std / math.sqrt(value.numel()), name
            assert value.abs().max() > 3 * std, name  # not truncated


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"init": "warm"}, ["initialisation: 'warm' is not known", "pretrained, random"]),
        ({"weights": "missing"}, ["'missing'", "backbones", "pretrain them"]),
        ({"init": "random-scaled", "name": "vit-pico"}, ["'random-scaled' is GPT-2's"]),
        ({"name": "nano"}, ["does not fit backbone 'nano': ", "it holds "]),
    ],
)
def test_what_cannot_be_given(arguments, sentence, tiny):
    refuses(lambda: initial(**arguments), *sentence)


CHANGES = {
    "NaN": (BIAS, lambda t: t * float("nan"), "of finite floating-point numbers"),
    "whole numbers": (BIAS, lambda t: t.long(), "it holds (64,) of torch."),
    "fewer positions": (TABLE, lambda t: t[:32], "it holds (32, 16)"),
}


@pytest.mark.parametrize("change_of", CHANGES)
def test_a_tensor_that_does_not_fit(change_of, tiny):
    name, by, expected = CHANGES[change_of]
    change(tiny, name, by)
    refuses(initial, f"{file_of(tiny)} does not fit backbone 'tiny'", expected)


def test_a_damaged_file(tiny):
    """A whole file too, if it is not the one of which the pretraining metadata state the digest."""
    path = file_of(tiny)
    content = path.read_bytes()
    metadata = path.with_name("pretraining.json")
    metadata.write_text(json.dumps({"weights_digest": file_digest(path)}))
    initial()
    save_file({name: value / 2 for name, value in load_file(path).items()}, path)
    refuses(initial, f"{path} is damaged or not readable (its SHA-256")
    metadata.unlink()
    path.write_bytes(content[:-100])
    refuses(initial, f"{path} is damaged or not readable (")


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "is not valid JSON"), ("[]", "no values by name")]
)
def test_damaged_metadata_beside_the_weights(text, sentence, tiny):
    file_of(tiny).with_name("pretraining.json").write_text(text)
    refuses(initial, "pretraining.json", sentence)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


# Opening a pickle executes what is in it.
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_pickle_is_never_opened(name, tiny):
    sprung = tiny / "sprung"
    file_of(tiny).unlink()
    (file_of(tiny).parent / name).write_bytes(pickle.dumps(Trap(sprung)))
    refusal(initial)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))  # the trap works
    assert sprung.exists()


NAMES = ["../outside", "..", "", "./tiny-weights", ".hidden", "a\0b"]


@pytest.mark.parametrize("name", [*NAMES, "x" * 300, "{folder}/outside"])
def test_a_name_that_leads_elsewhere(name, tiny):
    """Right weights lie there; they are not taken."""
    name = name.format(folder=tiny)
    shutil.copytree(file_of(tiny).parent, tiny / "outside")
    shutil.copytree(file_of(tiny).parent, tiny / "backbones/.hidden")
    shutil.copy(file_of(tiny), tiny / "backbones/model.safetensors")
    sentence = refusal(lambda: initial(weights=name))
    check_said(sentence, [repr(name), "a path is not taken", str(tiny)])
    for action in (plan_of, lambda identity: ensure_weights([identity], train_here=True)):
        refuses(lambda action=action: action(name), repr(name))


@pytest.mark.parametrize("name", ["hub:../../outside@main", "hub:gpt2@a b", "hub:a/gpt2"])
def test_a_name_that_is_not_the_hubs(name, tiny, monkeypatch):
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: pytest.fail("asked"))
    refuses(lambda: initial(weights=name), repr(name), "hub:OWNER/REPO@REVISION")


def test_a_hub_that_fails(tiny, monkeypatch):
    def download(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    parts = ["model.safetensors of a/gpt2 (revision 1234)", "HF_HUB_OFFLINE", "HF_HUB_CACHE"]
    refuses(lambda: initial(weights="hub:a/gpt2@1234"), *parts)
