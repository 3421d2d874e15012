"""Metadata of pretrained backbones, kept with the records so that their weights need not be."""

import json
import logging

import made
import pytest
from made import make_study
from refusals import refuses

from fpt.pretraining import metadata

BACKBONE = "nano-dyck-64@1k-0"
METADATA = {
    "tokens": 1000,
    "unigram_entropy": 6.5,
    "valid_loss": 4.5,
    "weights_digest": "0" * 64,
}


def pretrain(tmp_path, **changes):
    """Weights as pretraining leaves them, with their metadata; returns their folder."""
    folder = tmp_path / "backbones" / BACKBONE
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "pretraining.json").write_text(json.dumps(METADATA | changes))
    return folder


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    monkeypatch.setattr(made, "weights", lambda _: {"dyck": BACKBONE, "english": "nano-english-0"})
    arms = ["random", "fpt-dyck", "fpt-english"]
    return make_study(tmp_path, "synthetic_pretraining", arms, tasks={"bit-xor": {}})


def index(study):
    study.write_index()
    return json.loads((study.folder / "index" / f"{study.name}.json").read_text())


def test_a_table_needs_no_weights(study, tmp_path):
    assert BACKBONE not in index(study)
    folder = pretrain(tmp_path)
    first = index(study)
    assert len(first[BACKBONE]) == 64
    assert "nano-english-0" not in first  # it ships, and has its metadata there
    for file in folder.iterdir():
        file.unlink()
    assert index(study) == first
    assert metadata.read(study.store.folder, BACKBONE)["valid_loss"] == 4.5
    assert metadata.read(study.store.folder, "nano-english-0")["valid_loss"] < 4.5


def test_a_copy_stays_what_the_records_are_of(study, tmp_path, caplog):
    pretrain(tmp_path)
    before = index(study)
    pretrain(tmp_path, valid_loss=3.0, weights_digest="1" * 64)
    with caplog.at_level(logging.WARNING):
        assert index(study) == before
    assert f"The weights {BACKBONE} here are others" in caplog.text
    assert metadata.read(study.store.folder, BACKBONE)["valid_loss"] == 4.5


def test_an_edited_copy_is_refused(study, tmp_path):
    pretrain(tmp_path)
    study.write_index()
    path = metadata.copy_of(study.store.folder, BACKBONE)
    path.write_text(path.read_text().replace("4.5", "3.5"))
    refuses(lambda: metadata.read(study.store.folder, BACKBONE), "its digest does not fit")
