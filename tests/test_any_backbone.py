"""Backbones that transformers builds from a configuration: by a folder or a repository's name."""

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from refusals import check_said, one_sentence, refusal
from safetensors.torch import load_file, save_file
from tiny import assembled, loop_of, random_values, spec

from fpt import FrozenTransformer
from fpt.backbones import backbone, build, group_of
from fpt.backbones.encoders import vit_facts
from fpt.backbones.generic import facts
from fpt.backbones.initialisations import initial_state
from fpt.backbones.skeleton import parameters_on_meta
from fpt.backbones.trial import layers_of_each_kind, tried
from fpt.backbones.weights import State, read_weights
from fpt.sections.arms import FROZEN
from fpt.spec import RunSpec, canonical
from lab import backbones_tried

DOCS = Path(__file__).parents[1] / "docs"
TRIED_PAGE = (DOCS / "backbones-tried.md").read_text(encoding="utf-8")
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
    architecture = backbone(folder)
    values = {
        "backbone": architecture.name,
        "init": "pretrained",
        "weights": architecture.name,
        "dropout": 0.0,
        "trainable": tuple(sorted({*FROZEN} & {*architecture.groups})),
        "options": {"n": 5},
    }
    return spec(**{**values, **changes})


def state_of(name: str) -> State:
    architecture = backbone(name)
    return read_weights(architecture, build(architecture), architecture.name)


@pytest.mark.parametrize("kind", [*CAUSAL, *BOTH_WAYS])
def test_numbers_and_gradients_are_those_of_transformers(kind: str, put: Any) -> None:
    theirs, folder = put(kind)
    architecture = backbone(folder)
    ours, rows, _ = assembled(run_of(folder))
    ours.train()  # without dropout all the same
    assert architecture.causal is (kind in CAUSAL)
    x, direction = torch.randn(2, 3, 10, 16, generator=torch.Generator().manual_seed(0))
    x = x[..., : architecture.width]
    moved = x if ours.positions is None else x + ours.positions[0]
    last = torch.tensor([[9], [6], [3]])
    mask = torch.arange(10) <= last
    for used_mask, real in ((None, mask | True), (mask, mask)):
        expected = theirs(inputs_embeds=x, attention_mask=used_mask).last_hidden_state
        hidden = ours.backbone(moved, used_mask)
        torch.testing.assert_close(hidden[real], expected[real], rtol=1e-3, atol=1e-4)
    (expected[range(3), last[:, 0]] * direction[:, 0]).sum().backward()
    (ours.backbone(moved, mask, last) * direction[:, :1]).sum().backward()
    named = dict(theirs.named_parameters())
    for part in rows.slices:
        if part.group == "layernorm":
            grad = getattr(part.owner, part.attribute).grad[0]
            expected = named[part.name.removeprefix("backbone.model.")].grad
            torch.testing.assert_close(grad, expected, rtol=1e-3, atol=1e-3)
    if ours.positions is not None:
        (table,) = (named[name] for name in named if "wpe" in name or "position" in name)
        expected = table.grad[-architecture.positions :][:10]
        torch.testing.assert_close(ours.positions.grad[0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [*CAUSAL, *BOTH_WAYS, *VIT])
@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_pack_trains_as_each_alone_and_leaves_the_rest(kind: str, init: str, put: Any) -> None:
    folder = put(kind)[1]
    run = run_of(folder, init=init)
    faster = replace(run, lr=0.02)
    loops = [loop_of(run, faster), loop_of(run), loop_of(faster)]
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
    architecture = backbone(put(kind)[1])
    first, again, second = (
        initial_state(architecture, build(architecture), "random", None, seed) for seed in (0, 0, 1)
    )
    for name, value in first.items():
        assert torch.equal(value, again[name])
        assert torch.equal(value, second[name]) is (value.dim() == 1), name


def test_shards_are_read_as_one_file_and_damage_is_said(put: Any) -> None:
    model, folder = put("qwen3")
    identity = backbone(folder).name
    state = state_of(folder)
    (Path(folder) / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    shards = sorted(Path(folder).glob("model-*.safetensors"))
    sharded = state_of(folder)
    assert len(shards) > 2
    assert backbone(folder).name != identity  # it is known by its content
    assert all(torch.equal(sharded[name], state[name]) for name in state)
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
    check_said(refusal(lambda: assembled(run)), ["'positions'"])


def test_a_folder_is_another_one_with_another_configuration(put: Any) -> None:
    """Of the same weights: a layer norm that divides by something else, for example."""
    folder = Path(put("gpt2")[1])
    before = backbone(str(folder)).name
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"layer_norm_epsilon": 0.1}))
    assert backbone(str(folder)).name != before
    check_said(refusal(lambda: backbone(before)), [before])  # it is no longer here


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


# --------------------------------------------------------------------- tried before it is trained

TRIED = (
    "apertus", "qwen3_moe", "nomic_bert", "xlnet", "longformer", "rwkv", "roformer", "olmo", "ctrl",
)  # fmt: skip
REFUSED = ("fnet", "funnel", "roc_bert", "dpr", "cohere", "bart")


@pytest.mark.parametrize("kind", TRIED + REFUSED)
def test_the_page_of_backbones_says_what_becomes_of_each(kind: str) -> None:
    """Other numbers than transformers', an influence of padding, packs that differ from each run
    alone, or a group without a gradient would show."""
    row = backbones_tried.row_of(kind)
    (line,) = re.findall(rf"^\| [^|]+ \| `{kind}` \| .*$", TRIED_PAGE, re.MULTILINE)
    assert row.holds
    assert bool(row.refusal) is (kind in REFUSED)
    if row.refusal:
        assert one_sentence(row.refusal)
        assert backbones_tried.reason(row) in line
    else:
        cells = backbones_tried.line("", row).split(" | ")
        committed = line.split(" | ")
        assert [committed[2], committed[-1]] == [cells[2], cells[-1]]


def as_transformers(folder: str, length: int) -> bool:
    """Whether the backbone in `folder` gives the hidden states of transformers for sequences of
    `length` tokens."""
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    architecture = backbone(folder)
    ours = build(architecture)
    state = read_weights(architecture, ours, architecture.name)
    ours.load_state_dict(state, assign=True, strict=False)
    x = torch.randn(2, length, architecture.width, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(inputs_embeds=x).last_hidden_state
        return torch.allclose(ours.eval()(x), expected, rtol=1e-4, atol=1e-5)


SCALED: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 8},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8},
    "longrope": {"short_factor": [1.0, 1.1, 1.2, 1.5], "long_factor": [2.0, 3.0, 4.0, 5.0],
                 "factor": 4.0, "original_max_position_embeddings": 8},
}  # fmt: skip


@pytest.mark.parametrize("scaling", SCALED)
def test_rotary_positions_are_scaled_as_by_transformers(scaling: str, tmp_path: Path) -> None:
    rope = {"rope_type": scaling, "rope_theta": 1e4, **SCALED[scaling]}
    config = transformers.LlamaConfig(
        **GROUPED, max_position_embeddings=8, rope_parameters=rope, initializer_range=0.3
    )
    transformers.LlamaModel(config).save_pretrained(tmp_path)
    assert as_transformers(str(tmp_path), 5)
    assert as_transformers(str(tmp_path), 20)
    X = [np.ones((3 + index % 9, 2)) for index in range(20)]
    fit = partial(FrozenTransformer(str(tmp_path), steps=2).fit, X, np.arange(20) % 2)
    if scaling in ("dynamic", "longrope"):  # the length of a batch changes all of its sequences
        check_said(refusal(fit), ["8 tokens", "padding"])
    else:
        fit()


def stored_in(folder: str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def store(folder: str, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def apertus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a model whose layers have buffers, beta and eps, that are stored."""
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    config = transformers.ApertusConfig(**GROUPED)
    transformers.ApertusModel(config).save_pretrained(tmp_path / "apertus")
    return str(tmp_path / "apertus")


def betas(module: torch.nn.Module) -> list[float]:
    return [value.item() for name, value in module.named_buffers() if name.endswith("beta")]


def read_betas(folder: str) -> list[float]:
    """Those of the checkpoint; a backbone that is built has the computed ones."""
    architecture = backbone(folder)
    module = build(architecture)
    assert betas(module) == [0.5, 0.5]
    read_weights(architecture, module, architecture.name)
    return betas(module)


def test_buffers_are_those_of_the_checkpoint_or_computed(apertus: str) -> None:
    tensors = stored_in(apertus)
    changed = {
        name: torch.full_like(value, 0.75) if name.endswith("beta") else value
        for name, value in tensors.items()
    }
    store(apertus, changed)
    assert as_transformers(apertus, 5)
    assert read_betas(apertus) == [0.75, 0.75]
    run = run_of(apertus, init="random", weights=None)
    assert betas(assembled(run)[0].backbone) == [0.5, 0.5]
    store(apertus, {name: tensors[name] for name in tensors if not name.endswith("beta")})
    assert read_betas(apertus) == [0.5, 0.5]


def test_eight_bit_floats_are_read_unless_their_scales_would_be_lost(
    apertus: str,
) -> None:
    tensors = stored_in(apertus)
    eight = {
        name: value.to(torch.float8_e4m3fn) if name.endswith("proj.weight") else value
        for name, value in tensors.items()
    }
    store(apertus, eight)
    assert as_transformers(apertus, 5)
    store(apertus, eight | {"layers.0.mlp.up_proj.weight_scale_inv": torch.ones(1, 1)})
    check_said(refusal(lambda: state_of(apertus)), ["weight_scale_inv"])
    codes = eight | {"layers.0.mlp.up_proj.weight": torch.ones(24, 16, dtype=torch.int8)}
    store(apertus, codes)
    check_said(refusal(lambda: state_of(apertus)), ["up_proj.weight", "int8"])
    store(apertus, tensors | {"layers.0.mlp.up_proj.weight": torch.ones(3, 3)})
    check_said(refusal(lambda: state_of(apertus)), ["up_proj.weight", "(24, 16)", "(3, 3)"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"hidden_act": "no-such-function"}, "no-such-function"),
        ({"num_hidden_layers": "two"}, "two"),
        ({"rope_theta": float("inf")}, "not finite"),
    ],
)
def test_configurations_that_cannot_be_built_are_refused_at_once(
    changes: dict[str, Any], sentence: str, apertus: str
) -> None:
    path = Path(apertus) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    check_said(refusal(lambda: backbone(apertus)), [sentence, "what fits is"])


def test_the_program_around_changes_no_trial_and_keeps_its_random_state(apertus: str) -> None:
    before = torch.get_rng_state()
    with torch.inference_mode():
        architecture = backbone(apertus)
    with torch.no_grad():
        state_of(apertus)
    assert torch.equal(torch.get_rng_state(), before)
    facts.cache_clear()
    assert backbone(apertus) == architecture
    with parameters_on_meta():
        thread = ThreadPoolExecutor(1)
        assert not thread.submit(torch.nn.Linear, 2, 2).result().weight.is_meta
        assert torch.nn.Linear(2, 2).weight.is_meta


def test_of_a_big_model_the_first_layers_of_each_kind_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pattern = ["sliding_attention"] * 5 + ["full_attention"]
    sizes = GROUPED | {"num_hidden_layers": 12, "layer_types": pattern * 2}
    config = transformers.AutoConfig.for_model("gemma3_text", **sizes)
    assert layers_of_each_kind(config) == 6
    assert layers_of_each_kind(transformers.LlamaConfig(**GROUPED)) == 2
    text = canonical(config.to_dict())
    of_all_layers = tried(text)
    monkeypatch.setattr("fpt.backbones.trial.BIG", 0)
    assert tried(text) == of_all_layers


def test_a_vit_whose_configuration_leaves_out_defaults_has_transformers_sizes() -> None:
    facts = vit_facts({"model_type": "vit", "hidden_size": 96})
    assert (facts["layers"], facts["width"], facts["heads"]) == (12, 96, 12)
