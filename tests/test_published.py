"""The list of published models, weights that come in wheels, and the first layers of any backbone.

A wheel that the test writes, with a tiny GGUF file in it, stands for a published one.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from published_files import HEADS, INNER, LAYERS, WIDTH, WORDS, only_index, write_gguf, write_wheel
from refusals import refusal, refuses
from safetensors.torch import load_file
from saved_models import X, Y, hidden_of, save_model
from tiny import close

from fpt import FrozenTransformer
from fpt.backbones import BACKBONES, backbone, published, weights
from fpt.backbones.choice import choose_backbone
from fpt.backbones.generic import facts
from fpt.backbones.generic.gguf import converted
from fpt.backbones.published import MODELS, PUBLISHED, Published, pinned
from fpt.backbones.weights import files
from fpt.files import NAME, read_json
from fpt.project import project
from fpt.spec import canonical

ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------------------------- the list


@pytest.mark.parametrize("model", PUBLISHED.values(), ids=PUBLISHED)
def test_an_entry_is_whole(model):
    assert NAME.fullmatch(model.name)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", model.repository)
    assert re.fullmatch("([0-9a-f]{40})?", model.commit)
    assert model.licence
    if model.wheel:
        assert re.fullmatch("[0-9a-f]{64}", model.wheel.sha256)
        assert re.fullmatch("[0-9a-f]{64}", model.wheel.member_sha256)
        assert model.note  # its numbers are not those of the repository
    if model.config:  # known without a download, and as transformers has it
        assert model.architecture == facts(canonical(model.config))
        assert backbone(model.name) == backbone(model.identity) == model.backbone
        if not model.wheel:
            assert backbone(model.repository) == model.backbone
            assert pinned(model.name) == pinned(model.repository) == model.identity
    else:
        assert backbone(model.name) == BACKBONES[model.name]
        assert pinned(model.name) == model.name
        assert backbone(model.repository).hub == model.repository


# -------------------------------------------------------------------------------- first layers

TYPES = ("llama", "gpt2", "gemma3_text", "bert", "albert", "t5")


def cut(model, layers):
    """transformers' own model after its later layers are taken out."""
    model.config.num_hidden_layers = layers
    for part in model.modules():
        for name in ("layers", "layer", "h", "block"):
            blocks = getattr(part, name, None)
            if isinstance(blocks, torch.nn.ModuleList) and len(blocks) > layers:
                setattr(part, name, blocks[:layers])
                return model
    return model


@pytest.mark.parametrize("kind", TYPES)
def test_the_first_layers_give_the_hidden_states_of_transformers(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    theirs = save_model(kind, tmp_path / f"my-{kind}")
    name = f"my-{kind}"
    short, identity = backbone(f"{name}@1"), backbone(name).name
    assert short == backbone(f"{identity}@1") == choose_backbone(f"{tmp_path / name}@1")
    assert short.name == f"{identity}@1"
    x = torch.randn(2, 7, short.width, generator=torch.Generator().manual_seed(0))
    of_all_layers = theirs(inputs_embeds=x).last_hidden_state
    expected = cut(theirs, 1)(inputs_embeds=x).last_hidden_state
    assert not torch.allclose(of_all_layers, expected, atol=1e-2)
    close(hidden_of(short, x), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("layers", ["0", "4", "x", "01", "2@1"])
def test_a_wrong_number_of_layers_is_one_sentence(layers, put):
    folder = put("llama")
    for name in (folder, backbone(folder).name, "lstm-nano"):
        refusal(lambda name=name: choose_backbone(f"{name}@{layers}"))


def test_groups_of_shared_layers_are_not_cut(put):
    path = Path(put("albert")) / "config.json"
    path.write_text(json.dumps(read_json(path) | {"num_hidden_groups": 3}))
    refusal(lambda: backbone(f"{path.parent}@1"))


# ------------------------------------------------------------------------- weights from a wheel

TINY = {
    "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER, "vocab_size": WORDS,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "rope_theta": 100000,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "initializer_range": 0.04,
}  # fmt: skip


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A published model in the list, whose wheel lies on the only package index."""
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    index = only_index(tmp_path / "index", monkeypatch)
    wheel = write_wheel(index, "tiny_weights/tiny.gguf", path.read_bytes())
    shape = dict(facts(canonical(TINY)))
    entry = Published("tiny-q4_1", shape, "o/tiny", "MIT", config=TINY, note="4 bits.", wheel=wheel)
    listed(entry, monkeypatch)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    return entry


def listed(entry, patch):
    """Put an entry into the list."""
    patch.setitem(PUBLISHED, entry.name, entry)
    patch.setitem(MODELS, entry.name, entry)


def test_an_estimator_fetches_what_it_reads_once(model, tmp_path, capsys):
    fitted = FrozenTransformer(f"{model.name}@1", steps=2).fit(X, Y)
    assert "tiny-weights 1.0" in capsys.readouterr().err
    folder = project().backbones / model.name
    assert sorted(path.name for path in project().backbones.iterdir()) == [model.name]
    metadata = read_json(folder / "pretraining.json")
    assert metadata["source"]["sha256"] == model.wheel.sha256
    assert metadata["weights_digest"] == weights.file_digest(folder / "model.safetensors")
    assert read_json(folder / "config.json") == TINY
    tensors = load_file(folder / "model.safetensors").values()
    assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}
    FrozenTransformer(model.name, steps=2).fit(X, Y)
    assert not capsys.readouterr().err
    fitted.save(tmp_path / "saved")
    again = FrozenTransformer.load(tmp_path / "saved")
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_the_hidden_states_are_those_of_the_gguf_file(model, tmp_path):
    theirs = transformers.AutoModel.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.float32,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )  # fmt: skip
    for parameter in theirs.eval().parameters():  # not the rotary frequencies
        parameter.data = parameter.data.bfloat16().float()
    x = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(0))
    for layers in ("", "@1"):
        with torch.no_grad():
            reference = cut(theirs, 1) if layers else theirs
            expected = reference(inputs_embeds=x).last_hidden_state
        for name in (model.name, str(tmp_path / "tiny.gguf")):
            architecture = choose_backbone(f"{name}{layers}")
            close(hidden_of(architecture, x), expected, 1e-4, 1e-5)


def test_a_gguf_file_is_converted_once_and_known_by_its_content(model, tmp_path):
    first = choose_backbone(tmp_path / "tiny.gguf")
    written = Path(first.folder) / "model.safetensors"
    before = written.stat().st_mtime_ns
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tiny.gguf").rename(tmp_path / "elsewhere/tiny.gguf")
    assert choose_backbone(str(tmp_path / "elsewhere/tiny.gguf")) == first == backbone(first.name)
    assert written.stat().st_mtime_ns == before
    refusal(lambda: choose_backbone(str(tmp_path / "tiny.gguf")))


def test_a_part_of_a_gguf_file_is_refused(tmp_path, monkeypatch):
    """transformers would draw the layers that it lacks."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "backbones"))
    write_gguf(tmp_path / "part.gguf", layers=LAYERS - 1)
    refuses(lambda: choose_backbone(tmp_path / "part.gguf"), "lacks layers.", "join the parts")
    assert not list((tmp_path / "backbones").iterdir())


# A folder that exists is taken for converted.
def test_a_killed_process_leaves_nothing_half(model, tmp_path):
    """It is killed when the weights are written and the folder has not got its name."""
    code = (
        "import os, pathlib, signal, sys; sys.path[:0] = ['tests']\n"
        "pathlib.Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from fpt.backbones.generic.gguf import converted\n"
        f"converted(pathlib.Path({str(tmp_path / 'tiny.gguf')!r}), pathlib.Path(sys.argv[1]))\n"
    )
    folder = tmp_path / "converted"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert all(path.name.startswith(".") for path in folder.iterdir())
    complete = converted(tmp_path / "tiny.gguf", folder)
    assert list(folder.iterdir()) == [complete]


def test_damaged_weights_are_fetched_again(model):
    path = files(model.name)[0]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.warns(UserWarning, match="damaged"):
        assert files(model.name)[0].read_bytes() == content


def test_another_folder_of_that_name_is_left_alone(model):
    folder = project().backbones / model.name
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"mine")
    for read in (lambda: files(model.name), lambda: FrozenTransformer(model.name).fit(X, Y)):
        refuses(read, str(folder), model.name)
    assert (folder / "model.safetensors").read_bytes() == b"mine"


def test_what_cannot_be_fetched_or_written_is_one_sentence(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    refuses(lambda: FrozenTransformer(model.name).fit(X, Y), "tiny-weights 1.0")
    assert not list(project().backbones.iterdir())
    (tmp_path / "file").touch()
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path / "file"))
    refuses(lambda: files(model.name), str(tmp_path / "file"))


def test_missing_packages_are_noticed_before_the_download(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr(published, "fetch_member", lambda *_: pytest.fail("it is fetched"))
    refuses(lambda: files(model.name), "tiny.gguf", "pip install 'fpt[gguf]'")
