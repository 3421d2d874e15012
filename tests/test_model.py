"""The model: transformers' GPT-2 inside, the paper's parameters around it, frozen means frozen."""

from dataclasses import replace

import pytest
import torch
from tiny import (
    FULL,
    WEIGHTS,
    assembled,
    close,
    loop_of,
    pretrained,
    spec,
    task_of,
)
from transformers import GPT2LMHeadModel

from fpt.backbones import backbone, group_of
from fpt.errors import FptError
from fpt.spec import FOUR_GROUPS
from fpt.tasks import Batch, get_task
from fpt.tasks.rng import ORDERS, shuffled
from fpt.training.flops import packable, parameter_counts

EIGHT_BITS = {"n": 8}
LISTOPS = {"max_length": 30, "train": 60, "valid": 20, "test": 30}


@pytest.fixture
def published(tiny):
    """The model whose weights `pretrained` runs start from, as transformers computes it."""
    return GPT2LMHeadModel.from_pretrained(tiny / "backbones" / WEIGHTS).eval()


def eval_batch(length=16, **fields):
    inputs = torch.randn(1, 3, length, 1, generator=torch.Generator().manual_seed(1))
    return Batch(inputs, torch.zeros(1, 3, 1, dtype=torch.long), **fields)


@torch.no_grad()
def test_hidden_states_are_those_of_transformers(published):
    """In full, at the n positions read by bit-xor, at one, and at a different one per row."""
    model = assembled(pretrained(options=EIGHT_BITS))[0].eval()
    batch = eval_batch()
    vectors = model.input(batch.inputs)[0]
    expected = published.transformer(inputs_embeds=vectors).last_hidden_state
    assert expected.std() > 0.1
    x = vectors + model.positions[0, :16]
    close(model.backbone(x), expected)
    for reads in (1, 8, 16):
        read = torch.arange(16 - reads, 16).expand(3, -1)
        close(model.backbone(x, None, read), expected[:, -reads:])
    last = torch.tensor([[3], [15], [0]])
    close(model.backbone(x, None, last), expected[torch.arange(3)[:, None], last])
    close(model(batch)[0], model.output(expected[None, :, -8:])[0])


# Padding depends on the other sequences of a batch, so any influence makes a run depend on its
# company.
@torch.no_grad()
def test_the_last_real_token_is_read_whatever_follows(published):
    run = pretrained(options=EIGHT_BITS)
    model = assembled(run, replace(run, seed=1))[0].eval()
    last = torch.tensor([[3, 9, 0]])
    mask = torch.arange(16) <= last[..., None]
    batch = eval_batch(last=last, mask=mask)
    logits = model(batch)
    assert logits.shape == (2, 3, 1, 2)
    changed = replace(batch, inputs=batch.inputs.where(mask[..., None], 9.0))
    close(model(changed), logits, 0, 1e-6)
    # Positions are counted from the first token, however far a batch is padded.
    short = replace(batch, inputs=batch.inputs[:, :, :10], mask=mask[..., :10])
    close(model(short), logits)
    for row, stop in enumerate(last[0].tolist()):
        vectors = model.input(batch.inputs[:, row : row + 1, : stop + 1].expand(2, -1, -1, -1))
        for index in range(2):
            hidden = published.transformer(inputs_embeds=vectors[index]).last_hidden_state[0, -1]
            expected = hidden @ model.output.weight[index].T + model.output.bias[index]
            close(logits[index, row, 0], expected)


def test_the_shortcut_of_the_last_block_has_the_gradients_of_the_whole(tiny):
    """In training too: dropout falls on the positions read as it would on all."""
    run = pretrained(options={"n": 3}, dropout=0.2, trainable=FULL)
    logits, gradients = [], []
    for short_cut in (True, False):
        model, rows, _ = assembled(run)
        if not short_cut:
            full = model.backbone.forward
            model.backbone.forward = lambda x, mask, read, full=full: full(x).gather(
                1, read[..., None].expand(-1, -1, x.shape[-1])
            )
        logits.append(model.train()(task_of(run).train_batch([0], 0, 8, "cpu")))
        rows.differentiate(logits[-1].square().sum())
        gradients.append(rows.grads)
    close(*logits)
    close(*gradients, rtol=1e-4, atol=1e-4)
    assert gradients[0].abs().max() > 1


# Seeds once came with the first training batch, so the first call of a new model failed.
@pytest.mark.parametrize("name", ["tiny", "lstm-tiny", "lstm-released-tiny", "t5-encoder-pico"])
@pytest.mark.parametrize("training", [True, False])
def test_an_assembled_model_can_be_called_at_once(name, training, tiny):
    """Its draws are keyed by the seeds of its runs, by the step and by the examples."""
    run = spec(backbone=name, trainable=("input", "output"), order="shuffled", seed=3)
    model = assembled(run, replace(run, seed=4))[0].train(training)
    batch = task_of(run).train_batch([3, 4], 0, 8, "cpu")
    logits = model(batch)
    assert torch.equal(model(batch), logits)
    assert torch.equal(model(batch, step=1), logits) is not training
    assert model.seeds == (3, 4)


# -------------------------------------------------------------------------- order of the tokens


@pytest.mark.parametrize("kind", ["token", "vector"])
def test_shuffled_tokens_are_those_before_the_ones_that_are_read(kind):
    """One order for each run and length; what is read, and padding after it, keeps its place."""
    places = torch.arange(12).expand(2, 3, -1)
    inputs = places if kind == "token" else torch.stack([places, 100 - places], -1)
    for last, starts in ((None, [9, 9, 9]), (torch.tensor([[8, 11, 8]]), [8, 11, 8])):
        moved = shuffled(inputs, last, 3, (4, 5))
        assert torch.equal(shuffled(inputs, last, 3, (5,))[0], moved[1])
        if kind == "vector":
            assert (moved.sum(-1) == 100).all()  # vectors as wholes
            moved = moved[..., 0]
        for row, start in enumerate(starts):
            assert torch.equal(moved[:, row, start:], places[:, row, start:])
            for order in moved[:, row, :start].tolist():
                assert sorted(order) == [*range(start)] != order
        assert torch.equal(moved[:, 0], moved[:, 2])
        assert not torch.equal(moved[0], moved[1])


@torch.no_grad()
def test_a_shuffled_run_reads_its_tokens_in_another_order(tiny):
    plain, moved = (
        assembled(pretrained(options=EIGHT_BITS, order=order, seed=3))[0].eval() for order in ORDERS
    )
    batch = eval_batch()
    by_hand = replace(batch, inputs=shuffled(batch.inputs, None, 8, (3,)))
    assert torch.equal(moved(batch), plain(by_hand))
    assert not torch.allclose(moved(batch), plain(batch))


# -------------------------------------------------------------------------- groups and counts


def test_the_papers_counts():
    """Table 8 counts tokens of 16 numbers, no output bias and no final norm."""
    ours = parameter_counts(backbone("gpt2"), get_task("mnist"))
    assert sum(ours[group] for group in FOUR_GROUPS) - 10 - 2 * 768 == 106_752


@pytest.mark.parametrize(
    ("task", "options", "released"),
    [
        ("cifar10", {}, 132_874),
        ("listops", {"variant": "released"}, 450_826),
        ("bit-memory", {}, 246_628),
        # The released homology model has 1,200 classes; the data have 1,195 folds.
        ("homology", {"padding": "released"}, 1_770_672 - 5 * (768 + 1)),
    ],
)
def test_parameters_that_get_a_gradient_as_in_the_released_code(task, options, released):
    counts = parameter_counts(backbone("gpt2"), get_task(task, **options))
    assert sum(counts[group] for group in FOUR_GROUPS) == released


LSTM = {"backbone": "lstm-tiny"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"options": {"n": 40}}, "'bit-xor' has sequences of 80 tokens, .*'tiny' .*most 64"),
        (LSTM, "trainable group of lstm-tiny: 'positions'"),
    ],
)
def test_what_fits_no_backbone(changes, sentence, tiny):
    with pytest.raises(FptError, match=sentence):
        assembled(spec(**changes))


def test_the_last_attention_layer_is_a_part_of_its_own(tiny):
    run = spec(trainable=("feedforward", "last-attention", "output"))
    model, rows, _ = assembled(run)
    last = {name for name, _ in model.named_parameters() if "h.1.attn." in name}
    assert {part.name for part in rows.slices if part.group == "last-attention"} == last
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name for name in trained if ".attn." in name} == last
    assert not packable(run)
    assert "last-attention" not in backbone("tiny").groups  # a part, so that no sum counts it twice


# ----------------------------------------------------------------------------------- training


@pytest.mark.parametrize(
    "run",
    [
        pretrained(),
        spec(trainable=("attention", "output")),
        spec(backbone="lstm-tiny", trainable=("input", "output", "recurrent")),
        spec(backbone="lstm-released-tiny", trainable=("layernorm",)),
    ],
    ids=lambda run: f"{run.backbone} {'-'.join(run.trainable)}",
)
def test_training_changes_the_groups_named_and_not_one_bit_beside_them(run, tiny):
    loop = loop_of(run)
    before = {name: value.detach().clone() for name, value in loop.model.named_parameters()}
    for _ in range(3):
        loop.train_step()
    architecture = backbone(run.backbone)
    for name, value in loop.model.named_parameters():
        net = name.split(".")[0]
        group = group_of(architecture, name) if net == "backbone" else net
        if group in run.trainable:
            # Not all: the biases of the keys shift all scores of a query alike.
            assert (value != before[name]).double().mean() > 0.5, name
        else:
            assert torch.equal(value, before[name]), name
            assert value.grad is None, name


def test_initial_values_depend_on_the_seed_and_not_on_what_is_trained(tiny):
    model, _, _ = assembled(spec(seed=4))
    changed, _, _ = assembled(spec(seed=4, trainable=("output",), lr=0.5, batch=3))
    values = dict(changed.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.flatten(), values[name].flatten()), name


@pytest.mark.parametrize("run", [spec(dropout=0.5), spec("listops", LISTOPS, dropout=0.5)])
def test_dropout_falls_on_linear_input_nets_and_on_no_embedding(run, tiny):
    task = task_of(run)
    model = assembled(run)[0].train()
    model.draws.begin(0, (2, task.length, model.width), "cpu")
    dropped = model.drop(torch.ones(2, task.length, model.width)) == 0
    assert bool(dropped.any()) is (task.kind == "vector")
