"""A fitted estimator on a folder's model: found wherever the program goes, never another model."""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import check_said, refusal, refuses
from saved_models import X, Y, save_model, small

from fpt import FrozenTransformer
from fpt.backbones import backbone
from fpt.backbones.choice import choose, choose_backbone
from fpt.backbones.published import PUBLISHED


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a tiny Llama into a folder, which other seeds give other weights. The program runs in
    an empty folder."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def write(folder, seed=0):
        save_model("llama", folder, seed)
        return Path(folder).absolute()

    return write


def again(fitted, folder):
    """The estimator itself, from a pickle, and as it was saved."""
    fitted.save(folder)
    return [fitted, pickle.loads(pickle.dumps(fitted)), FrozenTransformer.load(folder)]


NAMES = ["nano", "my model (v2)", "модель", ".hidden", "x@0123456789abcdef", "a" * 200]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_any_name_is_found_from_everywhere(name, put, tmp_path, monkeypatch):
    put(name)
    fitted = small(f"./{name}").fit(X, Y)
    expected = fitted.predict_proba(X)
    monkeypatch.chdir(tmp_path)
    put(name, seed=1)  # a folder of this name in the other directory is another model
    for estimator in again(fitted, tmp_path / "saved"):
        assert np.array_equal(estimator.predict_proba(X), expected)
        assert estimator.trainable_parameters().loc["layernorm", "trained"]


# Size and time of a file do not tell whether its content is the same.
def test_other_content_is_refused_and_the_same_one_is_found(put, tmp_path, monkeypatch):
    folder = put("mine")
    fitted = small("mine").fit(X, Y)
    expected = fitted.predict_proba(X)
    kept = shutil.copytree(folder, tmp_path / "kept")
    weights = folder / "model.safetensors"
    times = weights.stat()
    changed = put("changed", seed=1) / "model.safetensors"
    weights.write_bytes(changed.read_bytes())  # as a copy that keeps size and time does it
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    sentence = "missing or others"
    for estimator in (fitted, pickle.loads(pickle.dumps(fitted))):
        refuses(lambda estimator=estimator: estimator.predict(X), str(folder), sentence)
    shutil.rmtree(folder)
    refuses(lambda: fitted.predict(X), f"into {folder}", str(tmp_path / "backbones"))
    shutil.copytree(kept, tmp_path / "backbones/mine")
    assert np.array_equal(fitted.predict_proba(X), expected)
    shutil.move(tmp_path / "backbones/mine", folder)
    assert np.array_equal(fitted.predict_proba(X), expected)


REPOSITORY = PUBLISHED["pythia-160m"].repository
WHEEL = "smollm2-135m-instruct-q4_1"


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("nano@2", "builtin:nano@2"),
        (REPOSITORY, PUBLISHED["pythia-160m"].identity),
        (WHEEL, f"builtin:{WHEEL}"),
    ],
)
def test_a_name_with_two_meanings_is_asked_about(name, spelling, put):
    before = choose(name, None)
    folder = put(name)
    for explicit in (f"./{name}", str(folder), Path(name)):
        assert choose_backbone(explicit).name.startswith("folder:")
    # The name stays ambiguous if the folder has no configuration.
    for _ in range(2):
        sentence = refusal(lambda: choose(name, None))
        check_said(sentence, [repr(f"./{name}"), repr(spelling)])
        assert choose(spelling, None) == before
        (folder / "config.json").unlink(missing_ok=True)
    refuses(lambda: choose_backbone(f"./{name}"), "config.json")


def test_a_folder_here_and_one_of_the_pipeline_are_asked_about(put, tmp_path):
    local = put(tmp_path / "backbones/mine")
    assert choose_backbone("mine").folder == str(local)
    put("mine", seed=1)
    refuses(lambda: choose_backbone("mine"), "'./mine'", repr(str(local)))
    put(tmp_path / "backbones/nano")
    refuses(lambda: choose_backbone("nano"), "'builtin:nano'")


def test_the_folder_of_the_pipeline_may_be_the_working_directory(put, tmp_path, monkeypatch):
    folder = put(tmp_path / "backbones/mine")
    monkeypatch.chdir(tmp_path / "backbones")
    assert choose_backbone("mine").folder == str(folder)


def test_a_run_never_looks_into_the_working_directory(put):
    put("mine")
    refusal(lambda: backbone("mine"))
    assert backbone("./mine").folder == os.path.abspath("mine")


def test_a_link_is_known_by_its_own_name(put, tmp_path):
    """As params.yaml names it, and with the identity that a run has."""
    target = put(tmp_path / "elsewhere" / "target")
    (tmp_path / "backbones").mkdir()
    (tmp_path / "backbones" / "link").symlink_to(target)
    linked = backbone("link")
    assert linked.name.startswith("folder:link@")
    assert backbone(linked.name) == linked


@pytest.mark.parametrize("name", ["nano-english-0", "nano-bit-memory-0"])
def test_weights_that_ship_are_a_backbone_too(name, put):
    fitted = small(name).fit(X, Y)
    assert backbone(fitted.fitted_.spec.backbone).layers == 4


def test_a_path_is_not_looked_up_on_the_hub(put, tmp_path):
    (tmp_path / "here" / "models" / "empty").mkdir(parents=True)
    for name in ("models/missing.gguf", "models/empty"):
        refuses(lambda name=name: choose_backbone(name), f"no backbone or folder {name!r}")


def test_weights_of_a_built_in_family_name_the_backbone_that_they_are_of(put):
    refuses(lambda: choose_backbone("lstm-nano-english-0"), "built-in backbone lstm-nano")


def test_what_has_no_layers_is_not_cut(put):
    refuses(lambda: choose_backbone("last-token-nano@1"), "has no layers")
