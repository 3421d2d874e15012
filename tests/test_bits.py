"""Bit-memory and bit-xor: what is asked, what is answered, what is held out."""

import pytest
import torch

from fpt.tasks import get_task


def test_bit_memory_asks_for_one_of_its_strings():
    task = get_task("bit-memory", n=200, patterns=4, patch=20)
    batch = task.train_batch([1, 2], 0, 50, "cpu")
    strings = batch.inputs.reshape(2, 50, 5, 200)
    memory, query = strings[..., :4, :], strings[..., 4, :]
    assert memory.unique().tolist() == [-1, 1]
    assert query.unique().tolist() == [-1, 0, 1]
    pattern = task.pattern(batch)
    assert pattern.unique().tolist() == [0, 1, 2, 3]
    answer = memory.gather(2, pattern[..., None, None].expand(-1, -1, 1, 200))[:, :, 0]
    assert torch.equal((answer + 1) / 2, batch.targets.float())
    hidden = query == 0
    assert torch.equal(query[~hidden], answer[~hidden])
    assert 0.47 < hidden.float().mean() < 0.53  # SE 0.0035


def test_copying_the_visible_bits_scores_three_quarters():
    task = get_task("bit-memory")
    batch = next(task.eval_batches("test", 200, "cpu"))
    query = batch.inputs[..., -task.reads :, :].flatten(-2)
    logits = torch.stack([-query, query + 1e-3], -1)  # says 1 if it sees nothing
    floors = task.floors()
    accuracy = task.correct(logits, batch.targets).mean().item()
    masked = task.scores(logits, batch)["masked"].nanmean().item()
    assert accuracy == pytest.approx(floors["copy visible bits"], abs=0.01)
    assert masked == pytest.approx(floors["masked bits: guess"], abs=0.01)


def test_evaluation_sets_are_fixed_and_apart():
    task = get_task("bit-memory", n=100)
    assert task.digest() == get_task("bit-memory", n=100).digest()
    assert task.digest() != get_task("bit-memory", n=150).digest()
    assert not torch.equal(task.eval_set("valid")[0], task.eval_set("test")[0][:1000])


def test_xor_of_five_bits_evaluates_on_every_input():
    task = get_task("bit-xor", n=5)
    (batch,) = task.eval_batches("test", 2000, "cpu")
    bits = batch.inputs[0, :, :, 0].long()
    assert len(bits.unique(dim=0)) == 1024 == task.sizes["test"]
    assert task.fitting
    assert torch.equal(bits[:, :5] ^ bits[:, 5:], batch.targets[0])


def test_xor_holds_inputs_out_of_training():
    task = get_task("bit-xor", n=10)
    held_out = {}
    for split in ("valid", "test"):
        bits, targets = task.eval_set(split)
        assert torch.equal(bits[:, 0] ^ bits[:, 1], targets)
        held_out[split] = set(map(tuple, bits.flatten(1).tolist()))
        assert len(held_out[split]) == task.sizes[split] == len(bits)
    assert not held_out["valid"] & held_out["test"]
    trained = set()
    for step in range(20):
        batch = task.train_batch([0, 1], step, 1000, "cpu")
        bits = batch.inputs[..., 0].long()
        assert torch.equal(bits[..., :10] ^ bits[..., 10:], batch.targets)
        trained |= set(map(tuple, bits.flatten(0, 1).tolist()))
    assert len(trained) > 38_000  # 40,000 draws from 917,504 inputs: 850 repeats expected
    assert not trained & (held_out["valid"] | held_out["test"])
