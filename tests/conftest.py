"""Fixtures that many tests share."""

import os
import shutil
from pathlib import Path

import pytest

from fpt.project import Project
from fpt.records import Store

# Expected numbers are those of a CPU, on a machine with a GPU too; test_cuda.py alone is of a GPU.
if "FPT_TEST_CUDA" not in os.environ:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

PROJECT = Path(__file__).parent / "project"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project in the test's folder, in force here and in the processes that a test
    starts."""
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    return Project(tmp_path)


@pytest.fixture
def planned(project):
    """A project with the parameters of tests/project, and without records."""
    shutil.copy(PROJECT / "params.yaml", project.root)
    return project


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a random model of a type into a folder of that name, in which runs find it by its
    identity; its path."""
    from saved_models import save_model

    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))

    def write(kind, **changes):
        save_model(kind, tmp_path / kind, **changes)
        return str(tmp_path / kind)

    return write


@pytest.fixture
def tiny(project, tmp_path, monkeypatch):
    """The backbones of `tiny` by name, with pretrained weights; returns the folder of the test,
    where locks and checkpoints lie too."""
    from tiny import TINY, save_weights

    from fpt.backbones import BACKBONES

    for architecture in TINY:
        monkeypatch.setitem(BACKBONES, architecture.name, architecture)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    without_reports = shutil.ignore_patterns("reports")
    shutil.copytree(PROJECT, tmp_path, ignore=without_reports, dirs_exist_ok=True)
    save_weights(tmp_path / "backbones")
    return tmp_path


@pytest.fixture
def tiny_nano(tiny, monkeypatch):
    """The fixture `tiny`, with a tiny backbone in the place of the nano GPT-2."""
    from made import NANO
    from tiny import WEIGHTS

    from fpt.names import MODELS, Model

    monkeypatch.setitem(MODELS, NANO, Model(NANO, "tiny", WEIGHTS))
    return tiny


@pytest.fixture
def prepared(project):
    """An empty folder for prepared data, and no manifest: trivial baselines are measured."""
    return project.prepared


@pytest.fixture
def corpora(prepared, tmp_path, monkeypatch):
    """A corpora folder without files, and the fixture `prepared`."""
    monkeypatch.setenv("FPT_CORPORA", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(tmp_path):
    """A store of the tier smoke, without records."""
    return Store(tmp_path / "reports" / "experiments" / "smoke")
