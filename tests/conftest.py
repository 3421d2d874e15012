"""What every test runs under: no network, no window system, one thread."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bodies of `tiny` by name, with pretrained weights; returns the folder of the test."""
    from tiny import TINY, save_weights

    from fpt.backbones import BACKBONES

    for body in TINY:
        monkeypatch.setitem(BACKBONES, body.name, body)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    save_weights(tmp_path / "backbones")
    return tmp_path
