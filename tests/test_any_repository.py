"""Any repository of the hub by its name: which commit it is, from then on and without a network."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_hub import FakeHub, serving
from refusals import check_said, one_sentence, refusal, refuses
from saved_models import X, Y, save_model, small

from fpt.backbones.choice import choose, choose_backbone
from fpt.tasks import sources

FIRST, SECOND, THIRD = ("1" * 40, "2" * 40, "3" * 40)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The files of two models that differ in their weights."""
    folders = [tmp_path_factory.mktemp(f"llama-{seed}") for seed in range(2)]
    for seed, folder in enumerate(folders):
        save_model("llama", folder, seed)
    return [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]


@pytest.fixture
def hub(models, tmp_path, monkeypatch):
    """A hub with `o/r`, whose cache is empty, for a user without a project."""
    hub = FakeHub()
    hub.push(models[0], FIRST)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home/hub"))
    monkeypatch.setenv("FPT_ROOT", str(tmp_path))
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with serving(hub) as address:
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        set_online(monkeypatch, True)
        yield hub
        set_online(monkeypatch, False)


def set_online(patch, online):
    """Let the client reach the hub, or not."""
    from huggingface_hub import close_session

    patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", not online)
    close_session()  # which remembers it


def test_the_newest_commit_is_taken_once_and_said(hub, models, tmp_path, capsys, monkeypatch):
    fitted = small("o/r").fit(X, Y)
    sentence = one_sentence(capsys.readouterr().err.strip())
    check_said(sentence, ["o/r", FIRST, str(tmp_path / "home/fpt-hub.lock.json")])
    assert fitted.fitted_.spec.backbone == fitted.fitted_.spec.weights == f"hub:o/r@{FIRST}"

    hub.push(models[1], SECOND)
    again = small("o/r").fit(X, Y)
    assert not capsys.readouterr().err
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    newer = small(f"o/r@{SECOND}").fit(X, Y)
    assert not np.array_equal(newer.predict_proba(X), fitted.predict_proba(X))
    set_online(monkeypatch, False)
    assert choose("o/r", None)[1] == f"hub:o/r@{FIRST}"
    assert np.array_equal(fitted.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("o/r@1", f"hub:o/r@{FIRST}@1"),
        (f"o/r@{SECOND}@2", f"hub:o/r@{SECOND}@2"),
        ("o/r@dev", f"hub:o/r@{SECOND}"),
        ("hub:o/r@6", f"hub:o/r@{SECOND}"),  # a branch may be called so
    ],
)
def test_a_revision_and_a_depth_are_honoured(name, expected, hub, models):
    for branch in ("dev", "6"):
        hub.push(models[1], SECOND, branch=branch)
    architecture, weights = choose(name, None)
    assert architecture.name == expected
    assert weights == expected[: len("hub:o/r@") + 40]
    assert architecture.layers == (1 if name.endswith("@1") else 2)
    hub.push(models[0], THIRD)
    hub.push(models[0], THIRD, branch="dev")
    assert choose(name, None)[0].name == expected  # the branch has moved on
    assert choose("pico", name.removesuffix("@1").removesuffix("@2"))[1] == weights


def test_a_project_pins_in_its_own_lock_file(hub, tmp_path, capsys):
    sources.write_json(sources.lock_path(), {})
    choose_backbone("o/r@1")
    assert str(sources.lock_path()) in capsys.readouterr().err
    assert sources.read_lock() == {"o/r@locked": {"commit": FIRST, "sha256": {}}}
    assert not (tmp_path / "home/fpt-hub.lock.json").exists()


# The branch may move on between the questions of two programs.
def test_two_programs_that_pin_at_once_use_one_commit(hub, models):
    commits = [f"{number:040x}" for number in range(8)]
    for commit in commits:
        hub.push(models[0], commit)
    hub.moves = iter(commits * 8)
    with ThreadPoolExecutor(8) as programs:
        pinned = set(programs.map(lambda _: sources.pin("o/r"), range(8)))
    assert hub.asked["model.safetensors"] > 1
    assert pinned == {sources.read_lock(sources.pins_path())["o/r@locked"]["commit"]}


def test_a_repository_without_safetensors_is_refused_and_not_pinned(hub, models):
    config = {"config.json": models[0]["config.json"], "pytorch_model.bin": b"a pickle"}
    hub.push(config, SECOND)
    refuses(lambda: small("o/r").fit(X, Y), "o/r has no safetensors", "main")
    hub.push(models[0], THIRD)
    assert choose_backbone("o/r").name == f"hub:o/r@{THIRD}"


@pytest.mark.parametrize("name", ["o/missing", "o/r@missing"])
def test_what_the_hub_does_not_have(name, hub):
    refuses(lambda: choose(name, None), name.partition("@")[0], "at revision", "hf auth login")


def test_offline_one_sentence_names_what_needs_no_hub(hub, models, tmp_path, monkeypatch):
    (tmp_path / "backbones/mine").mkdir(parents=True)
    (tmp_path / "backbones/mine/config.json").write_bytes(models[0]["config.json"])
    small("o/r").fit(X, Y)
    choose_backbone("o/r@main")
    set_online(monkeypatch, False)
    for name in ("o/other", "hub:o/other@main", f"o/r@{SECOND}", "pythia-160m"):
        sentence = refusal(lambda name=name: small(name).fit(X, Y))
        check_said(sentence, ["nano", "minilm-l6-v2", "mine", f"o/r@{FIRST}", "HF_HUB_OFFLINE"])
    small(f"o/r@{FIRST}").fit(X, Y)
