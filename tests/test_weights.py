"""How bodies start: weights as they were stored, random draws as they are described."""

import json
import math
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import WEIGHTS, pretrained, spec, task_of
from torch import Tensor

from fpt.backbones import backbone, build
from fpt.backbones.initialisations import INITS, body_state
from fpt.backbones.weights import file_digest, find
from fpt.files import FptError
from fpt.training.model import assemble

CPU = torch.device("cpu")


def start(name: str, init: str, seed: int = 0, weights: str | None = None) -> dict[str, Tensor]:
    body = backbone(name)
    return body_state(body, build(body), init, weights, seed)


def file_of(tiny: Path) -> Path:
    return tiny / "backbones" / WEIGHTS / "model.safetensors"


def test_pretrained_weights_are_the_stored_ones(tiny: Path) -> None:
    """With the head's prefix and without it; rounded to bfloat16, in which they were stored."""
    stored = load_file(file_of(tiny))
    state = start("tiny", "pretrained", weights=WEIGHTS)
    assert torch.equal(state.pop("positions"), stored["transformer.wpe.weight"])
    assert len(state) == 2 * 12 + 2
    for name, value in state.items():
        assert torch.equal(value, stored[name.replace("gpt2.", "transformer.")])
    bare = {name.removeprefix("transformer."): value for name, value in stored.items()}
    save_file(bare, file_of(tiny))
    again = start("tiny", "pretrained", weights=WEIGHTS)
    assert all(torch.equal(again[name], value) for name, value in state.items())


@pytest.mark.parametrize("init", INITS)
def test_every_body_is_rounded_to_bfloat16(init: str, tiny: Path) -> None:
    fine = {name: value + 1e-4 for name, value in load_file(file_of(tiny)).items()}
    save_file(fine, file_of(tiny))
    for name, value in start("tiny", init, weights=WEIGHTS).items():
        assert value.dtype == torch.float32
        assert torch.equal(value, value.bfloat16().float()), name
        assert value.isfinite().all(), name


@pytest.mark.parametrize("init", ["random", "random-scaled"])
def test_both_default_starts_of_gpt2(init: str) -> None:
    """Standard deviations per tensor: 0.02, and over sqrt(2 * layers) where a block adds."""
    for name, value in start("nano", init).items():
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


@pytest.mark.parametrize("name", ["tiny", "lstm-tiny", "lstm-released-tiny"])
def test_a_seed_is_a_body(name: str, tiny: Path) -> None:
    first, again, other = (start(name, "random", seed) for seed in (0, 0, 1))
    assert all(torch.equal(again[key], value) for key, value in first.items())
    drawn = [key for key, value in first.items() if value.unique().numel() > 2]
    assert len(drawn) >= 4
    assert all(not torch.equal(other[key], first[key]) for key in drawn)
    values = [first[key].flatten()[:8].tolist() for key in drawn]
    assert len({tuple(row) for row in values}) == len(drawn)  # no tensor repeats another


def test_pretrained_bodies_do_not_depend_on_the_seed(tiny: Path) -> None:
    depends = {init for init in INITS if INITS[init].depends_on_seed}
    assert set(INITS) - depends == {"pretrained", "random-layernorm"}
    one, two = (start("tiny", "pretrained", seed, WEIGHTS) for seed in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_model_holds_nothing_without_values(tiny: Path) -> None:
    """Bodies are built on the meta device: none of it may be left."""
    runs = [
        pretrained(),
        spec(),
        spec(init="random-scaled"),
        spec(backbone="lstm-tiny", trainable=("input", "output", "recurrent")),
        spec(backbone="lstm-released-tiny", trainable=("input", "output")),
    ]
    for run in runs:
        model, _, _ = assemble([run], task_of(run), CPU)
        tensors = [*model.named_parameters(), *model.named_buffers()]
        assert {name for name, tensor in tensors if tensor.device.type != "cpu"} == set()
        assert all(tensor.isfinite().all() for _, tensor in tensors)


def test_the_digest_of_the_file_that_is_read(tiny: Path) -> None:
    path = find(WEIGHTS)
    assert path == file_of(tiny)
    assert len(file_digest(path)) == 64


# ------------------------------------------------------------------------------------------ errors


def refused(weights: str | None, name: str = "tiny", init: str = "pretrained") -> str:
    """The one sentence with which the weights are refused."""
    with pytest.raises(FptError) as caught:
        start(name, init, weights=weights)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_an_unknown_init() -> None:
    message = refused(None, "nano", "warm")
    assert message == f"There is no init 'warm'; choose one of {', '.join(INITS)}."


def test_weights_that_are_nowhere(tiny: Path) -> None:
    message = refused("missing")
    assert "'missing'" in message
    assert str(tiny / "backbones") in message
    assert "pretrain them" in message


def test_weights_that_are_not_named(tiny: Path) -> None:
    message = refused(None)
    assert "'tiny'" in message
    assert "use init 'random'" in message


@pytest.mark.parametrize("name", ["nano", "lstm-tiny"])
def test_weights_of_another_body(name: str, tiny: Path) -> None:
    message = refused(WEIGHTS, name)
    assert f"does not fit backbone {name!r}: " in message
    assert "it holds " in message


def test_weights_with_a_tensor_missing(tiny: Path) -> None:
    stored = load_file(file_of(tiny))
    del stored["transformer.h.1.mlp.c_fc.bias"]
    save_file(stored, file_of(tiny))
    assert "h.1.mlp.c_fc.bias should be (64,)" in refused(WEIGHTS)


@pytest.mark.parametrize("how", ["truncated", "empty", "text"])
def test_a_damaged_file(how: str, tiny: Path) -> None:
    path = file_of(tiny)
    content = path.read_bytes()
    path.write_bytes({"truncated": content[:-100], "empty": b"", "text": b"<html>"}[how])
    assert f"{path} is damaged (" in refused(WEIGHTS)


@pytest.mark.parametrize("stated", ["beside it", "by the hub"])
@pytest.mark.parametrize("how", ["flipped", "swapped"])
def test_whole_files_that_are_not_those_that_are_stated(how: str, stated: str, tiny: Path) -> None:
    """The digest is in the notes of the pretraining, or the name of the file in the hub's cache."""
    path = file_of(tiny)
    content, digest = bytearray(path.read_bytes()), file_digest(path)
    target = path
    if stated == "beside it":
        path.with_name("pretraining.json").write_text(json.dumps({"weights_digest": digest}))
    else:
        target = path.rename(tiny / digest)
        path.symlink_to(target)
    start("tiny", "pretrained", weights=WEIGHTS)
    if how == "flipped":
        content[-1] ^= 1
        target.write_bytes(content)
    else:
        save_file({name: value / 2 for name, value in load_file(path).items()}, target)
    assert f"{path} is damaged (its SHA-256" in refused(WEIGHTS)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_pickle_is_never_opened(name: str, tiny: Path) -> None:
    sprung = tiny / "sprung"
    file_of(tiny).unlink()
    (file_of(tiny).parent / name).write_bytes(pickle.dumps(Trap(sprung)))
    refused(WEIGHTS)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))  # the trap works
    assert sprung.exists()


@pytest.mark.parametrize("weights", ["hub:somebody/something@main", "hub:somebody/something"])
def test_a_hub_that_cannot_be_reached(weights: str, tiny: Path, monkeypatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tiny / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refused(weights)
    assert "somebody/something" in message
    assert ("HF_HUB_OFFLINE" if "@" in weights else "REVISION") in message
