"""GGUF files as backbones: a tiny one that the test writes stands for a published one."""

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize
from refusals import refusal
from safetensors.torch import load_file

from fpt.backbones.gguf_files import convert
from fpt.files import read_json

LAYERS, WIDTH, INNER, HEADS, WORDS = 2, 64, 96, 2, 11
QUANTISED = gguf.GGMLQuantizationType.Q4_1
SHAPES = {  # by the names of llama.cpp, as Linear layers have them
    "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    """A Llama in a GGUF file, and its quantised tensors as gguf itself dequantises them."""
    draw = np.random.default_rng(0)
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100_000.0)
    writer.add_vocab_size(WORDS)
    dequantised = {}

    def tensor(name: str, shape: tuple[int, ...]) -> None:
        values = draw.normal(size=shape).astype(np.float32)
        if len(shape) == 1 or shape[0] == WORDS:
            writer.add_tensor(f"{name}.weight", values)
            return
        packed = quantize(values, QUANTISED)
        dequantised[name] = dequantize(packed, QUANTISED)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=QUANTISED)

    tensor("token_embd", (WORDS, WIDTH))
    tensor("output_norm", (WIDTH,))
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            tensor(f"blk.{layer}.{name}", shape)
        tensor(f"blk.{layer}.attn_norm", (WIDTH,))
        tensor(f"blk.{layer}.ffn_norm", (WIDTH,))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, dequantised


def test_tensors_are_those_that_gguf_itself_dequantises(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path, dequantised = written
    convert(path, tmp_path / "model", {"initializer_range": 1 / 24})
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    for theirs, ours in {
        "blk.1.attn_v": "layers.1.self_attn.v_proj.weight",
        "blk.0.ffn_down": "layers.0.mlp.down_proj.weight",
        "blk.1.ffn_gate": "layers.1.mlp.gate_proj.weight",
    }.items():
        expected = torch.from_numpy(dequantised[theirs]).bfloat16()
        assert torch.equal(tensors[ours], expected)
    config = read_json(tmp_path / "model" / "config.json")
    assert config["initializer_range"] == 1 / 24
    assert (config["num_hidden_layers"], config["hidden_size"]) == (LAYERS, WIDTH)


def test_the_same_file_gives_the_same_bytes(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path, _ = written
    for name in ("one", "two"):
        convert(path, tmp_path / name, {})
    contents = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert contents[0] == contents[1]


def test_a_damaged_file_and_a_missing_package_are_one_sentence(
    written: tuple[Path, dict[str, np.ndarray]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:200])
    assert str(damaged) in refusal(lambda: convert(damaged, tmp_path / "model", {}))
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "gguf" in refusal(lambda: convert(path, tmp_path / "model", {}))
    assert not (tmp_path / "model").exists()
