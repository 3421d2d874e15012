"""Backbones that transformers builds from a configuration: by a folder or a repository's name."""

import json
import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from refusals import check_said, refusal
from test_backbones import random_values
from tiny import spec, task_of

from fpt import FrozenTransformer
from fpt.backbones import backbone, build, group_of
from fpt.backbones.auto import pinned, pins
from fpt.backbones.generic import facts
from fpt.backbones.initialisations import initial_state
from fpt.backbones.weights import State, read_weights
from fpt.sections.arms import FROZEN
from fpt.spec import RunSpec, canonical
from fpt.training.loop import Loop
from fpt.training.model import assemble

CPU = torch.device("cpu")
SIZES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 9, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 8}
CAUSAL: dict[str, dict[str, Any]] = {  # type of model -> a tiny configuration
    "gpt2": SIZES | {"n_positions": 32},
    "gpt_neox": SIZES,
    "opt": SIZES | {"ffn_dim": 24, "word_embed_proj_dim": 16, "max_position_embeddings": 32},
    **dict.fromkeys(("llama", "qwen2", "qwen3", "gemma", "gemma3_text"), GROUPED),
    "mistral": GROUPED | {"sliding_window": 6},
}
BOTH_WAYS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bert", "roberta", "distilbert"), SIZES | {"hidden_dim": 24}),
    **dict.fromkeys(("albert", "electra"), SIZES | {"embedding_size": 8}),
    "modernbert": SIZES | {"local_attention": 8, "cls_token_id": 0, "sep_token_id": 0},
    "t5": SIZES | {"d_kv": 8, "d_ff": 24},
}
VIT = {"vit": SIZES | {"image_size": 16, "patch_size": 8}}


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, str]]:
    """Writes a random model of a type; it and the path of its folder, in which runs find it by its
    identity."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))

    def write(kind: str) -> tuple[Any, str]:
        config = transformers.AutoConfig.for_model(kind, **(CAUSAL | BOTH_WAYS | VIT)[kind])
        model = transformers.T5EncoderModel(config) if kind == "t5" else None
        model = model or transformers.AutoModel.from_config(config)
        random_values(model)
        model.save_pretrained(tmp_path / kind)
        return model.eval(), str(tmp_path / kind)

    return write


def run_of(folder: str, **changes: Any) -> RunSpec:
    found = backbone(folder)
    trained = tuple(sorted({*FROZEN} & {*found.groups}))
    values = {"backbone": found.name, "init": "pretrained", "weights": found.name, "dropout": 0.0}
    return spec(**{**values, "trainable": trained, "options": {"n": 5}, **changes})


def state_of(name: str) -> State:
    found = backbone(name)
    return read_weights(found, build(found), found.name)


@pytest.mark.parametrize("kind", [*CAUSAL, *BOTH_WAYS])
def test_numbers_and_gradients_are_those_of_transformers(kind: str, put: Any) -> None:
    theirs, folder = put(kind)
    found, run = backbone(folder), run_of(folder)
    ours, rows, _ = assemble([run], task_of(run), CPU)
    ours.train()  # without dropout all the same
    assert found.causal is (kind in CAUSAL)
    x, direction = torch.randn(2, 3, 10, 16, generator=torch.Generator().manual_seed(0))
    x = x[..., : found.width]
    moved = x if ours.positions is None else x + ours.positions[0]
    last = torch.tensor([[9], [6], [3]])
    mask = torch.arange(10) <= last
    for seen, kept in ((None, mask | True), (mask, mask)):
        expected = theirs(inputs_embeds=x, attention_mask=seen).last_hidden_state
        hidden = ours.backbone(moved, seen)
        torch.testing.assert_close(hidden[kept], expected[kept], rtol=1e-3, atol=1e-4)
    (expected[range(3), last[:, 0]] * direction[:, 0]).sum().backward()
    (ours.backbone(moved, mask, last) * direction[:, :1]).sum().backward()
    named = dict(theirs.named_parameters())
    for part in rows.slices:
        if part.group == "layernorm":
            grad = getattr(part.owner, part.attribute).grad[0]
            wanted = named[part.name.removeprefix("backbone.model.")].grad
            torch.testing.assert_close(grad, wanted, rtol=1e-3, atol=1e-3)
    if ours.positions is not None:
        table = next(it for name, it in named.items() if "wpe" in name or "position" in name)
        wanted = table.grad[-found.positions :][:10]
        torch.testing.assert_close(ours.positions.grad[0], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [*CAUSAL, *BOTH_WAYS, *VIT])
@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_pack_trains_as_each_alone_and_leaves_the_rest(kind: str, init: str, put: Any) -> None:
    folder = put(kind)[1]
    run = run_of(folder, init=init)
    runs = [run, replace(run, lr=0.02)]
    loops = [Loop(pack, task_of(run), CPU) for pack in (runs, runs[:1], runs[1:])]
    starts = [deepcopy(dict(loop.model.backbone.named_parameters())) for loop in loops]
    for loop in loops:
        for _ in range(3):
            loop.train_step()
    for row in (0, 1):
        alone = loops[1 + row].rows.values[0]
        torch.testing.assert_close(loops[0].rows.values[row], alone, rtol=1e-3, atol=1e-4)
    for loop, start in zip(loops, starts, strict=True):
        for name, value in loop.model.backbone.named_parameters():
            norm = group_of(backbone(folder), name) == "layernorm"
            assert norm is not torch.equal(value, start[name]), name
            assert norm or torch.equal(value, starts[0][name])  # a random one, from its seed


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_a_random_one_is_drawn_from_its_seed(kind: str, put: Any) -> None:
    found = backbone(put(kind)[1])
    first, again, other = (
        initial_state(found, build(found), "random", None, seed) for seed in (0, 0, 1)
    )
    moved = {name for name, value in first.items() if value.dim() > 1}
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert torch.equal(value, other[name]) is not (name in moved), name


def test_shards_are_read_as_one_file_and_damage_is_said(put: Any) -> None:
    model, folder = put("qwen3")
    whole, state = backbone(folder).name, state_of(folder)
    (Path(folder) / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    shards = sorted(Path(folder).glob("model-*.safetensors"))
    found = state_of(folder)
    assert len(shards) > 2
    assert backbone(folder).name != whole  # identified by content
    assert all(torch.equal(found[name], state[name]) for name in state)
    shards[0].write_bytes(shards[0].read_bytes()[:-8])
    check_said(refusal(lambda: state_of(folder)), [shards[0].name, "is damaged"])
    shards[0].unlink()
    check_said(refusal(lambda: state_of(folder)), [f"({shards[0].name} is missing)"])


def test_a_folder_goes_by_its_name_and_never_by_its_path(
    put: Any,
) -> None:
    by_path = backbone(put("llama")[1])
    assert backbone("llama") == by_path == backbone(by_path.name)
    assert by_path.name.startswith("folder:llama@")
    run = run_of("llama", trainable=("input", "positions"))
    check_said(refusal(lambda: assemble([run], task_of(run), CPU)), ["'positions'"])


def test_a_folder_is_another_one_with_another_configuration(put: Any) -> None:
    """Of the same weights: a layer norm that divides by something else, for example."""
    folder = Path(put("gpt2")[1])
    before = backbone(str(folder)).name
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"layer_norm_epsilon": 0.1}))
    assert backbone(str(folder)).name != before
    check_said(refusal(lambda: backbone(before)), [repr(before)])  # it is no longer here


@pytest.mark.parametrize("kind", ["qwen3", "bert"])
def test_an_estimator_takes_a_folder(kind: str, put: Any, tmp_path: Path) -> None:
    """And finds it again in another process, if it has the same content."""
    X, y = np.random.default_rng(0).normal(size=(40, 5, 2)), np.arange(40) % 2
    _, folder = put(kind)
    made = FrozenTransformer(folder, steps=2, control=True).fit(X, y)
    made.save(tmp_path / "saved")
    trained = made.trainable_parameters().query("trained").index
    assert {*trained} == {*backbone(folder).groups} & {*FROZEN}
    again = FrozenTransformer.load(tmp_path / "saved")
    assert (again.predict_proba(X) == made.predict_proba(X)).all()
    shutil.rmtree(folder)
    check_said(refusal(lambda: FrozenTransformer.load(tmp_path / "saved")), [folder, "any more"])


@pytest.mark.parametrize("kind", ["mamba", "bart", "resnet", "cohere", "no-such-type"])
def test_what_does_not_fit_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    (tmp_path / "model.safetensors").touch()
    check_said(refusal(lambda: backbone(str(tmp_path))), [repr(kind), "what fits is"])


def test_the_documented_types_are_those_tested() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own-backbone.md").read_text(encoding="utf-8")
    types = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)))
    assert sorted(types) == sorted(CAUSAL | BOTH_WAYS | VIT)


@pytest.mark.parametrize("identity", pins())
def test_pinned_repositories_are_known_without_a_download(identity: str) -> None:
    name = identity.removeprefix("hub:").partition("@")[0]
    assert pinned(name) == identity
    if pin := pins()[identity]:
        assert backbone(name) == backbone(identity)
        assert pin["facts"] == facts(canonical(pin["config"]))
    else:
        assert backbone(name).hub == name
