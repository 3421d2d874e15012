"""Attention maps are those of the forward pass, and their mass is what a hand count gives."""

from dataclasses import replace

import pytest
import torch
from tiny import pretrained, spec, task_of
from torch import Tensor

from fpt.analysis.attention import attention_mass, chance, maps, mass, relevant
from fpt.backbones.gpt2 import GPT2Body
from fpt.files import FptError
from fpt.spec import RunSpec
from fpt.tasks import Batch, get_task
from fpt.training.model import Model, assemble

pytestmark = pytest.mark.usefixtures("tiny")
CPU = torch.device("cpu")
MEMORY = {"n": 8, "patterns": 2, "patch": 4}


def prepared(*specs: RunSpec) -> tuple[Model, Batch]:
    task = task_of(specs[0])
    model, _, _ = assemble(specs, task, CPU)
    return model, next(task.eval_batches("test", 6, CPU))


@pytest.mark.parametrize(
    "run", [pretrained(options={"n": 4}), pretrained(task="bit-memory", options=MEMORY)]
)
def test_maps_are_the_attention_of_the_forward_pass(run: RunSpec) -> None:
    """The maps, applied to the values by hand, give what each block adds to its input."""
    model, batch = prepared(run)
    model.eval()
    assert isinstance(model.backbone, GPT2Body)
    gpt2 = model.backbone.gpt2
    assert gpt2.config._attn_implementation == "sdpa"
    given: list[Tensor] = []
    hook = model.backbone.register_forward_pre_hook(lambda _, x: given.append(x[0]))
    with torch.no_grad():
        before = model(batch)
        hook.remove()
        hidden = model.backbone(given[0])
    found = maps(model, batch)
    heads, length, size = gpt2.config.n_head, found.shape[-1], len(batch.inputs[0])
    assert found.shape == (2, size, heads, length, length)
    assert found.triu(1).eq(0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:-1]))
    x = given[0]
    for block, probabilities in zip(gpt2.h, found, strict=True):
        value = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)[2]
        value = value.unflatten(-1, (heads, -1)).transpose(1, 2)
        x = x + block.attn.c_proj((probabilities @ value).transpose(1, 2).flatten(-2))
        x = x + block.mlp(block.ln_2(x))
    torch.testing.assert_close(gpt2.ln_f(x), hidden, rtol=1e-4, atol=1e-4)
    assert gpt2.config._attn_implementation == "sdpa"
    with torch.no_grad():
        torch.testing.assert_close(model(batch), before, rtol=0, atol=0)


def test_looking_at_a_model_in_training_leaves_it_there() -> None:
    model, batch = prepared(pretrained(dropout=0.5))
    first = maps(model.train(), batch)
    assert model.training
    assert torch.equal(first, maps(model, batch))
    assert torch.equal(maps(model, batch, lambda m: m.mean(0)), first.mean(1))


def test_runs_of_a_pack_have_their_own_maps() -> None:
    specs = [pretrained(seed=0), pretrained(seed=1)]
    model, batch = prepared(*specs)
    together = maps(model, batch)
    table = attention_mass(model, batch)
    for run, one in enumerate(specs):
        alone, _ = prepared(one)
        size = len(batch.inputs[0])
        part = together[:, run * size : (run + 1) * size]
        torch.testing.assert_close(part, maps(alone, batch), rtol=1e-4, atol=1e-6)
        ours = table[table["run"] == run].drop(columns="run").reset_index(drop=True)
        theirs = attention_mass(alone, batch).drop(columns="run")
        assert ours["mass"].to_list() == pytest.approx(theirs["mass"].to_list(), rel=1e-4)
    assert table.groupby("run")["mass"].mean().nunique() == 2


def test_xor_needs_the_bits_at_the_same_place() -> None:
    task = get_task("bit-xor", n=3)
    tokens = relevant(task, next(task.eval_batches("test", 2, CPU)))
    assert tokens["partner"].nonzero().tolist() == [[b, i, i] for b in (0, 1) for i in range(3)]
    assert tokens["own"].nonzero().tolist() == [[b, i, 3 + i] for b in (0, 1) for i in range(3)]


def test_memory_needs_the_same_patch_of_the_right_string() -> None:
    task = get_task("bit-memory", n=4, patterns=3, patch=2)
    strings = [[1, 1, -1, -1], [1, -1, 1, -1], [-1, -1, -1, 1]]
    queries = [[1, 1, 0, 0], [0, -1, 1, 0], [-1, 0, 0, 1]]
    made_from = [0, 1, 2]
    inputs = torch.tensor([[*strings, query] for query in queries]).float().view(1, 3, 8, 2)
    targets = torch.tensor([strings[i] for i in made_from])[None]
    tokens = relevant(task, Batch(inputs, targets))
    assert tokens["partner"].nonzero().tolist() == [
        [b, patch, 2 * source + patch] for b, source in enumerate(made_from) for patch in (0, 1)
    ]
    assert tokens["own"].nonzero().tolist() == [[b, p, 6 + p] for b in range(3) for p in (0, 1)]


def test_mass_of_a_map_made_by_hand() -> None:
    tokens = relevant(
        get_task("bit-xor", n=2), Batch(torch.zeros(1, 1, 4, 1), torch.zeros(1, 1, 2))
    )
    perfect = torch.zeros(4, 4)
    perfect[2, 0] = perfect[3, 1] = 0.75
    perfect[2, 2] = perfect[3, 3] = 0.25
    perfect[:2, 3] = 1.0  # rows that are not read do not count
    first_only = torch.zeros(4, 4)
    first_only[:, 0] = 1.0
    heads = torch.stack([perfect, first_only])[None]
    assert mass(heads, tokens["partner"]).tolist() == [[0.75, 0.5]]
    assert mass(heads, tokens["own"]).tolist() == [[0.25, 0.0]]
    assert chance(tokens["partner"]) == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert chance(tokens["partner"] | tokens["own"]) == pytest.approx(2 * (1 / 3 + 1 / 4) / 2)


def test_attention_that_cannot_tell_tokens_apart_is_at_chance() -> None:
    model, batch = prepared(pretrained(options={"n": 4}))
    assert isinstance(model.backbone, GPT2Body)
    for block in model.backbone.gpt2.h:
        with torch.no_grad():
            block.attn.c_attn.weight[:, :16].zero_()  # no queries
            block.attn.c_attn.bias[:16].zero_()
    table = attention_mass(model, batch)
    assert len(table) == 2 * 2 * 2
    assert table["mass"].to_list() == pytest.approx(table["chance"].to_list(), rel=1e-5)
    by_hand = sum(1 / (4 + i) for i in range(1, 5)) / 4
    assert set(table["chance"].round(9)) == {round(by_hand, 9)}


def test_training_batches_have_examples_of_each_run() -> None:
    specs = [pretrained(task="bit-memory", options=MEMORY, seed=seed) for seed in (0, 1)]
    task = task_of(specs[0])
    model, _, _ = assemble(specs, task, CPU)
    batch = task.train_batch([0, 1], 0, 5, CPU)
    table = attention_mass(model, batch)
    for run, one in enumerate(specs):
        alone, _, _ = assemble([one], task, CPU)
        part = replace(
            batch, inputs=batch.inputs[run : run + 1], targets=batch.targets[run : run + 1]
        )
        theirs = attention_mass(alone, part)["mass"].to_list()
        assert table[table["run"] == run]["mass"].to_list() == pytest.approx(theirs, rel=1e-4)


def test_what_has_no_maps_says_so() -> None:
    model, batch = prepared(spec(backbone="lstm-tiny", trainable=("input", "output")))
    with pytest.raises(FptError, match="GPT-2"):
        maps(model, batch)
    digits = get_task("digits")
    with pytest.raises(FptError, match="bit-xor"):
        relevant(digits, batch)
