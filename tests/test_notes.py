"""What was written of bodies, kept with the records so that their weights need not be."""

import json
import logging
from pathlib import Path
from typing import Any

import made
import pytest
from made import make_study

from fpt.analysis.study import Study
from fpt.files import FptError
from fpt.pretraining import metadata as notes

BODY = "nano-dyck-64@1k-0"
NOTES = {
    "tokens": 1000,
    "positions_seen": 1024,
    "unigram_entropy": 6.5,
    "valid_loss": 4.5,
    "weights_digest": "0" * 64,
}


def put(tmp_path: Path, **others: Any) -> Path:
    """Weights that were made here, with what was written of them; their folder."""
    folder = tmp_path / "backbones" / BODY
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "pretraining.json").write_text(json.dumps(NOTES | others))
    return folder


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    monkeypatch.setattr(made, "weights", lambda _: {"dyck": BODY, "english": "nano-english-0"})
    arms = ["random", "fpt-dyck", "fpt-english"]
    return make_study(tmp_path, monkeypatch, "synthetic_pretraining", arms, tasks={"bit-xor": {}})


def index(study: Study) -> dict[str, Any]:
    study.write_index()
    return json.loads((study.folder / "index" / f"{study.name}.json").read_text())


def test_a_table_needs_no_weights(study: Study, tmp_path: Path) -> None:
    assert BODY not in index(study)
    folder = put(tmp_path)
    first = index(study)
    assert len(first[BODY]) == 64
    assert "nano-english-0" not in first  # it ships, and has its notes there
    for file in folder.iterdir():
        file.unlink()
    assert index(study) == first
    assert notes.read(study.store.folder, BODY)["valid_loss"] == 4.5
    assert notes.read(study.store.folder, "nano-english-0")["valid_loss"] < 4.5


def test_a_copy_stays_what_the_records_are_of(
    study: Study, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path)
    before = index(study)
    put(tmp_path, valid_loss=3.0, weights_digest="1" * 64)
    with caplog.at_level(logging.WARNING):
        assert index(study) == before
    assert f"The weights {BODY} here are others" in caplog.text
    assert notes.read(study.store.folder, BODY)["valid_loss"] == 4.5


def test_an_edited_copy_is_refused(study: Study, tmp_path: Path) -> None:
    put(tmp_path)
    study.write_index()
    path = notes.copy_of(study.store.folder, BODY)
    path.write_text(path.read_text().replace("4.5", "3.5"))
    with pytest.raises(FptError, match="its digest does not fit") as caught:
        notes.read(study.store.folder, BODY)
    assert "\n" not in str(caught.value)


def test_names_that_are_no_files_have_no_notes(tmp_path: Path) -> None:
    assert notes.read(tmp_path, "hub:openai-community/gpt2@main") == {}
    assert notes.read(tmp_path, "") == {}
    assert notes.keep(tmp_path, ["hub:openai-community/gpt2@main", "../nano-english-0"]) == {}
