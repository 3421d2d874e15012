"""Attention: the maps are transformers' own, and its mass is measured where it must be."""

import pytest
import torch
from refusals import refuses
from tiny import CPU, assembled, one_of, pretrained, spec, task_of
from transformers import GPT2Model

from fpt.backbones.weights import find
from fpt.errors import FptError
from fpt.reading.attention import chance, maps, mass, needed, strongest_head, without_heads


@torch.no_grad()
def test_maps_are_those_of_transformers(tiny):
    run = pretrained(options={"n": 4})
    model, _, _ = assembled(run)
    batch = next(model.task.eval_batches("test", 3, CPU))
    ours = maps(model, batch)
    folder = find(run.weights).parent  # type: ignore[arg-type]
    theirs = GPT2Model.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    vectors = model.input(batch.inputs)[0]
    expected = theirs(inputs_embeds=vectors, output_attentions=True).attentions
    for layer, of_transformers in zip(ours, expected, strict=True):
        torch.testing.assert_close(layer, of_transformers, rtol=1e-4, atol=1e-5)
    assert model.training  # as before


def test_maps_of_other_backbones_are_refused():
    for architecture in (one_of("lstm"), one_of("gpt2", bidirectional=True)):
        run = spec(backbone=architecture.name, trainable=("output",))
        model, _, _ = assembled(run, architecture=architecture)
        batch = next(model.task.eval_batches("test", 2, CPU))
        refuses(lambda model=model, batch=batch: maps(model, batch), "choose a GPT-2 backbone")


def test_a_bit_needs_its_partner_and_a_patch_its_pattern():
    run = spec(options={"n": 3})
    batch = next(task_of(run).eval_batches("test", 2, CPU))
    assert needed(task_of(run), batch).argmax(-1).tolist() == [[0, 1, 2]] * 2
    options = {"n": 8, "patterns": 2, "patch": 4, "valid": 10, "test": 10}
    memory = task_of(spec("bit-memory", options))
    batch = next(memory.eval_batches("test", 10, CPU))
    tokens = needed(memory, batch).argmax(-1)
    strings = batch.inputs[0]
    for example, read in zip(strings, tokens, strict=True):
        query = example[-memory.reads :]
        visible = query != 0  # what of the query is not hidden
        assert torch.equal(example[read][visible], query[visible])
    with pytest.raises(FptError, match="not for 'digits'"):
        needed(task_of(spec("digits")), batch)


def test_mass_of_even_and_of_perfect_attention():
    tokens = torch.eye(4)[[0, 1]].repeat(3, 1, 1)  # (3, 2, 4): the last two need the first two
    even = torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]
    assert chance(tokens) == pytest.approx((1 / 3 + 1 / 4) / 2)
    maps = torch.stack([even, torch.eye(4)[[0, 1, 0, 1]]]).expand(3, -1, -1, -1)
    assert mass(maps, tokens).tolist() == pytest.approx([chance(tokens), 1.0])


@torch.no_grad()
def test_a_model_without_a_head_does_not_see_its_values(tiny):
    run = pretrained(options={"n": 4})
    model, _, _ = assembled(run)
    batch = next(model.task.eval_batches("test", 64, CPU))
    before = model(batch)
    accuracies = without_heads(model, batch)
    torch.testing.assert_close(model(batch), before)  # nothing is changed
    gpt2 = model.backbone.gpt2
    width = gpt2.config.n_embd // gpt2.config.n_head
    gpt2.h[0].attn.c_attn.weight[:, -width:] = 0  # the last head's values
    gpt2.h[0].attn.c_attn.bias[-width:] = 0
    right = model.task.correct(model(batch), batch.targets).mean()
    assert accuracies.shape == (gpt2.config.n_layer, gpt2.config.n_head)
    assert len(accuracies.unique()) > 1
    assert accuracies[0, -1] == pytest.approx(right.item(), abs=0.01)


def test_the_strongest_head_is_that_with_the_most_attention_on_what_is_needed():
    tokens = torch.eye(4)[[0, 1]].repeat(3, 1, 1)
    even = (torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]).expand(3, 2, -1, -1).clone()
    layers = [even, even.clone()]
    layers[1][:, 1] = torch.eye(4)[[0, 1, 0, 1]]
    assert strongest_head(layers, tokens) == (1, 1)
