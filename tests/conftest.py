"""Fixtures that many tests share."""

from pathlib import Path

import pytest

from fpt.records import Store


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The backbones of `tiny` by name, with pretrained weights; returns the folder of the test,
    where locks and checkpoints lie too."""
    from tiny import TINY, save_weights

    from fpt.backbones import BACKBONES

    for architecture in TINY:
        monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    monkeypatch.setattr("fpt.training.train.CACHE", tmp_path / "cache")
    save_weights(tmp_path / "backbones")
    return tmp_path


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for prepared data, and no manifest: trivial baselines are measured."""
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path / "prepared")
    monkeypatch.setattr("fpt.tasks.datasets.DATA", tmp_path)
    return tmp_path / "prepared"


@pytest.fixture
def corpora(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpora folder without files, and the fixture `prepared`."""
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of the profile smoke, without records."""
    return Store(tmp_path / "reports" / "smoke" / "records")
