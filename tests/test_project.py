"""Which project is in force, whatever the program does after it has imported the package."""

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made import RANDOM, make_plan
from refusals import refuses

from fpt import project as places
from fpt.plan import plan
from fpt.project import Project, current_tier, project

PARAMS = Path(__file__).parent / "project" / "params.yaml"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Two projects, with the package installed apart from both; the program runs in the first."""
    monkeypatch.delenv("FPT_ROOT")
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "site" / "fpt")
    for name, tier in (("first", "smoke"), ("second", "hour")):
        (tmp_path / name).mkdir()
        text = PARAMS.read_text().replace("tier: smoke", f"tier: {tier}")
        (tmp_path / name / "params.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "first")
    return tmp_path


def test_the_project_is_where_the_program_is(installed, monkeypatch):
    assert (project().root, current_tier()) == (installed / "first", "smoke")
    monkeypatch.chdir(installed / "second")
    assert (project().root, current_tier()) == (installed / "second", "hour")
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


# Paths were once fixed at import, and a change of the directory moved the records of a plan.
def test_a_plan_stays_in_its_project(installed, monkeypatch):
    def folders(whole):
        return {whole.store_of(run).folder for run in whole.runs}

    first, second = (installed / name / "reports/experiments" for name in ("first", "second"))
    whole = plan("smoke", "transfer")
    monkeypatch.chdir(installed / "second")
    for kept in (whole, pickle.loads(pickle.dumps(whole))):
        assert folders(kept) == {first / "smoke"}
    with ThreadPoolExecutor(2) as pool:  # each thread has the project that it asked for

        def report(name):
            with Project(installed / name).in_force():
                return folders(plan("smoke", "transfer"))

        assert [*pool.map(report, ["first", "second"] * 4)] == 4 * [
            {first / "smoke"},
            {second / "smoke"},
        ]
    assert folders(plan("smoke", "transfer")) == {second / "smoke"}


def test_a_plan_trains_in_its_project(installed, tiny, monkeypatch):
    """On data that are prepared there, with its checkpoints there."""
    monkeypatch.delenv("FPT_ROOT")
    whole = make_plan(
        tiny / "first", model="pico GPT-2", arms=[RANDOM], tasks=["digits"], seeds=1, steps=2,
        eval_every=1,
    )  # fmt: skip
    (installed / "elsewhere").mkdir()
    monkeypatch.chdir(installed / "elsewhere")
    whole.train(device="cpu", workers=1)
    assert len(whole.records()) == 1
    assert [*(installed / "first" / "data" / "prepared").glob("digits*")]
    assert not [*(installed / "elsewhere").iterdir()]


def test_without_a_directory_a_relative_root_is_refused(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    shutil.rmtree(gone)
    monkeypatch.setenv("FPT_ROOT", "here")
    refuses(project, "working directory is gone", "absolute")
