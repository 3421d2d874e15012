"""Metadata of pretrained backbones, kept with the records so that their weights need not be."""

import json
import logging

import pytest
from made import LANGUAGE, make_plan
from refusals import refuses

from fpt.names import MODELS, Model
from fpt.plan import plan
from fpt.pretraining import metadata

BACKBONE = "nano-dyck-64@1k-0"
DYCK = Model("nano GPT-2 on Dyck", "nano", "nano-dyck-64", BACKBONE)
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
def records(project, monkeypatch):
    """The folder of the records of a plan on these weights."""
    monkeypatch.setenv("FPT_BACKBONES", str(project.root / "backbones"))
    monkeypatch.setitem(MODELS, "nano GPT-2 on Dyck", DYCK)
    make_plan(project.root, model=DYCK.name, arms=[LANGUAGE], tasks=["bit-xor"])
    return project.records("smoke")


def test_a_page_needs_no_weights(records, tmp_path):
    plan().write_index()
    assert metadata.read(records, BACKBONE) == {}
    folder = pretrain(tmp_path)
    plan().write_index()
    for file in folder.iterdir():
        file.unlink()
    plan().write_index()
    assert metadata.read(records, BACKBONE)["valid_loss"] == 4.5
    # These ship, and have their metadata there.
    assert metadata.read(records, "nano-english-0")["valid_loss"] < 4.5
    assert [path.stem for path in (records / "bodies").iterdir()] == [BACKBONE]


def test_a_copy_stays_what_the_records_are_of(records, tmp_path, caplog):
    pretrain(tmp_path)
    plan().write_index()
    pretrain(tmp_path, valid_loss=3.0, weights_digest="1" * 64)
    with caplog.at_level(logging.WARNING):
        plan().write_index()
    assert f"The weights {BACKBONE} here are others" in caplog.text
    assert metadata.read(records, BACKBONE)["valid_loss"] == 4.5


def test_an_edited_copy_is_refused(records, tmp_path):
    pretrain(tmp_path)
    plan().write_index()
    path = metadata.copy_of(records, BACKBONE)
    path.write_text(path.read_text().replace("4.5", "3.5"))
    refuses(lambda: metadata.read(records, BACKBONE), "its digest does not fit")
