"""Checkpoints: read as they were written, or set aside so that their pack starts again."""

import pytest
import torch
from safetensors.torch import save_file

from fpt.training import checkpoint

PLACE = "c.safetensors"


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    path = tmp_path / PLACE
    assert checkpoint.read(path) is None
    tensors = {"values": torch.randn(2, 3), "none": torch.empty(0, 3)}
    history = {"keys": ["a", "b"], "step": 3, "loss": 0.1 + 0.2}
    checkpoint.write(path, tensors, history)
    stored, stored_history = checkpoint.read(path) or ({}, {})
    assert stored_history == history
    torch.testing.assert_close(stored, tensors, rtol=0, atol=0)


@pytest.mark.parametrize(
    "how", ["truncated", "empty", "flipped tensor", "flipped history", "text", "no digest"]
)
def test_a_damaged_checkpoint_is_set_aside(tmp_path, how):
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
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.name}.corrupt"]
    assert checkpoint.read(path) is None
