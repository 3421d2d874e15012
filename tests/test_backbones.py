"""BERT, T5, Longformer, ViT and the two small encoders against transformers and by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny import columns_of, spec, task_of
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
from fpt.backbones.dropout import Draws
from fpt.backbones.gpt2 import Attention
from fpt.files import FptError
from fpt.spec import RunSpec
from fpt.training.model import Model, assemble

CPU = torch.device("cpu")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TINY = {
    each.family: each
    for each in (
        Backbone("bert-tiny", "bert", 2, 16, 2, 64),
        Backbone("longformer-tiny", "longformer", 2, 16, 2, 64, window=8),
        Backbone("t5-tiny", "t5-encoder", 2, 16, 2),
        Backbone("vit-tiny", "vit", 2, 16, 2, 64),
        Backbone("vanilla-tiny", "vanilla", 2, 16, 2, 64),
        Backbone("linformer-tiny", "linformer", 2, 16, 2, 64, rank=3),
    )
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The backbones by name; their weights are looked for in the folder returned."""
    for each in TINY.values():
        monkeypatch.setitem(BACKBONES, each.name, each)
    monkeypatch.setenv("FPT_BACKBONES", str(tmp_path))
    return tmp_path


def run_of(family: str, **changes: Any) -> RunSpec:
    trainable = {"input", "layernorm", "output", "positions"} & set(TINY[family].groups)
    values = {"backbone": TINY[family].name, "trainable": tuple(sorted(trainable))}
    return spec(options={"n": 8}, **{**values, **changes})


def random_values(model: nn.Module) -> None:
    """Far from the initial ones, so that every parameter matters; they fit in bfloat16."""
    draw = torch.Generator().manual_seed(0)
    norms = (nn.LayerNorm, T5LayerNorm)
    gains = {id(module.weight) for module in model.modules() if isinstance(module, norms)}
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw) * 0.3
            parameter.copy_((noise + float(id(parameter) in gains)).bfloat16())


# ------------------------------------------------------------------------- against transformers


SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
T5_SIZES = {"vocab_size": 9, "d_model": 16, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 2}
LONGFORMER = {"attention_window": 8, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
PUBLISHED: dict[str, Callable[[], nn.Module]] = {
    "bert": lambda: BertForMaskedLM(BertConfig(vocab_size=9, max_position_embeddings=64, **SIZES)),
    "longformer": lambda: LongformerForMaskedLM(
        LongformerConfig(vocab_size=9, max_position_embeddings=66, **LONGFORMER, **SIZES)
    ),
    "t5-encoder": lambda: T5ForConditionalGeneration(T5Config(**T5_SIZES)),
    "vit": lambda: ViTForImageClassification(ViTConfig(image_size=16, patch_size=4, **SIZES)),
}


def published(family: str) -> nn.Module:
    """A model of transformers with a head, as such weights are published, of our tiny size."""
    model = PUBLISHED[family]()
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
def test_hidden_states_are_those_of_transformers(family: str, masked: bool, folder: Path) -> None:
    """21 tokens: more than the Longformer's window, and no multiple of it."""
    theirs = published(family)
    save(theirs, folder / "weights")
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
def test_hidden_states_of_vit_are_those_of_transformers(folder: Path) -> None:
    """The blocks on what transformers' model gives them: 16 patches and a class token."""
    theirs = published("vit")
    save(theirs, folder / "weights")
    made = loaded("vit", "weights").backbone
    pixels = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    x = inside(theirs).embeddings(pixels)
    assert x.shape == (3, 17, 16)
    mask = torch.arange(17) < torch.tensor([17, 5, 1])[:, None]
    for seen in (None, mask):
        given = {} if seen is None else {"attention_mask": seen.long()}
        expected = inside(theirs)(pixels, **given).last_hidden_state
        real = torch.ones_like(mask) if seen is None else seen
        torch.testing.assert_close(made(x, seen)[real], expected[real], **CLOSE)
    read = torch.tensor([[16], [4], [0]])
    expected = inside(theirs)(pixels, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(
        made(x, mask, read), expected[torch.arange(3)[:, None], read], **CLOSE
    )


@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_vits_new_table_of_positions_is_drawn(init: str, folder: Path) -> None:
    save(published("vit"), folder / "weights")
    run = run_of("vit", init=init, weights="weights" if init == "pretrained" else None)
    model, rows, _ = assemble([run], task_of(run), CPU)
    assert model.positions.std().item() == pytest.approx(0.02, rel=0.1)
    assert "positions" in columns_of(rows)


OLD_NAMES = {
    "bert": [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")],
    "vit": [
        ("vit.layers.", "encoder.layer."),
        (".attention.q_proj.", ".attention.attention.query."),
        (".attention.k_proj.", ".attention.attention.key."),
        (".attention.v_proj.", ".attention.attention.value."),
        (".attention.o_proj.", ".attention.output.dense."),
        (".mlp.fc1.", ".intermediate.dense."),
        (".mlp.fc2.", ".output.dense."),
        ("vit.", ""),
    ],
}


@pytest.mark.parametrize("family", OLD_NAMES)
def test_files_with_the_oldest_names_load_too(family: str, folder: Path) -> None:
    """Published BERT and ViT files: gamma and beta; a layer's parts by their names of 2020."""
    model = published(family)
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    for ours, old in OLD_NAMES[family]:
        assert any(ours in name for name in stored)
        stored = {name.replace(ours, old): value for name, value in stored.items()}
    save(model, folder / "new")
    (folder / "old").mkdir()
    save_file(stored, folder / "old" / "model.safetensors")
    new, old_model = (loaded(family, weights).backbone for weights in ("new", "old"))
    for (name, one), other in zip(new.named_parameters(), old_model.parameters(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("family", PUBLISHED)
def test_random_ones_are_initialised_as_by_transformers(family: str) -> None:
    """Constants are equal, standard deviations close (ViT's tables and patches are not ours)."""
    wide = {name: 4 * size if "num" not in name else size for name, size in SIZES.items()}
    t5 = {**T5_SIZES, "d_model": 64, "d_kv": 32, "d_ff": 256}
    torch.manual_seed(0)
    theirs: nn.Module = {
        "bert": lambda: BertModel(BertConfig(vocab_size=9, **wide)),
        "longformer": lambda: LongformerModel(LongformerConfig(vocab_size=9, **wide)),
        "t5-encoder": lambda: T5EncoderModel(T5Config(**t5)),
        "vit": lambda: ViTModel(ViTConfig(**wide)),
    }[family]()
    fresh = FAMILIES[family].load(theirs.state_dict())
    made = build(replace(TINY[family], width=64)).to_empty(device="cpu")
    with torch.no_grad():
        FAMILIES[family].init_(made, torch.Generator().manual_seed(0))
    for name, ours in made.named_parameters():
        if fresh[name].std() == 0:
            assert torch.equal(ours, fresh[name]), name
        else:
            ratio = (ours.detach().std() / fresh[name].std()).item()
            assert ratio == pytest.approx(1, abs=2.5 / ours.numel() ** 0.5), name


# ---------------------------------------------------------------------- sizes, groups and counts

# Parameters per layer of width w: matrices and biases; norms, one more than there are in a layer.
COUNTS: dict[str, Callable[[int], dict[str, int]]] = {
    "bert": lambda w: {"attention": 4 * w * (w + 1), "feedforward": 8 * w * w + 5 * w},
    "t5-encoder": lambda w: {"attention": 4 * w * w, "feedforward": 8 * w * w},
    "vanilla": lambda w: {"attention": 4 * w * w, "feedforward": 4 * w * w + 3 * w},
    "linformer": lambda w: COUNTS["vanilla"](w) | {"attention": 4 * w * w + 64 * 3},
}
COUNTS |= dict.fromkeys(("longformer", "vit"), COUNTS["bert"])
ONCE = {
    "bert": {"embeddings": 16},
    "longformer": {"embeddings": 16},
    "t5-encoder": {"relative": 64},
}


@pytest.mark.parametrize("family", TINY)
def test_every_parameter_is_in_its_group(family: str) -> None:
    tiny = TINY[family]
    norm = tiny.width if family == "t5-encoder" else 2 * tiny.width
    expected = {group: 2 * count for group, count in COUNTS[family](tiny.width).items()}
    expected |= {"layernorm": (2 * 2 + 1) * norm, **ONCE.get(family, {})}
    found: dict[str, int] = {}
    for name, parameter in build(tiny).named_parameters():
        assert parameter.is_meta
        group = group_of(tiny, name)
        assert ("norm" in name.lower()) is (group == "layernorm"), name
        found[group] = found.get(group, 0) + parameter.numel()
    assert found == expected
    assert {*found, "input", "output"} == set(tiny.groups) - {"positions"}
    assert ("positions" in tiny.groups) is (tiny.positions > 0)


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
    made = backbone(name)
    ours = sum(parameter.numel() for parameter in build(made).parameters())
    assert ours + made.positions * made.width == total - unused


def test_tasks_longer_than_the_table_are_refused() -> None:
    run = spec(task="cifar10-lra", options={}, backbone="bert-base")
    with pytest.raises(FptError, match="1024 tokens, and backbone 'bert-base' takes at most 512"):
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
    loss = task.losses(model(batch, step=5), batch.targets).mean((1, 2))
    loss.sum().backward()
    assert rows.grads is not None
    columns = columns_of(rows).items()
    return loss.detach(), [{name: row[where] for name, where in columns} for row in rows.grads]


@pytest.mark.filterwarnings("ignore:grad and param do not obey")  # the loop's own business
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("family", TINY)
def test_packed_runs_are_single_runs(family: str, masked: bool, folder: Path) -> None:
    """Losses and gradients, with dropout, of runs that share a backbone of random values."""
    made = build(TINY[family]).to_empty(device="cpu")
    random_values(made)
    table = torch.randn(64, 16, generator=torch.Generator().manual_seed(2)).bfloat16().float()
    stored = made.state_dict() | {"positions": table, "encoder.unused": torch.zeros(1)}
    (folder / "weights").mkdir()
    save_file(stored, folder / "weights" / "model.safetensors")
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


@pytest.mark.parametrize("family", TINY)
def test_every_place_of_dropout_draws_its_own_mask(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = Draws()
    made = build(TINY[family], draws, 0.1).to_empty(device="cpu")
    random_values(made)
    assert all(module.p == 0 for module in made.modules() if isinstance(module, nn.Dropout))
    used: list[int] = []
    kept = Draws.kept
    monkeypatch.setattr(Draws, "kept", lambda self, site: used.append(site) or kept(self, site))
    assert len(draws.sites) == {"bert": 5, "longformer": 5, "t5-encoder": 6}.get(family, 4)
    draws.begin(0, (2, 7, 16), "cpu")
    x = torch.randn(2, 7, 16)
    first = made.train()(x)
    assert sorted(used) == list(range(len(draws.sites)))
    assert torch.equal(made(x), first)  # nothing else is random
    assert not torch.allclose(made.eval()(x), first)


@pytest.mark.parametrize("family", TINY)
@torch.no_grad()
def test_hidden_states_do_not_depend_on_padding(family: str) -> None:
    made = build(TINY[family]).to_empty(device="cpu").eval()
    random_values(made)
    x, other = torch.randn((2, 3, 30, 16), generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([[12], [20], [1]])
    mask = torch.arange(30) < lengths
    found = made(x, mask)
    padded = made(torch.where(mask[..., None], x, other * 50), mask)
    torch.testing.assert_close(found[mask], padded[mask], **CLOSE)
    for row, length in enumerate(lengths[:, 0].tolist()):
        alone = made(x[row : row + 1, :length])
        torch.testing.assert_close(found[row, :length], alone[0], **CLOSE)
    assert found.isfinite().all()
    assert not torch.allclose(made(x)[1], found[1])


# Rows of one matrix have its stride, and so have gradients: torch warns once a process (2026-11).
@pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout:UserWarning")
@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("masked", [False, True])
def test_backbones_run_in_bfloat16(family: str, masked: bool) -> None:
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


# ---------------------------------------------------------------------------- Longformer's window


@torch.no_grad()
def test_a_longformer_sees_its_window() -> None:
    """One layer, window 8: token 10 of 21 hears 6 to 14 and nothing else, and the first of 7 the
    next four."""
    made = build(replace(TINY["longformer"], layers=1)).to_empty(device="cpu").eval()
    random_values(made)
    x = torch.randn(1, 21, 16, generator=torch.Generator().manual_seed(4))
    for length, token, expected in ((21, 10, range(6, 15)), (7, 0, range(5))):
        heard = []
        for place in range(length):
            changed = x[:, :length].clone()
            changed[0, place] += 1
            changed[0, place, ::2] -= 3
            if not torch.allclose(made(changed)[0, token], made(x[:, :length])[0, token]):
                heard.append(place)
        assert heard == list(expected)
    mask = torch.arange(21) < torch.tensor([[3]])
    seen = made.visible(x, mask)  # queries far out in the padding still have a key: themselves
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
def test_the_plain_transformer_is_pytorchs() -> None:
    made = build(TINY["vanilla"]).to_empty(device="cpu").eval()
    random_values(made)
    x = torch.randn(3, 11, 16)
    mask = torch.arange(11) < torch.tensor([11, 4, 8])[:, None]
    expected = x
    for layer in made.layers:
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
    expected = made.last_norm(expected)
    torch.testing.assert_close(made(x, mask)[mask], expected[mask], **CLOSE)


@pytest.mark.parametrize("family", ["vanilla", "linformer"])
def test_the_encoders_are_initialised_as_in_lra(family: str) -> None:
    """Matrices uniform within sqrt(6 / (rows + columns)), gains 1, biases 0."""
    made = build(TINY[family]).to_empty(device="cpu")
    with torch.no_grad():
        FAMILIES[family].init_(made, torch.Generator().manual_seed(0))
    for name, parameter in made.named_parameters():
        if parameter.dim() == 2:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name
        else:
            assert parameter.eq(float(name.endswith("norm.weight"))).all(), name


# --------------------------------------------------------------------------- causality, controls

CONTROLS = {
    "split": Backbone("split-tiny", "gpt2-unfused", 2, 16, 2, 64),
    "fixed": Backbone("fixed-tiny", "gpt2-unfused", 2, 16, 2, 64, fixed=True),
    "attention": Backbone("attention-tiny", "gpt2-unfused", 1, 16, 2, 64, feedforward=False),
    "last-token": Backbone("last-token-tiny", "last-token", 0, 16),
    "mean-token": Backbone("mean-token-tiny", "mean-token", 0, 16),
    "gpt2": Backbone("gpt2-tiny", "gpt2", 2, 16, 2, 64),
    "lstm": Backbone("lstm-tiny", "lstm", 2, 16),
}


def ready(architecture: Backbone) -> nn.Module:
    """With random values, in evaluation mode."""
    made = build(architecture).to_empty(device="cpu").eval()
    random_values(made)
    return made


@pytest.mark.parametrize("name", CONTROLS)
@torch.no_grad()
def test_a_causal_backbone_hears_what_came_before_and_nothing_else(name: str) -> None:
    made = ready(CONTROLS[name])
    assert CONTROLS[name].causal
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(5))
    before = made(x)
    for place in (0, 4, 8):
        changed = x.clone()
        changed[:, place] += torch.linspace(-1, 1, 16)
        moved = (made(changed) - before).abs().amax((0, 2)) > 1e-5
        after = [False] * place + [True] * (9 - place)
        if name == "last-token":
            after = [other == place for other in range(9)]
        assert moved.tolist() == after
    read = torch.tensor([[2, 8], [0, 5]])
    rows = torch.arange(2)[:, None]
    torch.testing.assert_close(made(x, None, read), before[rows, read], **CLOSE)


@torch.no_grad()
def test_without_a_transformer_the_last_token_or_the_mean_so_far_is_left() -> None:
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(6))
    assert torch.equal(build(CONTROLS["last-token"])(x), x)
    found = build(CONTROLS["mean-token"])(x)
    for place in range(5):
        torch.testing.assert_close(found[:, place], x[:, : place + 1].mean(1), **CLOSE)


def test_fixed_attention_starts_with_queries_and_keys_of_unit_size() -> None:
    made = build(CONTROLS["fixed"]).to_empty(device="cpu")
    with torch.no_grad():
        FAMILIES["gpt2-unfused"].init_(made, torch.Generator().manual_seed(0))
    for layer in made.layers:
        for table in (layer.attention.query, layer.attention.key):
            assert table.std().item() == pytest.approx(1, rel=0.1)
        assert layer.attention.value.weight.std().item() == pytest.approx(0.02, rel=0.2)


@torch.no_grad()
def test_fixed_attention_by_hand() -> None:
    """One head of width 2 over 3 tokens: weights from the table of positions, values from the
    tokens."""
    attention = Attention(Backbone("by hand", "gpt2-unfused", 1, 2, 1, positions=4, fixed=True))
    for layer in (attention.value, attention.out):
        layer.weight.copy_(torch.eye(2))
        layer.bias.zero_()
    # The fourth position is beyond the sequence.
    attention.query.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [9.0, 9.0]]))
    attention.key.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [9.0, 9.0]]))
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]])
    second = (torch.tensor([0.0, 2.0]) / 2**0.5).softmax(0)
    third = (torch.tensor([1.0, 2.0, 3.0]) / 2**0.5).softmax(0)
    expected = torch.stack([x[0, 0], second @ x[0, :2], third @ x[0]])
    torch.testing.assert_close(attention(x)[0], expected)
