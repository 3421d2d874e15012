"""The critics' controls: no transformer, GPT-2 taken apart, fixed attention, another order."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import pretrained, spec, task_of
from torch import Tensor

from fpt.backbones import BACKBONES, Backbone, backbone, build, group_of
from fpt.backbones.gpt2 import GPT2Body
from fpt.backbones.layers import Draws
from fpt.backbones.no_transformer import LastToken, MeanToken
from fpt.backbones.pre_norm import Attention, causal_probabilities
from fpt.config import load, make_spec
from fpt.files import FptError
from fpt.sections.arms import ARMS
from fpt.spec import RunSpec
from fpt.tasks import get_task
from fpt.training.flops import matrix_parameters, parameter_counts
from fpt.training.loop import Loop
from fpt.training.model import assemble, backbone_identity, shuffled
from fpt.training.sweep import packs

CPU = torch.device("cpu")
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZE = (2, 16, 2, 64)  # layers, width, heads, positions: those of `tiny`
TINY = (
    Backbone("last-tiny", "last-token", 0, 16),
    Backbone("mean-tiny", "mean-token", 0, 16),
    Backbone("attention-tiny", "gpt2-unfused", 1, *SIZE[1:], feedforward=False),
    Backbone("split-tiny", "gpt2-unfused", *SIZE),
    Backbone("fixed-tiny", "gpt2-unfused", *SIZE, fixed=True),
)
NETS = ("input", "output")
PARTS = ("attention", "feedforward", "input", "layernorm", "output", "positions")


@pytest.fixture(autouse=True)
def bodies(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in TINY:
        monkeypatch.setitem(BACKBONES, body.name, body)  # type: ignore[call-overload]


def run_of(body: str, **changes: object) -> RunSpec:
    trainable = NETS if body in ("last-tiny", "mean-tiny") else ("input", "layernorm", "output")
    return spec(**{"backbone": body, "trainable": trainable, **changes})


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LAST, MEAN = (kind(TINY[0], Draws(), 0.0) for kind in (LastToken, MeanToken))


def trained(run: RunSpec) -> Loop:
    loop = Loop([run], task_of(run), CPU)
    loop.run()
    return loop


# ---------------------------------------------------------------------------------- no transformer


def test_the_last_token_is_the_identity() -> None:
    x, read = vectors(3, 5, 4), torch.tensor([[4], [0], [2]])
    assert LAST(x) is x
    assert torch.equal(LAST(x, None, read)[:, 0], x[torch.arange(3), read[:, 0]])


def test_the_mean_is_over_the_tokens_so_far() -> None:
    x, read = vectors(3, 5, 4), torch.tensor([[4], [0], [2]])
    means = MEAN(x, None, read)
    for row, (place,) in enumerate(read.tolist()):
        torch.testing.assert_close(means[row, 0], x[row, : place + 1].mean(0), **CLOSE)
    torch.testing.assert_close(MEAN(x)[:, -1], x.mean(1), **CLOSE)
    later = x.clone()
    later[2, 3:] = 9.0  # padding after the token read is not heard
    torch.testing.assert_close(MEAN(later, None, read)[2], means[2], **CLOSE)


def test_without_a_transformer_there_are_two_nets() -> None:
    task = get_task("bit-xor", n=2)
    for name in ("last-token-nano", "mean-token-nano"):
        body = backbone(name)
        assert body.groups == ("output", "input")
        assert not list(build(body).parameters())
        assert set(parameter_counts(body, task)) == set(NETS)
        assert matrix_parameters(body) == 0
        assert body.width == backbone("nano").width
    with pytest.raises(
        FptError, match="trainable group of last-tiny: .layernorm. .*allowed are output, input"
    ):
        assemble([run_of("last-tiny", trainable=("layernorm", "output"))], task, CPU)


@pytest.mark.parametrize("body", ["last-tiny", "mean-tiny"])
def test_without_a_transformer_bit_xor_is_chance(body: str) -> None:
    """One bit of a pair says nothing, and a linear map of both cannot tell their XOR. By the last
    token alone accuracy is a half to the bit, whatever is learned."""
    loop = trained(run_of(body, lr=0.1, steps=60, eval_every=6, dropout=0.0))
    accuracy = loop.progress[0].metrics["test_accuracy"]
    assert accuracy == 0.5 if body == "last-tiny" else 0.25 <= accuracy <= 0.75


def test_a_linear_task_needs_no_transformer() -> None:
    """The same nets do learn: what is read is the sign of a token (visible bits of bit-memory)."""
    options = {"n": 4, "patterns": 1, "patch": 4, "valid": 64, "test": 64}
    run = run_of("last-tiny", task="bit-memory", options=options, lr=0.1, steps=100, eval_every=10)
    assert trained(run).progress[0].metrics["test_accuracy"] > 0.7


# -------------------------------------------------------------------------------- GPT-2 taken apart


def from_gpt2(gpt2: GPT2Body) -> dict[str, Tensor]:
    """The values of a GPT-2 body by the names of the split one."""
    names = {
        "ln_1": "attention_norm", "attn.c_proj": "attention.out", "ln_2": "feedforward_norm",
        "mlp.c_fc": "feedforward.0", "mlp.c_proj": "feedforward.2",
    }  # fmt: skip
    found = {}
    for name, value in gpt2.gpt2.named_parameters():
        part, kind = name.rpartition(".")[::2]
        turned = value.T if value.dim() == 2 else value  # GPT-2 keeps matrices as (in, out)
        if part == "ln_f":
            found[f"last_norm.{kind}"] = value
            continue
        _, layer, rest = part.split(".", 2)
        if rest == "attn.c_attn":
            for each, piece in zip(("query", "key", "value"), turned.chunk(3), strict=True):
                found[f"layers.{layer}.attention.{each}.{kind}"] = piece
        else:
            found[f"layers.{layer}.{names[rest]}.{kind}"] = turned
    return found


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@torch.no_grad()
def test_the_split_body_is_gpt2(dropout: float) -> None:
    """The same numbers from the same weights, in training with the same dropout masks too."""
    draws = [Draws(), Draws()]
    gpt2 = build(backbone("tiny"), draws[0], dropout).to_empty(device="cpu")
    for seed, parameter in enumerate(gpt2.parameters()):
        parameter.copy_(0.3 * vectors(*parameter.shape, seed=seed))
    split = build(backbone("split-tiny"), draws[1], dropout).to_empty(device="cpu")
    assert isinstance(gpt2, GPT2Body)
    split.load_state_dict(from_gpt2(gpt2))
    x, read = vectors(6, 7, 16), torch.tensor([[6], [0], [3], [2], [6], [5]])
    for training in (False, True):
        for body, own in ((gpt2, draws[0]), (split, draws[1])):
            body.train(training)
            own.begin([0], 3, (6, 7, 16), "cpu")
        for at in (None, read):
            torch.testing.assert_close(split(x, None, at), gpt2(x, None, at), **CLOSE)


def test_every_parameter_is_in_the_group_of_its_name() -> None:
    for body in TINY[2:]:
        groups: dict[str, set[str]] = {}
        for name, _ in build(body).named_parameters():
            groups.setdefault(group_of(body, name), set()).add(name)
        assert groups["query-key"] == {
            f"layers.{layer}.attention.{part}{kind}"
            for layer in range(body.layers)
            for part in ("query", "key")
            for kind in ([""] if body.fixed else [".weight", ".bias"])
        }
        parts = {name.split(".")[-2] for name in groups["attention"]}
        assert parts == {"value", "out"}
        assert ("feedforward" in groups) is body.feedforward
        assert set(groups) | {"input", "output", "positions"} == set(body.groups)


@pytest.mark.parametrize("body", ["split-tiny", "fixed-tiny"])
def test_queries_and_keys_stay_as_they_were_drawn(body: str) -> None:
    run = run_of(body, trainable=PARTS)
    loop = Loop([run], task_of(run), CPU)
    before = {name: p.detach().clone() for name, p in loop.model.backbone.named_parameters()}
    for _ in range(3):
        loop.train_step()
    for name, value in loop.model.backbone.named_parameters():
        frozen = ".query" in name or ".key" in name
        assert torch.equal(value, before[name]) is frozen, name


def test_one_attention_layer_has_nothing_else() -> None:
    body = build(backbone("attention-nano"))
    width = backbone("nano").width
    assert matrix_parameters(backbone("attention-nano")) == 4 * width**2
    assert sum(p.numel() for p in body.parameters()) == 4 * (width**2 + width) + 4 * width


# ---------------------------------------------------------------------------------- fixed attention


def attention(kind: str) -> Attention:
    made = Attention(backbone(f"{kind}-tiny"))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
    return made


def test_fixed_attention_does_not_hear_the_tokens() -> None:
    """So it mixes them linearly."""
    one, other = vectors(3, 9, 16, seed=1), vectors(3, 9, 16, seed=2)
    for made, linear in ((attention("fixed"), True), (attention("split"), False)):
        mixed = made(one + other)
        apart = made(one) + made(other) - made(torch.zeros_like(one))
        assert torch.allclose(mixed, apart, atol=1e-3) is linear
        torch.testing.assert_close(made(one[:, :5]), made(one)[:, :5])
    weights = causal_probabilities(*torch.randn(2, 3, 2, 9, 8))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 9), **CLOSE)
    assert weights.triu(1).eq(0).all()


def test_fixed_attention_is_drawn_anew_for_each_seed() -> None:
    def drawn(seed: int) -> Tensor:
        run = run_of("fixed-tiny", seed=seed, trainable=("output",))
        body = assemble([run], task_of(run), CPU)[0].backbone
        return torch.cat([body.layers[0].attention.query, body.layers[0].attention.key])

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.allclose(drawn(0), drawn(1))
    assert drawn(0).std() == pytest.approx(1.0, abs=0.1)


# -------------------------------------------------------------------------------------------- packs


@pytest.mark.parametrize("body", [body.name for body in TINY])
def test_packed_runs_are_single_runs(body: str) -> None:
    runs = [run_of(body, lr=0.01), run_of(body, lr=0.1, trainable=("output",))]
    assert packs(runs) == [tuple(runs)]
    together = Loop(runs, task_of(runs[0]), CPU)
    alone = [Loop([run], task_of(run), CPU) for run in runs]
    for _ in range(3):
        for loop in (together, *alone):
            loop.train_step()
    columns = together.rows.columns()
    for row, loop in zip(together.rows.values, alone, strict=True):
        for name, where in loop.rows.columns().items():
            found, expected = row[columns[name]], loop.rows.values[0][where]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------- shuffled tokens


def moved(seeds: Sequence[int], reads: int, last: Tensor | None, dim: int = 0) -> Tensor:
    """Where the tokens of 4 examples of 10 come from."""
    shape = (len(seeds), 4, 10)
    inputs = torch.arange(10).expand(shape)
    if dim:
        inputs = inputs[..., None].expand(*shape, dim).float()
    return shuffled(inputs, last, reads, seeds)


def test_the_tokens_before_those_read_change_places() -> None:
    found = moved([0, 1], 3, None)
    assert torch.equal(found.sort(-1).values, torch.arange(10).expand(2, 4, 10))
    assert torch.equal(found[..., 7:], torch.arange(7, 10).expand(2, 4, 3))
    assert not torch.equal(found[0, 0], torch.arange(10))
    assert found.unique(dim=1).shape[1] == 1  # all examples alike
    assert not torch.equal(found[0], found[1])  # another order per run
    assert torch.equal(moved([1], 3, None)[0], found[1])  # alone as in company
    assert torch.equal(moved([0, 1], 3, None, dim=2)[..., 1].long(), found)


def test_padding_stays_at_the_end() -> None:
    last = torch.tensor([[9, 4, 0, 6]])
    found = moved([0, 1], 1, last)
    for example, place in enumerate(last[0].tolist()):
        rest = torch.arange(place, 10)
        assert torch.equal(found[:, example, place:], rest.expand(2, -1))
    whole = moved([0], 1, None)[0, 0]
    kept = whole[whole < 6]
    assert torch.equal(found[0, 3, :6], kept)  # the same order among those there are


def test_a_shuffled_run_is_a_run_of_its_own() -> None:
    plain = pretrained(options={"n": 8})
    other = replace(plain, order="shuffled")
    assert plain.key == replace(plain, order="given").key != other.key
    assert backbone_identity(plain) != backbone_identity(other)
    assert len(packs([plain, other])) == 2
    batch = task_of(plain).train_batch([0], 0, 8, CPU)
    models = [assemble([run], task_of(run), CPU)[0].eval() for run in (plain, other)]
    for model in models:
        model.draws.seeds = (0,)
    order = shuffled(batch.inputs, None, 8, [0])
    torch.testing.assert_close(models[1](batch), models[0](replace(batch, inputs=order)))
    assert not torch.allclose(models[0](batch), models[1](batch))
    with pytest.raises(FptError, match="order of the tokens: .sorted. .*allowed are given, sh"):
        assemble([pretrained(order="sorted")], task_of(plain), CPU)


def test_the_arms_of_the_project() -> None:
    profile = load("smoke")
    specs = {name: make_spec(profile, ARMS[name], "digits", 0) for name in ARMS if name in (
        "no-transformer-last", "no-transformer-mean", "random-attention", "random-output+input",
        "fpt-shuffled", "full-frozen-qk", "full-fixed", "full", "fpt",
    )}  # fmt: skip
    assert replace(specs["fpt-shuffled"], order="given") == specs["fpt"]
    assert specs["random-output+input"].trainable == NETS == specs["no-transformer-mean"].trainable
    frozen = set(specs["full"].trainable) ^ set(backbone("split-nano").groups)
    assert frozen == {"query-key"}
    for arm in ("full-frozen-qk", "full-fixed"):
        assert "query-key" not in specs[arm].trainable
