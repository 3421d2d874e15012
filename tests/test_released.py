"""The archive of pretrained backbones: packed here, put on a server, and fetched from there."""

import json
import shutil
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import torch
from fake_hub import listening
from made import LANGUAGE, block_of, tree, write_params
from refusals import check_said, refuses
from test_records import made
from tiny import pretrained

from fpt.__main__ import main
from fpt.names import MODELS, Model
from fpt.pretraining.ensure import ensure_weights
from fpt.pretraining.metadata import keep, write
from fpt.records import Store
from lab import backbones

NAMES = ["nano-bigram@2M-403839871", "nano-english@2M-0"]  # runs of `lab` read them


@pytest.fixture
def lab(project, monkeypatch):
    """A project with two tiny backbones, whose metadata are with records of `lab`, and a tier
    that reads them."""
    store = Store(project.records("lab"))
    for seed, name in enumerate(NAMES):
        torch.manual_seed(seed)
        write(project.backbones / name, {}, {"matrix": torch.randn(4, 4)}, {"seed": seed})
        monkeypatch.setitem(MODELS, name, Model(name, "nano", name))
        run = pretrained(backbone="nano", weights=name)
        store.write(replace(made(), spec=run, pack=[run.key]))
    keep(store.folder, NAMES)
    block = block_of(arms=[LANGUAGE], tasks=["bit-xor"])
    block["sections"]["transfer"][0]["models"] = NAMES
    write_params(project.root, block)
    return project


@pytest.fixture
def server(tmp_path):
    """The address of a server of the test's folder."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with listening(partial(Handler, directory=tmp_path)) as address:
        yield address


def release(lab, url):
    """Pack the backbones, list them at `url`, and remove them; their files by name."""
    archive = lab.root / "backbones.zip"
    backbones.main([str(archive)])
    path = lab.data / "backbones.json"
    listed = json.loads(path.read_text())
    assert (sorted(listed["weights"]), listed["url"]) == (NAMES, None)
    path.write_text(json.dumps(listed | {"url": url}))
    content = tree(lab.backbones)
    shutil.rmtree(lab.backbones)
    return content


@pytest.mark.parametrize("place", ["disk", "server"])
def test_a_tier_gets_the_backbones_that_it_lacks_out_of_the_archive(place, lab, request, capsys):
    address = lab.root.as_uri() if place == "disk" else request.getfixturevalue("server")
    packed = release(lab, f"{address}/backbones.zip")
    assert main(["weights"]) == 0
    check_said(capsys.readouterr().out, [f"{name}: present" for name in NAMES])
    fetched = tree(lab.backbones)
    del fetched["manifest.json"]
    assert fetched == packed


def test_a_folder_with_a_checkpoint_alone_gives_way(lab, capsys):
    """Whoever began to pretrain a backbone has its folder, and no weights in it."""
    packed = release(lab, f"{lab.root.as_uri()}/backbones.zip")
    (lab.backbones / NAMES[0]).mkdir(parents=True)
    (lab.backbones / NAMES[0] / "checkpoint.safetensors").touch()
    with pytest.warns(UserWarning, match="holds no weights.* is fetched"):
        assert main(["weights"]) == 0
    assert packed.items() <= tree(lab.backbones).items()


def test_the_same_backbones_are_packed_into_the_same_bytes(lab, tmp_path):
    archives = [tmp_path / "first.zip", tmp_path / "second.zip"]
    for archive in archives:
        backbones.main([str(archive)])
    assert archives[0].read_bytes() == archives[1].read_bytes()


@pytest.mark.parametrize("change", ["missing", "another"])
def test_nothing_is_packed_unless_all_weights_are_those_of_the_records(change, lab, tmp_path):
    weights = lab.backbones / NAMES[0] / "model.safetensors"
    if change == "missing":
        weights.unlink()
    else:
        weights.write_bytes(b"others")
    refuses(lambda: backbones.main([str(tmp_path / "a.zip")]), "1 of 2 backbones", NAMES[0])
    assert not (tmp_path / "a.zip").exists()


def test_another_archive_is_refused_and_no_backbone_is_written(lab):
    release(lab, Path(lab.params).as_uri())
    refuses(lambda: ensure_weights(NAMES, train_here=True), "is not the archive whose SHA-256")
    assert not list(lab.backbones.iterdir())


def test_a_report_is_rendered_if_the_archive_cannot_be_had(lab):
    release(lab, (lab.root / "gone.zip").as_uri())
    first, *rest = ensure_weights(NAMES, train_here=False)
    assert "gone.zip cannot be downloaded" in first
    assert ["not here" in sentence for sentence in rest] == [True, True]
