"""GGUF files as backbones: a tiny one that the test writes stands for a published one."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from published_files import LAYERS, WIDTH, write_gguf
from refusals import refusal
from safetensors.torch import load_file

from fpt.backbones.generic import convert
from fpt.files import read_json


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """A GGUF file, and its quantised tensors as gguf itself dequantises them."""
    path = tmp_path / "tiny.gguf"
    return path, write_gguf(path)


def test_tensors_are_those_that_gguf_itself_dequantises(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path, dequantised = written
    convert(path, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    for theirs, ours in {
        "blk.1.attn_v": "layers.1.self_attn.v_proj.weight",
        "blk.0.ffn_down": "layers.0.mlp.down_proj.weight",
        "blk.1.ffn_gate": "layers.1.mlp.gate_proj.weight",
    }.items():
        expected = torch.from_numpy(dequantised[theirs]).bfloat16()
        assert torch.equal(tensors[ours], expected)
    config = read_json(tmp_path / "model" / "config.json")
    assert (config["num_hidden_layers"], config["hidden_size"]) == (LAYERS, WIDTH)


def test_the_same_file_gives_the_same_bytes(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path, _ = written
    for name in ("one", "two"):
        convert(path, tmp_path / name)
    contents = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert contents[0] == contents[1]


def test_a_damaged_file_and_a_missing_package_are_one_sentence(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:200])
    assert str(damaged) in refusal(lambda: convert(damaged, tmp_path / "model"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "gguf" in refusal(lambda: convert(path, tmp_path / "model"))
    assert not (tmp_path / "model").exists()
