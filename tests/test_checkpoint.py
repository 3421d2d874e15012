"""Checkpoints: read as they were written, or set aside so that their pack starts again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny import spec, task_of

from fpt.backbones import backbone
from fpt.training import checkpoint
from fpt.training.loop import Loop

PLACE = "c.safetensors"


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / PLACE
    assert checkpoint.read(path) is None
    assert checkpoint.members(path) == []
    tensors = {"values": torch.randn(2, 3), "none": torch.empty(0, 3)}
    history = {"keys": ["a", "b"], "step": 3, "loss": 0.1 + 0.2}
    checkpoint.write(path, tensors, history)
    found = checkpoint.read(path)
    assert found is not None
    assert found[1] == history
    assert {name: t.tolist() for name, t in found[0].items()} == {
        name: t.tolist() for name, t in tensors.items()
    }
    assert checkpoint.members(path) == ["a", "b"]


@pytest.mark.parametrize(
    "how", ["truncated", "empty", "flipped tensor", "flipped history", "text", "no digest"]
)
def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path, how: str) -> None:
    path = tmp_path / PLACE
    checkpoint.write(path, {"values": torch.ones(50)}, {"keys": ["abc"], "step": 3})
    content = bytearray(path.read_bytes())
    if how == "truncated":
        del content[-40:]
    elif how == "empty":
        content.clear()
    elif how == "flipped tensor":
        content[-1] ^= 1
    elif how == "flipped history":
        content[content.index(b"abc")] ^= 1
    else:
        content[:] = b"this is no checkpoint"
    path.write_bytes(content)
    if how == "no digest":
        save_file({"values": torch.ones(3)}, path, {"history": '{"keys": []}'})
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*starts again"):
        assert checkpoint.read(path) is None
    assert [each.name for each in tmp_path.iterdir()] == [f"{path.name}.corrupt"]
    assert checkpoint.read(path) is None


def stored(place: str, value: object = None) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """A checkpoint's tensors and history with `value` at a place such as `history step`, or without
    it."""

    def change(tensors: dict[str, Any], history: dict[str, Any]) -> None:
        *above, last = place.split()
        there: Any = {"tensors": tensors, "history": history}
        for name in above:
            there = there[int(name) if name.isdecimal() else name]
        if value is None:
            del there[last]
        else:
            there[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        stored("history alive"),
        stored("history alive", [0, 1]),
        stored("history step", 12),
        stored("history progress 0 rank", 1),
        stored("tensors best"),
        stored("tensors first", torch.ones(2, 3)),
    ],
)
def test_a_checkpoint_that_does_not_fit_its_pack(
    change: Callable[[dict[str, Any], dict[str, Any]], None], tiny: Path
) -> None:
    path = tiny / PLACE

    def loop() -> Loop:
        return Loop([spec()], task_of(spec()), torch.device("cpu"), path)

    loop().run(deadline=0.0)
    found = checkpoint.read(path)
    assert found is not None
    change(*found)
    checkpoint.write(path, *found)
    again = loop()
    with pytest.warns(UserWarning, match=rf"{PLACE} is damaged .*starts again"):
        again.resume()
    assert (again.step, path.exists()) == (0, False)
    assert again.run()


@pytest.mark.parametrize(
    "change",
    [
        stored("history log step", 99),
        stored("tensors model.gpt2.transformer.wte.weight", torch.ones(2)),
        stored("tensors adam.0.exp_avg"),
    ],
)
def test_a_checkpoint_that_does_not_fit_its_pretraining(
    change: Callable[[dict[str, Any], dict[str, Any]], None], tmp_path: Path
) -> None:
    plan = Pretraining("english", "pico", 1000)
    model = language_model(backbone("pico"), 0)
    optimizer, path = optimizer_of(plan, model), tmp_path / PLACE
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    save(path, plan, "digest", model, optimizer, Log(1))
    found = checkpoint.read(path)
    assert found is not None
    assert resume(path, plan, "digest", model, optimizer).step == 1
    change(*found)
    checkpoint.write(path, *found)
    with pytest.warns(UserWarning, match=rf"{PLACE} is damaged .*starts again"):
        assert resume(path, plan, "digest", model, optimizer) == Log()
