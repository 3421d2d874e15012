"""Fixtures that many tests share."""

from pathlib import Path

import pytest


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


@pytest.fixture
def rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `fpt render` executed the test: what is made is written to the report."""
    from fpt.report.pages import RENDERS

    monkeypatch.setenv(RENDERS, "1")


@pytest.fixture
def matrix(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `lab` of the test is that of matrix.yaml, the others are the project's."""
    from fpt.files import PARAMS

    text = PARAMS.read_text()
    before, after = text.index("\nlab:"), text.index("\npaper:")
    lab = Path(__file__).with_name("matrix.yaml").read_text()
    path = tmp_path_factory.mktemp("matrix") / "params.yaml"
    path.write_text(text[:before] + "\n" + lab + text[after:])
    monkeypatch.setattr("fpt.files.PARAMS", path)
