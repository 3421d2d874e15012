"""BERT, T5, Longformer, ViT and the two small encoders against transformers and by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import spec, task_of
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerModel,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)
from transformers.models.t5.modeling_t5 import T5LayerNorm

from fpt.backbones import BACKBONES, FAMILIES, Backbone, backbone, build, group_of
from fpt.backbones.layers import Draws
from fpt.backbones.pre_norm import Attention
from fpt.files import FptError
from fpt.spec import RunSpec
from fpt.training.loop import Loop
from fpt.training.model import Model, assemble
from fpt.training.packing import PackedRMSNorm, losses

CPU = torch.device("cpu")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TINY = {
    body.family: body
    for body in (
        Backbone("bert-tiny", "bert", 2, 16, 2, 64),
        Backbone("longformer-tiny", "longformer", 2, 16, 2, 64, window=8),
        Backbone("t5-tiny", "t5-encoder", 2, 16, 2),
        Backbone("vit-tiny", "vit", 2, 16, 2, 64),
        Backbone("vanilla-tiny", "vanilla", 2, 16, 2, 64),
        Backbone("linformer-tiny", "linformer", 2, 16, 2, 64, rank=3),
    )
}
THROUGH_TRANSFORMERS = ("bert", "longformer", "t5-encoder", "vit")


@pytest.fixture(autouse=True)
def bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bodies by name; their weights are looked for in the folder returned."""
    for body in TINY.values():
        monkeypatch.setitem(BACKBONES, body.name, body)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    return tmp_path


def run_of(family: str, **changes: Any) -> RunSpec:
    trainable = {"input", "layernorm", "output", "positions"} & set(TINY[family].groups)
    values = {"backbone": TINY[family].name, "trainable": tuple(sorted(trainable))}
    return spec(options={"n": 8}, **{**values, **changes})


def random_values(model: nn.Module) -> None:
    """Far from a fresh start, so that every parameter matters; they fit in bfloat16."""
    draw = torch.Generator().manual_seed(0)
    norms = (nn.LayerNorm, T5LayerNorm)
    gains = {id(module.weight) for module in model.modules() if isinstance(module, norms)}
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw) * 0.3
            parameter.copy_((noise + float(id(parameter) in gains)).bfloat16())


# ------------------------------------------------------------------------- against transformers


def published(family: str) -> nn.Module:
    """A model of transformers with a head, as such weights are published, of our tiny size."""
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    model: nn.Module
    if family == "bert":
        model = BertForMaskedLM(BertConfig(vocab_size=9, max_position_embeddings=64, **sizes))
    elif family == "longformer":
        model = LongformerForMaskedLM(
            LongformerConfig(
                vocab_size=9,
                max_position_embeddings=66,
                attention_window=8,
                type_vocab_size=1,
                layer_norm_eps=1e-5,
                **sizes,
            )
        )
    elif family == "t5-encoder":
        model = T5ForConditionalGeneration(
            T5Config(vocab_size=9, d_model=16, d_kv=8, d_ff=64, num_layers=2, num_heads=2)
        )
    else:
        model = ViTForImageClassification(ViTConfig(image_size=16, patch_size=4, **sizes))
    random_values(model)
    return model.eval()


def inside(model: Any) -> Callable[..., Any]:
    """The model without its head."""
    if isinstance(model, T5ForConditionalGeneration):
        return model.encoder
    return getattr(model, model.base_model_prefix)


def save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder / "model.safetensors"


def loaded(family: str, weights: str) -> Model:
    run = run_of(family, init="pretrained", weights=weights, dropout=0.0)
    return assemble([run], task_of(run), CPU)[0].eval()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("family", ["bert", "longformer", "t5-encoder"])
@torch.no_grad()
def test_hidden_states_are_those_of_transformers(family: str, masked: bool, bodies: Path) -> None:
    """21 tokens: more than the Longformer's window, and no multiple of it."""
    theirs = published(family)
    save(theirs, bodies / "weights")
    model = loaded(family, "weights")
    vectors = torch.randn(4, 21, 16, generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([21, 1, 9, 20])
    mask = torch.arange(21) < lengths[:, None] if masked else torch.ones(4, 21, dtype=torch.bool)
    expected = inside(theirs)(inputs_embeds=vectors, attention_mask=mask.long()).last_hidden_state
    assert expected[mask].std() > 0.1
    x = vectors
    if TINY[family].positions:
        table = dict(inside(theirs).named_parameters())["embeddings.position_embeddings.weight"]
        x = vectors + table[2 if family == "longformer" else 0 :][:21]
        task_length = model.positions.shape[1]
        assert torch.equal(model.positions[0], table[-64:][:task_length])
    found = model.backbone(x, mask if masked else None)
    torch.testing.assert_close(found[mask], expected[mask], **CLOSE)
    last = (lengths - 1)[:, None] if masked else torch.tensor([[3], [20], [0], [7]])
    found = model.backbone(x, mask if masked else None, last)
    expected = expected.gather(1, last[..., None].expand(-1, 1, 16))
    torch.testing.assert_close(found, expected, **CLOSE)


@torch.no_grad()
def test_hidden_states_of_vit_are_those_of_transformers(bodies: Path) -> None:
    """The blocks on what transformers' model gives them: 16 patches and a class token."""
    theirs = published("vit")
    save(theirs, bodies / "weights")
    body = loaded("vit", "weights").backbone
    pixels = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    x = inside(theirs).embeddings(pixels)
    assert x.shape == (3, 17, 16)
    mask = torch.arange(17) < torch.tensor([17, 5, 1])[:, None]
    for seen in (None, mask):
        given = {} if seen is None else {"attention_mask": seen.long()}
        expected = inside(theirs)(pixels, **given).last_hidden_state
        real = torch.ones_like(mask) if seen is None else seen
        torch.testing.assert_close(body(x, seen)[real], expected[real], **CLOSE)
    read = torch.tensor([[16], [4], [0]])
    expected = inside(theirs)(pixels, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(
        body(x, mask, read), expected[torch.arange(3)[:, None], read], **CLOSE
    )


@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_vits_positions_start_at_zero(init: str, bodies: Path) -> None:
    save(published("vit"), bodies / "weights")
    run = run_of("vit", init=init, weights="weights" if init == "pretrained" else None)
    model, rows, _ = assemble([run], task_of(run), CPU)
    assert model.positions.eq(0).all()
    assert "positions" in rows.columns()


def test_files_with_the_oldest_names_load_too(bodies: Path) -> None:
    """Published BERT and ViT files: gamma and beta; a layer's parts by their names of 2020."""
    for family, renamed in (
        ("bert", [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")]),
        (
            "vit",
            [
                ("vit.layers.", "encoder.layer."),
                (".attention.q_proj.", ".attention.attention.query."),
                (".attention.k_proj.", ".attention.attention.key."),
                (".attention.v_proj.", ".attention.attention.value."),
                (".attention.o_proj.", ".attention.output.dense."),
                (".mlp.fc1.", ".intermediate.dense."),
                (".mlp.fc2.", ".output.dense."),
                ("vit.", ""),
            ],
        ),
    ):
        model = published(family)
        save(model, bodies / "new")
        stored = {name: value.clone() for name, value in model.state_dict().items()}
        for ours, old in renamed:
            assert any(ours in name for name in stored)
            stored = {name.replace(ours, old): value for name, value in stored.items()}
        (bodies / "old").mkdir(exist_ok=True)
        save_file(stored, bodies / "old" / "model.safetensors")
        new, old_model = (loaded(family, weights) for weights in ("new", "old"))
        for (name, one), other in zip(
            new.backbone.named_parameters(), old_model.backbone.parameters(), strict=True
        ):
            assert torch.equal(one, other), name


def test_weights_that_do_not_fit_are_refused(bodies: Path) -> None:
    path = save(published("t5-encoder"), bodies / "weights")
    stored = load_file(path)
    del stored["encoder.block.1.layer.0.SelfAttention.k.weight"]
    save_file(stored, path)
    with pytest.raises(FptError, match="'t5-tiny': block.1.*SelfAttention.k.weight .*nothing"):
        loaded("t5-encoder", "weights")
    with pytest.raises(FptError, match="'random-scaled' is GPT-2's; backbone 'vit-tiny'"):
        assemble([run_of("vit", init="random-scaled")], task_of(run_of("vit")), CPU)


@pytest.mark.parametrize("family", THROUGH_TRANSFORMERS)
def test_random_bodies_start_as_transformers_starts_them(family: str) -> None:
    """Constants are equal, standard deviations close (ViT's tables and patches are not ours)."""
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape["intermediate_size"] = 256
    torch.manual_seed(0)
    theirs: nn.Module = {
        "bert": lambda: BertModel(BertConfig(vocab_size=9, **shape)),
        "longformer": lambda: LongformerModel(LongformerConfig(vocab_size=9, **shape)),
        "t5-encoder": lambda: T5EncoderModel(
            T5Config(vocab_size=9, d_model=64, d_kv=32, d_ff=256, num_layers=2, num_heads=2)
        ),
        "vit": lambda: ViTModel(ViTConfig(**shape)),
    }[family]()
    big = replace(TINY[family], width=64)
    fresh = FAMILIES[family].load(theirs.state_dict())
    body = build(big).to_empty(device="cpu")
    with torch.no_grad():
        FAMILIES[family].init_(body, torch.Generator().manual_seed(0))
    for name, ours in body.named_parameters():
        if fresh[name].std() == 0:
            assert torch.equal(ours, fresh[name]), name
        else:
            ratio = (ours.detach().std() / fresh[name].std()).item()
            assert ratio == pytest.approx(1, abs=2.5 / ours.numel() ** 0.5), name


# ---------------------------------------------------------------------- sizes, groups and counts

NAMES = {
    "bert": {
        "layernorm": ["embedding_norm", "layers.#.attention.output.LayerNorm"]
        + ["layers.#.output.LayerNorm"],
        "attention": [f"layers.#.attention.self.{part}" for part in ("query", "key", "value")]
        + ["layers.#.attention.output.dense"],
        "feedforward": ["layers.#.intermediate.dense", "layers.#.output.dense"],
        "embeddings": ["token_type"],
    },
    "t5-encoder": {
        "layernorm": ["block.#.layer.0.layer_norm", "block.#.layer.1.layer_norm"]
        + ["final_layer_norm"],
        "attention": [f"block.#.layer.0.SelfAttention.{part}" for part in "qkvo"],
        "feedforward": [f"block.#.layer.1.DenseReluDense.{part}" for part in ("wi", "wo")],
        "relative": ["block.0.layer.0.SelfAttention.relative_attention_bias"],
    },
    "vit": {
        "layernorm": [f"layers.#.layernorm_{place}" for place in ("before", "after")]
        + ["layernorm"],
        "attention": [f"layers.#.attention.{part}_proj" for part in "qkvo"],
        "feedforward": ["layers.#.mlp.fc1", "layers.#.mlp.fc2"],
    },
    "vanilla": {
        "layernorm": ["layers.#.attention_norm", "layers.#.feedforward_norm", "last_norm"],
        "attention": [f"layers.#.attention.{part}" for part in ("query", "key", "value", "out")],
        "feedforward": ["layers.#.feedforward.0", "layers.#.feedforward.2"],
    },
}
NAMES["longformer"] = NAMES["bert"]
NAMES["linformer"] = NAMES["vanilla"] | {
    "attention": [*NAMES["vanilla"]["attention"], "layers.#.attention.mix"]
}


@pytest.mark.parametrize(
    "name",
    [body.name for body in TINY.values()]
    + ["bert-base", "t5-base", "longformer-base", "vit-base", "vanilla", "linformer"]
    + ["bert-nano", "t5-encoder-nano", "longformer-nano", "vit-nano"],
)
def test_every_parameter_is_in_the_group_of_its_name(name: str) -> None:
    body = backbone(name)
    expected = {
        pattern.replace("#", str(layer)): group
        for group, patterns in NAMES[body.family].items()
        for pattern in patterns
        for layer in range(body.layers)
    }
    parameters = dict(build(body).named_parameters())
    assert all(parameter.is_meta for parameter in parameters.values())
    groups: dict[str, set[str]] = {}
    for full in parameters:
        module = full.removesuffix(".weight").removesuffix(".bias")
        groups.setdefault(module, set()).add(group_of(body, full))
    assert groups == {module: {group} for module, group in expected.items()}
    assert set(expected.values()) | {"input", "output"} == set(body.groups) - {"positions"}
    assert ("positions" in body.groups) is (body.positions > 0)


@pytest.mark.parametrize(
    ("name", "reference", "config", "total", "unused"),
    [
        # word table, second token type, pooler
        ("bert-base", BertModel, BertConfig(), 109_482_240, (30522 + 1) * 768 + 768 * 769),
        ("t5-base", T5EncoderModel, T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12),
         109_628_544, 32128 * 768),
        # word table, two position rows, pooler, three global projections per layer
        ("longformer-base", LongformerModel,
         LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1),
         148_659_456, (50265 + 2) * 768 + 768 * 769 + 12 * 3 * 768 * 769),
        # class token, its own positions and patches, pooler; here 1,024 positions
        ("vit-base", ViTModel, ViTConfig(), 86_389_248,
         768 + 197 * 768 + 768 * (3 * 256 + 1) + 768 * 769 - 1024 * 768),
    ],
)  # fmt: skip
def test_published_sizes(name: str, reference: Any, config: Any, total: int, unused: int) -> None:
    with torch.device("meta"):
        theirs = sum(parameter.numel() for parameter in reference(config).parameters())
    assert theirs == total
    body = backbone(name)
    ours = sum(parameter.numel() for parameter in build(body).parameters())
    assert ours + body.positions * body.width == total - unused


def test_tasks_longer_than_the_table_are_refused() -> None:
    run = spec(task="cifar10-lra", options={}, backbone="bert-base")
    with pytest.raises(FptError, match="1024 tokens; backbone 'bert-base' takes at most 512"):
        Model(backbone("bert-base"), task_of(run), 0.0)
    Model(backbone("t5-base"), task_of(run), 0.0)


# -------------------------------------------------------------------------- packs, all families


def gradients(specs: Sequence[RunSpec], masked: bool) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Losses (K,) and gradients of one training step in double precision, dropout on."""
    task = task_of(specs[0])
    model, rows, fixed = assemble(specs, task, CPU)
    model.double().train()
    for part in (rows, fixed):
        part.bind(part.values.double())
    seeds = [run.seed for run in specs]
    batch = task.train_batch(seeds, 5, 8, CPU)
    batch = replace(batch, inputs=batch.inputs.double())
    if masked:
        last = torch.tensor([15, 0, 3, 14, 7, 9, 15, 2])
        mask = torch.arange(16) <= last[:, None]
        batch = replace(
            batch,
            last=last.expand(len(specs), -1),
            mask=mask.expand(len(specs), -1, -1),
            targets=batch.targets[..., :1],
        )
    model.draws.begin(seeds, 5, (8, 16, model.width), "cpu")
    loss = losses(model(batch), batch.targets)
    loss.sum().backward()
    assert rows.grads is not None
    columns = rows.columns().items()
    return loss.detach(), [{name: row[where] for name, where in columns} for row in rows.grads]


@pytest.mark.filterwarnings("ignore:grad and param do not obey")  # the loop's own business
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("family", TINY)
def test_packed_runs_are_single_runs(family: str, masked: bool, bodies: Path) -> None:
    """Losses and gradients, with dropout, of runs that share a body of random values."""
    body = build(TINY[family]).to_empty(device="cpu")
    random_values(body)
    table = torch.randn(64, 16, generator=torch.Generator().manual_seed(2)).bfloat16().float()
    stored = body.state_dict() | {"positions": table, "encoder.unused": torch.zeros(1)}
    (bodies / "weights").mkdir()
    save_file(stored, bodies / "weights" / "model.safetensors")
    common = {"init": "pretrained", "weights": "weights", "dropout": 0.1}
    inner = "positions" if TINY[family].positions else "layernorm"
    specs = [
        run_of(family, seed=0, **common),
        run_of(family, seed=1, trainable=("input", "output"), **common),
        run_of(family, seed=2, trainable=("layernorm", inner), **common),
    ]
    packed_loss, packed = gradients(specs, masked)
    for row, run in enumerate(specs):
        loss, (alone,) = gradients([run], masked)
        torch.testing.assert_close(packed_loss[row], loss[0], rtol=1e-5, atol=1e-7)
        for name, gradient in alone.items():
            assert gradient.abs().max() > 0, name
            # float32 remains in the loss
            torch.testing.assert_close(packed[row][name], gradient, rtol=1e-5, atol=1e-7)


def test_packed_rms_norm_is_t5s_per_run() -> None:
    norm = T5LayerNorm(6, eps=1e-3)
    packed = PackedRMSNorm(norm)
    weight, x = torch.randn(3, 6), torch.randn(3 * 4, 5, 6) * 3
    packed.weight = nn.Parameter(weight)
    each = []
    for part, gain in zip(x.split(4), weight, strict=True):
        norm.weight = nn.Parameter(gain)
        each.append(norm(part))
    torch.testing.assert_close(packed(x), torch.cat(each))
    packed.weight = nn.Parameter(weight[:1])
    torch.testing.assert_close(packed(x[:4]), each[0])


@pytest.mark.parametrize("family", TINY)
def test_every_place_of_dropout_draws_its_own_mask(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = Draws()
    body = build(TINY[family], draws, 0.1).to_empty(device="cpu")
    random_values(body)
    assert all(module.p == 0 for module in body.modules() if isinstance(module, nn.Dropout))
    used: list[int] = []
    kept = Draws.kept
    monkeypatch.setattr(Draws, "kept", lambda self, site: used.append(site) or kept(self, site))
    assert len(draws.sites) == {"bert": 5, "longformer": 5, "t5-encoder": 6}.get(family, 4)
    draws.begin([0], 0, (2, 7, 16), "cpu")
    x = torch.randn(2, 7, 16)
    first = body.train()(x)
    assert sorted(used) == list(range(len(draws.sites)))
    assert torch.equal(body(x), first)  # nothing else is random
    assert not torch.allclose(body.eval()(x), first)


@pytest.mark.parametrize("family", TINY)
@torch.no_grad()
def test_hidden_states_do_not_depend_on_padding(family: str) -> None:
    body = build(TINY[family]).to_empty(device="cpu").eval()
    random_values(body)
    x, other = torch.randn((2, 3, 30, 16), generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([[12], [20], [1]])
    mask = torch.arange(30) < lengths
    found = body(x, mask)
    padded = body(torch.where(mask[..., None], x, other * 50), mask)
    torch.testing.assert_close(found[mask], padded[mask], **CLOSE)
    for row, length in enumerate(lengths[:, 0].tolist()):
        alone = body(x[row : row + 1, :length])
        torch.testing.assert_close(found[row, :length], alone[0], **CLOSE)
    assert found.isfinite().all()
    assert not torch.allclose(body(x)[1], found[1])


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("masked", [False, True])
def test_bodies_run_in_bfloat16(family: str, masked: bool) -> None:
    """Under autocast, as on an accelerator: close to float32 and never infinite."""
    run = run_of(family, dropout=0.0)
    model, _, _ = assemble([run, replace(run, lr=0.1)], task_of(run), CPU)
    x = torch.randn(6, 16, 16, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(16) < torch.tensor([16, 1, 5, 16, 16, 9])[:, None] if masked else None
    exact = model.backbone(x, mask)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model.backbone(x, mask).float()
    rounded.sum().backward()
    real = slice(None) if mask is None else mask
    assert (rounded - exact)[real].abs().mean() < 0.03 * exact[real].abs().mean()


@pytest.mark.parametrize("family", TINY)
def test_a_random_body_trains_in_full(family: str) -> None:
    run = run_of(family, trainable=tuple(sorted(TINY[family].groups)), lr=1e-3, steps=3)
    loop = Loop([run], task_of(run), CPU)
    before = loop.rows.values.clone()
    for _ in range(3):
        loop.train_step()
    for name, columns in loop.rows.columns().items():
        assert not torch.equal(before[:, columns], loop.rows.values[:, columns]), name


# ---------------------------------------------------------------------------- Longformer's window


@torch.no_grad()
def test_a_longformer_sees_its_window() -> None:
    """One layer, window 8: token 10 of 21 hears 6 to 14 and nothing else."""
    body = build(replace(TINY["longformer"], layers=1)).to_empty(device="cpu").eval()
    random_values(body)
    x = torch.randn(1, 21, 16, generator=torch.Generator().manual_seed(4))
    before = body(x)[0, 10]
    heard = []
    for place in range(21):
        changed = x.clone()
        changed[0, place] += 1
        changed[0, place, ::2] -= 3
        heard.append(not torch.equal(body(changed)[0, 10], before))
    assert [place for place, yes in enumerate(heard) if yes] == list(range(6, 15))
    mask = torch.arange(21) < torch.tensor([[3]])
    seen = body.visible(x, mask)  # queries far out in the padding still have a key: themselves
    assert seen[0, 0, 20].nonzero().tolist() == [[20]]
    assert seen[0, 0, 2].nonzero()[:, 0].tolist() == [0, 1, 2]


# ---------------------------------------------------------------------- the encoders of Table 7


@torch.no_grad()
def test_linformer_by_hand() -> None:
    """Every number of one head of width 2 over 3 tokens and 2 mixtures, worked out."""
    attention = Attention(Backbone("by hand", "linformer", 1, 2, 1, positions=4, rank=2))
    identity = torch.eye(2)
    for layer in (attention.query, attention.key, attention.out):
        layer.weight.copy_(identity)
    attention.value.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    # first mixture: tokens 1 and 2 added; second: token 3; the fourth row is beyond the sequence
    attention.mix.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]))
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]])
    # keys (1, 1) and (0, 2); values (2, 1) and (0, 2); queries are the tokens
    scores = torch.tensor([[1.0, 0.0], [1.0, 2.0], [2.0, 4.0]]) / 2**0.5
    first = 1 / (1 + (scores[:, 1] - scores[:, 0]).exp())  # weight of the first mixture
    expected = torch.stack([2 * first, first + 2 * (1 - first)], 1)
    torch.testing.assert_close(attention(x, None)[0], expected)
    # token 3 is padding: the second mixture is empty, key and value 0
    mask = torch.tensor([[True, True, False]])
    weight = torch.sigmoid(torch.tensor([1.0, 1.0]) / 2**0.5)
    torch.testing.assert_close(attention(x, mask)[0, :2], torch.stack([2 * weight, weight], 1))


@torch.no_grad()
def test_a_linformer_that_mixes_nothing_is_the_plain_transformer() -> None:
    plain, low = (
        build(replace(TINY[f], rank=r)).to_empty(device="cpu").eval()
        for f, r in (("vanilla", 0), ("linformer", 64))
    )
    random_values(plain)
    missing, unexpected = low.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == ([f"layers.{i}.attention.mix" for i in (0, 1)], [])
    x = torch.randn(2, 64, 16)
    for layer in low.layers:
        layer.attention.mix.copy_(torch.eye(64))
    torch.testing.assert_close(low(x), plain(x), **CLOSE)


@torch.no_grad()
def test_the_plain_transformer_is_pytorchs() -> None:
    body = build(TINY["vanilla"]).to_empty(device="cpu").eval()
    random_values(body)
    x = torch.randn(3, 11, 16)
    mask = torch.arange(11) < torch.tensor([11, 4, 8])[:, None]
    expected = x
    for layer in body.layers:
        theirs = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, nn.GELU("tanh"), batch_first=True, norm_first=True
        ).train()  # in evaluation it takes a short cut with another GELU
        own = layer.attention
        theirs.self_attn.in_proj_weight.copy_(
            torch.cat([own.query.weight, own.key.weight, own.value.weight])
        )
        theirs.self_attn.in_proj_bias.zero_()
        theirs.self_attn.out_proj.weight.copy_(own.out.weight)
        theirs.self_attn.out_proj.bias.zero_()
        theirs.norm1.load_state_dict(layer.attention_norm.state_dict())
        theirs.norm2.load_state_dict(layer.feedforward_norm.state_dict())
        theirs.linear1.load_state_dict(layer.feedforward[0].state_dict())
        theirs.linear2.load_state_dict(layer.feedforward[2].state_dict())
        expected = theirs(expected, src_key_padding_mask=~mask)
    expected = body.last_norm(expected)
    torch.testing.assert_close(body(x, mask)[mask], expected[mask], **CLOSE)
