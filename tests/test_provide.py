"""The bodies of a profile: listed, made where training is allowed, or said to be missing."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from fpt import config, weights
from fpt.errors import FptError
from fpt.pretrain import provide as module
from fpt.pretrain.language import Pretraining
from fpt.pretrain.provide import plan_of, provide


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of an empty project, the only place where bodies are looked for."""
    monkeypatch.setattr(module, "DATA", tmp_path)
    monkeypatch.setattr(weights, "PACKAGE", tmp_path)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    return tmp_path


def profile(train_on: str, name: str) -> config.Profile:
    return replace(config.load("smoke"), train_on=(train_on,), weights=name)


def listed(data: Path) -> dict[str, str | None]:
    return json.loads((data / "backbones/manifest.json").read_text())


def test_a_body_is_listed_with_its_digest(data: Path) -> None:
    (data / "backbones/mine").mkdir(parents=True)
    (data / "backbones/mine/model.safetensors").write_bytes(b"weights")
    assert "present" in provide(profile("cpu", "mine"))
    assert listed(data) == {"mine": sha256(b"weights").hexdigest()}


def test_a_missing_body_does_not_stop_rendering(data: Path) -> None:
    assert "not here" in provide(profile("cuda", "nano-english-7"))
    assert listed(data) == {"nano-english-7": None}


def test_a_missing_body_is_pretrained_where_training_is_allowed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Pretraining] = []

    def pretrain(plan: Pretraining, out: Path) -> None:
        asked.append(plan)
        out.mkdir(parents=True)
        (out / "model.safetensors").write_bytes(b"made")

    monkeypatch.setattr(module, "pretrain", pretrain)
    assert "pretrained" in provide(profile("cpu", "nano-english-7"))
    assert [(plan.size, plan.corpus, plan.seed) for plan in asked] == [("nano", "english", 7)]
    assert listed(data) == {"nano-english-7": sha256(b"made").hexdigest()}


@pytest.mark.parametrize("name", ["english-0", "nano-english", "huge-english-0"])
def test_a_name_without_a_plan_is_refused(name: str) -> None:
    with pytest.raises(FptError, match="SIZE-CORPUS-SEED"):
        plan_of(name)
