"""The model: transformers' GPT-2 inside, the paper's parameters around it, frozen means frozen."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny import TINY, WEIGHTS, columns_of, pretrained, spec, task_of
from torch import Tensor
from transformers import GPT2LMHeadModel

from fpt.backbones import BACKBONES, backbone, build, group_of
from fpt.files import FptError
from fpt.sections.arms import FROZEN
from fpt.spec import RunSpec
from fpt.tasks import Batch, get_task
from fpt.training.device import round_frozen
from fpt.training.flops import packable, parameter_counts
from fpt.training.loop import Loop
from fpt.training.model import ORDERS, assemble, shuffled
from fpt.training.packing import INPUT_GAIN

CPU = torch.device("cpu")


@pytest.fixture
def published(tiny) -> GPT2LMHeadModel:
    """The model whose weights `pretrained` runs start from, as transformers computes it."""
    model = GPT2LMHeadModel.from_pretrained(tiny / "backbones" / WEIGHTS)
    return model.eval()


def eval_batch(length: int, rows: int = 3, **fields: Tensor) -> Batch:
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(1, rows, length, 1, generator=draw)
    return Batch(inputs, torch.zeros(1, rows, 1, dtype=torch.long), **fields)


@torch.no_grad()
def test_hidden_states_are_those_of_transformers(published: GPT2LMHeadModel) -> None:
    """In full, at the n positions read by bit-xor, at one, and at a different one per row."""
    run = pretrained(options={"n": 8})
    model, _, _ = assemble([run], task_of(run), CPU)
    model.eval()
    batch = eval_batch(16)
    vectors = model.input(batch.inputs)[0]
    expected = published.transformer(inputs_embeds=vectors).last_hidden_state
    assert expected.std() > 0.1
    x = vectors + model.positions[0, :16]
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(model.backbone(x), expected, **close)
    for reads in (1, 8, 16):
        read = torch.arange(16 - reads, 16).expand(3, -1)
        torch.testing.assert_close(model.backbone(x, None, read), expected[:, -reads:], **close)
    last = torch.tensor([[3], [15], [0]])
    torch.testing.assert_close(
        model.backbone(x, None, last), expected[torch.arange(3)[:, None], last], **close
    )
    torch.testing.assert_close(model(batch)[0], model.output(expected[None, :, -8:])[0], **close)


@torch.no_grad()
def test_the_last_real_token_is_read_whatever_follows(published: GPT2LMHeadModel) -> None:
    run = pretrained(options={"n": 8})
    model, _, _ = assemble([run, replace(run, seed=1)], task_of(run), CPU)
    model.eval()
    last = torch.tensor([[3, 15, 0]])
    mask = torch.arange(16) <= last[..., None]
    batch = eval_batch(16, last=last, mask=mask)
    logits = model(batch)
    assert logits.shape == (2, 3, 1, 2)
    other = replace(batch, inputs=batch.inputs.where(mask[..., None], 9.0))
    assert not torch.equal(other.inputs, batch.inputs)
    torch.testing.assert_close(model(other), logits, rtol=0, atol=1e-6)
    for row, stop in enumerate(last[0].tolist()):
        vectors = model.input(batch.inputs[:, row : row + 1, : stop + 1].expand(2, -1, -1, -1))
        for run_index in range(2):
            hidden = published.transformer(inputs_embeds=vectors[run_index]).last_hidden_state
            torch.testing.assert_close(
                logits[run_index, row, 0],
                hidden[0, -1] @ model.output.weight[run_index].T + model.output.bias[run_index],
                rtol=1e-5,
                atol=1e-5,
            )


@torch.no_grad()
def test_positions_are_counted_from_the_first_token_however_far_a_batch_is_padded(tiny) -> None:
    run = pretrained(options={"n": 8})
    model, _, _ = assemble([run], task_of(run), CPU)
    last = torch.tensor([[3, 9, 0]])
    batch = eval_batch(16, last=last, mask=torch.arange(16) <= last[..., None])
    short = replace(batch, inputs=batch.inputs[:, :, :10], mask=batch.mask[..., :10])
    expected = model.eval()(batch)
    assert expected.std() > 0.1
    torch.testing.assert_close(model(short), expected, rtol=1e-5, atol=1e-5)


def test_the_shortcut_of_the_last_block_has_the_gradients_of_the_whole(tiny) -> None:
    """In training too: dropout falls on the positions read as it would on all."""
    run = pretrained(
        options={"n": 3},
        dropout=0.2,
        trainable=("attention", "feedforward", "input", "layernorm", "output", "positions"),
    )
    found = []
    for whole in (False, True):
        model, rows, _ = assemble([run], task_of(run), CPU)
        if whole:
            shortcut = model.backbone.forward
            model.backbone.forward = lambda x, mask, read, full=shortcut: full(x).gather(
                1, read[..., None].expand(-1, -1, x.shape[-1])
            )
        batch = task_of(run).train_batch([0], 0, 8, CPU)
        model.train()
        logits = model(batch)
        logits.square().sum().backward()
        found.append((logits.detach(), rows.grads))
    torch.testing.assert_close(*(logits for logits, _ in found), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(*(grads for _, grads in found), rtol=1e-4, atol=1e-4)
    assert found[0][1].abs().max() > 1


# -------------------------------------------------------------------------- order of the tokens


@pytest.mark.parametrize("kind", ["token", "vector"])
def test_shuffled_tokens_are_those_before_the_ones_that_are_read(kind: str) -> None:
    """One order for each run and length; what is read, and padding after it, keeps its place."""
    places = torch.arange(12).expand(2, 3, -1)
    inputs = places if kind == "token" else torch.stack([places, 100 - places], -1)
    for last in (None, torch.tensor([[8, 11, 8]])):
        first = [9, 9, 9] if last is None else last[0].tolist()
        found = shuffled(inputs, last, 3, (4, 5))
        assert found.shape == inputs.shape
        if kind == "vector":
            assert torch.equal(found.sum(-1), torch.full((2, 3, 12), 100))  # vectors as wholes
            found = found[..., 0]
        for row, start in enumerate(first):
            assert torch.equal(found[:, row, start:], places[:, row, start:])
            for order in found[:, row, :start].tolist():
                assert sorted(order) == [*range(start)] != order
        assert torch.equal(found[:, 0], found[:, 2])
        assert not torch.equal(found[0], found[1])
        assert torch.equal(shuffled(inputs, last, 3, (5,))[0], shuffled(inputs, last, 3, (4, 5))[1])


@torch.no_grad()
def test_a_shuffled_run_reads_its_tokens_in_another_order(tiny) -> None:
    runs = [pretrained(options={"n": 8}, order=order, seed=3) for order in ORDERS]
    plain, other = (assemble([run], task_of(run), CPU)[0].eval() for run in runs)
    batch = eval_batch(16)
    moved = replace(batch, inputs=shuffled(batch.inputs, None, 8, (3,)))
    assert torch.equal(other(batch), plain(moved))
    assert not torch.allclose(other(batch), plain(batch))


# -------------------------------------------------------------------------- groups and counts


def both(*names: str) -> list[str]:
    return [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]


LSTM_NORMS = both(*(f"layers.#.{part}_norm" for part in ("input", "hidden", "cell")))
GATES = both("layers.#.from_input", "layers.#.from_hidden")
NAMES = {
    "gpt2": {
        "layernorm": both("ln_f", "h.#.ln_1", "h.#.ln_2"),
        "attention": both("h.#.attn.c_attn", "h.#.attn.c_proj"),
        "feedforward": both("h.#.mlp.c_fc", "h.#.mlp.c_proj"),
    },
    "lstm": {"layernorm": LSTM_NORMS, "recurrent": ["layers.#.bias", *GATES]},
    "lstm-released": {"layernorm": LSTM_NORMS, "recurrent": GATES},
}
FAMILIES_HERE = [name for name, each in BACKBONES.items() if each.family in NAMES]


@pytest.mark.parametrize("name", [*FAMILIES_HERE, *(each.name for each in TINY)])
def test_every_parameter_is_in_the_group_of_its_name(name: str, tiny) -> None:
    spec = backbone(name)
    prefix = "gpt2." if spec.family == "gpt2" else ""
    expected = {
        prefix + pattern.replace("#", str(layer)): group
        for group, patterns in NAMES[spec.family].items()
        for pattern in patterns
        for layer in (range(spec.layers) if "#" in pattern else [0])
    }
    found = dict(build(spec).named_parameters())
    assert {full: group_of(spec, full) for full in found} == expected
    assert all(parameter.is_meta for parameter in found.values())
    assert set(expected.values()) | {"input", "output"} == set(spec.groups) - {"positions"}
    assert ("positions" in spec.groups) is (spec.positions > 0)


@pytest.mark.parametrize("family", ["tiny", "lstm-tiny", "lstm-released-tiny"])
def test_trained_parameters_are_those_of_the_groups_named(family: str, tiny) -> None:
    network = backbone(family)
    task = get_task("bit-xor", n=2)
    counts = parameter_counts(network, task)
    names = {full: group_of(network, full) for full, _ in build(network).named_parameters()}
    own = {"input": ["input.weight", "input.bias"], "output": ["output.weight", "output.bias"]}
    own |= {"positions": ["positions"]} if network.positions else {}
    for group in network.groups:
        run = spec(backbone=family, trainable=(group,))
        model, rows, fixed = assemble([run], task, CPU)
        expected = own.get(group) or [f"backbone.{n}" for n, g in names.items() if g == group]
        assert sorted(columns_of(rows)) == sorted(expected)
        assert rows.values.shape == (1, counts[group])
        trained = {n for n, p in model.named_parameters() if p.requires_grad}
        assert trained == set(expected)
        assert sorted(columns_of(fixed)) == sorted(
            name for other, listed in own.items() if other != group for name in listed
        )


@pytest.mark.parametrize(
    ("name", "printed"),
    [("gpt2", 106_752), ("gpt2-medium", 191_488), ("gpt2-large", 300_800), ("gpt2-xl", 452_800)],
)
def test_the_papers_counts(name: str, printed: int) -> None:
    """Table 8 counts tokens of 16 numbers, no output bias and no final norm."""
    network = backbone(name)
    ours = parameter_counts(network, get_task("mnist"))  # 64 tokens of 16: the shape that it counts
    output_bias, final_norm = 10, 2 * network.width
    assert sum(ours[group] for group in FROZEN) - output_bias - final_norm == printed


@pytest.mark.parametrize(
    ("task", "options", "released"),
    [
        ("cifar10", {}, 132_874),
        ("bit-xor", {"n": 5}, 49_154),
        ("mnist", {"size": 28}, 96_778),
        ("listops", {"variant": "released"}, 450_826),
        ("bit-memory", {}, 246_628),
        # The released homology model has 1,200 classes; the data have 1,195 folds.
        ("homology", {"padding": "released"}, 1_770_672 - 5 * (768 + 1)),
    ],
)
def test_parameters_that_get_a_gradient_as_in_the_released_code(
    task: str, options: dict[str, object], released: int
) -> None:
    counts = parameter_counts(backbone("gpt2"), get_task(task, **options))
    assert sum(counts[group] for group in FROZEN) == released


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"n": 40}}, "'bit-xor' has sequences of 80 tokens, .*'tiny' .*most 64"),
        ({"trainable": ("input", "norms")}, "group of tiny: 'norms' .*allowed are output, "),
        ({"backbone": "lstm-tiny"}, "trainable group of lstm-tiny: 'positions'"),
        (
            {"backbone": "lstm-tiny", "trainable": ("last-attention",)},
            "trainable group of lstm-tiny: 'last-attention'",
        ),
        ({"input_init": "ones"}, "initialisation of the input net: 'ones' is not known"),
    ],
    ids=["too long", "unknown group", "no positions", "no attention", "unknown values"],
)
def test_what_fits_no_backbone(changes: dict[str, Any], said: str, tiny) -> None:
    run = spec(**changes)
    with pytest.raises(FptError, match=said):
        assemble([run], task_of(run), CPU)


LAST = [f"backbone.gpt2.h.1.attn.{name}" for name in both("c_attn", "c_proj")]


def test_the_last_attention_layer_is_a_part_of_its_own(tiny) -> None:
    run = spec(trainable=("feedforward", "last-attention", "output"))
    model, rows, _ = assemble([run], task_of(run), CPU)
    assert [part.name for part in rows.slices if part.group == "last-attention"] == LAST
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name in trained if ".attn." in name} == set(LAST)
    network, task = backbone("tiny"), task_of(run)
    counts = parameter_counts(network, task)
    last = counts["attention"] // network.layers
    assert rows.values.shape[1] == counts["output"] + counts["feedforward"] + last
    assert not packable(run)
    assert "last-attention" not in network.groups  # a part, so that no sum counts it twice


# ----------------------------------------------------------------------------------- training


def state(loop: Loop) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in loop.model.named_parameters()}


@pytest.mark.parametrize(
    "run",
    [
        pretrained(),
        spec(trainable=("layernorm",)),
        spec(trainable=("input", "output", "positions")),
        spec(trainable=("attention", "output")),
        spec(backbone="lstm-tiny", trainable=("input", "output", "recurrent")),
        spec(backbone="lstm-released-tiny", trainable=("layernorm",)),
    ],
    ids=lambda run: f"{run.backbone} {'-'.join(run.trainable)}",
)
def test_training_changes_the_groups_named_and_not_one_bit_beside_them(run: RunSpec, tiny) -> None:
    loop = Loop([run], task_of(run), CPU)
    before = state(loop)
    for _ in range(3):
        loop.train_step()
    after = state(loop)
    network = backbone(run.backbone)
    for name, value in after.items():
        own = name.split(".")[0]
        group = group_of(network, name) if own == "backbone" else own
        if group in run.trainable:
            moved = (value != before[name]).double().mean()
            # Not all: the biases of the keys shift all scores of a query alike.
            assert moved > 0.5, name
        else:
            assert torch.equal(value, before[name]), name
            assert value.grad is None, name


def test_nets_start_as_in_the_released_code(tiny) -> None:
    run = spec("cifar10", {}, backbone="nano", trainable=("input", "output"))
    model, rows, _ = assemble([run, replace(run, seed=1)], task_of(run), CPU)
    for weight in model.input.weight:  # (128, 48): orthogonal columns
        gram = weight.T @ weight
        torch.testing.assert_close(gram, INPUT_GAIN**2 * torch.eye(48), rtol=0, atol=1e-5)
    assert model.input.bias.eq(0).all()
    bound = 1 / 128**0.5
    for parameter in (model.output.weight, model.output.bias):
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.7 * bound
    first, second = rows.values
    assert not torch.equal(first, second)


def test_initial_values_depend_on_the_seed_and_not_on_what_is_trained(tiny) -> None:
    one, other = spec(seed=4), spec(seed=4, trainable=("output",), lr=0.5, batch=3)
    model, _, _ = assemble([one], task_of(one), CPU)
    again, _, _ = assemble([other], task_of(other), CPU)
    values = dict(again.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.flatten(), values[name].flatten()), name


def test_dropout_falls_on_linear_input_nets_and_on_no_embedding(tiny) -> None:
    options = {"max_length": 30, "train": 60, "valid": 20, "test": 30}
    for run, dropped in ((spec(), True), (spec("listops", options), False)):
        model, _, _ = assemble([replace(run, dropout=0.5)], task_of(run), CPU)
        model.draws.begin(0, (2, task_of(run).length, model.width), CPU)
        x = torch.ones(2, task_of(run).length, model.width)
        assert bool((model.train().drop(x) == 0).any()) is dropped


def test_bodies_kept_in_bf16_compute_what_autocast_computes(tiny) -> None:
    run = pretrained(dropout=0.0)
    loops = [Loop([run], task_of(run), CPU) for _ in range(2)]
    round_frozen(loops[1].model.backbone)
    dtypes = {name: it.dtype for name, it in loops[1].model.backbone.named_parameters()}
    assert {it for name, it in dtypes.items() if ".ln_" not in name} == {torch.bfloat16}
    assert {it for name, it in dtypes.items() if ".ln_" in name} == {torch.float32}
    batch = loops[0].task.train_batch([0], 0, 8, CPU)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        one, other = (loop.model.eval()(batch) for loop in loops)
    assert torch.equal(one, other)
