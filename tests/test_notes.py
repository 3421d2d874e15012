"""What was written of bodies, kept with the records so that their weights need not be."""

import json
import logging
from pathlib import Path
from typing import Any

import made
import pytest
from made import make_section

from fpt.files import FptError
from fpt.pretraining import metadata as notes
from fpt.report import corpora
from fpt.report.table import label
from fpt.sections.section import Section

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
def section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    monkeypatch.setattr(made, "weights", lambda _: {"dyck": BODY, "english": "nano-english-0"})
    arms = ["random", "fpt-dyck", "fpt-english"]
    return make_section(tmp_path, monkeypatch, "synthetic_pretraining", arms, tasks={"bit-xor": {}})


def index(section: Section) -> dict[str, Any]:
    section.write_index()
    return json.loads((section.folder / "index" / f"{section.name}.json").read_text())


def test_a_table_needs_no_weights(section: Section, tmp_path: Path) -> None:
    assert BODY not in index(section)
    folder = put(tmp_path)
    first = index(section)
    assert len(first[BODY]) == 64
    assert "nano-english-0" not in first  # it ships, and has its notes there
    for file in folder.iterdir():
        file.unlink()
    assert index(section) == first
    table = corpora.corpora_table(section)
    assert table.shown.loc[label("fpt-dyck"), "held out"] == "4.500"
    assert table.shown.loc[label("fpt-english"), "held out"] != "4.500"
    assert not any("nothing is here" in note for note in table.notes)


def test_a_copy_stays_what_the_records_are_of(
    section: Section, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path)
    before = index(section)
    put(tmp_path, valid_loss=3.0, weights_digest="1" * 64)
    with caplog.at_level(logging.WARNING):
        assert index(section) == before
    assert f"The weights {BODY} here are others" in caplog.text
    assert notes.read(section.store.folder, BODY)["valid_loss"] == 4.5


def test_an_edited_copy_is_refused(section: Section, tmp_path: Path) -> None:
    put(tmp_path)
    section.write_index()
    path = notes.copy_of(section.store.folder, BODY)
    path.write_text(path.read_text().replace("4.5", "3.5"))
    with pytest.raises(FptError, match="its digest does not fit") as caught:
        corpora.corpora_table(section)
    assert "\n" not in str(caught.value)


def test_names_that_are_no_files_have_no_notes(tmp_path: Path) -> None:
    assert notes.read(tmp_path, "hub:openai-community/gpt2@main") == {}
    assert notes.read(tmp_path, "") == {}
    assert notes.keep(tmp_path, ["hub:openai-community/gpt2@main", "../nano-english-0"]) == {}
