"""Which project is in force, whatever the program does after it has imported the package."""

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made import make_study
from refusals import refuses

from fpt import project as places
from fpt.analysis.study import section
from fpt.project import Project, current_profile, project

PARAMS = Path(__file__).parent / "project" / "params.yaml"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Two projects, with the package installed apart from both; the program runs in the first."""
    monkeypatch.delenv("FPT_ROOT")
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "site" / "fpt")
    for name, profile in (("first", "smoke"), ("second", "lab")):
        (tmp_path / name).mkdir()
        text = PARAMS.read_text().replace("profile: smoke", f"profile: {profile}")
        (tmp_path / name / "params.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "first")
    return tmp_path


def test_the_project_is_where_the_program_is(installed, monkeypatch):
    assert (project().root, current_profile()) == (installed / "first", "smoke")
    monkeypatch.chdir(installed / "second")
    assert (project().root, current_profile()) == (installed / "second", "lab")
    monkeypatch.setenv("FPT_ROOT", "../first")
    assert project().root == installed / "first"
    monkeypatch.setenv("FPT_BACKBONES", "../mine")
    assert project().backbones.resolve() == installed / "mine"  # from the root, wherever that is


def test_an_empty_variable_is_one_that_is_not_set(installed, monkeypatch):
    for name in ("FPT_ROOT", "FPT_BACKBONES", "FPT_CORPORA"):
        monkeypatch.delenv(name, raising=False)
    usual = project(), project().backbones, project().corpora
    for name in ("FPT_ROOT", "FPT_BACKBONES", "FPT_CORPORA"):
        monkeypatch.setenv(name, "")
    assert (project(), project().backbones, project().corpora) == usual


# Paths were once fixed at import, and a change of the directory moved the records of a study.
def test_a_study_stays_in_its_project(installed, monkeypatch):
    study = section("transfer", "smoke")
    monkeypatch.chdir(installed / "second")
    for kept in (study, pickle.loads(pickle.dumps(study))):
        assert kept.folder == installed / "first" / "reports" / "smoke"
        assert kept.store.folder == kept.folder / "records"
    with ThreadPoolExecutor(2) as pool:  # each thread has the project that it asked for

        def report(name):
            with Project(installed / name).in_force():
                return section("transfer", "smoke").folder

        folders = list(pool.map(report, ["first", "second"] * 4))
    assert folders == 4 * [installed / name / "reports" / "smoke" for name in ("first", "second")]
    assert section("transfer", "smoke").folder == installed / "second" / "reports" / "smoke"


def test_a_study_trains_in_its_project(installed, tiny, monkeypatch):
    """On data that are prepared there, with its checkpoints there."""
    monkeypatch.delenv("FPT_ROOT")
    (tiny / "first" / "params.yaml").unlink()
    study = make_study(tiny / "first", arms=["random"], tasks={"digits": {"steps": 2}}, seeds=1,
                       steps=2, eval_every=1)  # fmt: skip
    (installed / "elsewhere").mkdir()
    monkeypatch.chdir(installed / "elsewhere")
    assert study.train_anyway(device="cpu", workers=1) == 1
    assert list((installed / "first" / "data" / "prepared").glob("digits*"))
    assert not list((installed / "elsewhere").iterdir())


def test_without_a_directory_a_relative_root_is_refused(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    monkeypatch.setenv("FPT_ROOT", "here")
    refuses(project, "working directory is gone", "absolute")
