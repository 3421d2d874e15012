"""Bit-memory and bit-xor: what is asked, what is answered, what is held out."""

import pytest
import torch
from refusals import refuses

from fpt.tasks import get_task


def test_bit_memory_asks_for_one_of_its_strings():
    task = get_task("bit-memory", n=200, patterns=4, patch=20)
    batch = task.train_batch([1, 2], 0, 50, "cpu")
    strings = batch.inputs.reshape(100, 5, 200)
    query = strings[:, 4]
    answers = strings[torch.arange(100), task.pattern(batch).flatten()]
    assert answers.unique().tolist() == [-1, 1]
    assert torch.equal(answers.flatten() == 1, batch.targets.flatten() == 1)
    is_hidden = query == 0
    assert torch.equal(query[~is_hidden], answers[~is_hidden])
    assert 0.47 < is_hidden.float().mean() < 0.53  # SE 0.0035


def test_copying_the_visible_bits_scores_three_quarters():
    task = get_task("bit-memory")
    batch = next(task.eval_batches("test", 200, "cpu"))
    query = batch.inputs[..., -task.reads :, :].flatten(-2)
    logits = torch.stack([-query, query + 1e-3], -1)  # says 1 if it sees nothing
    accuracy = task.correct(logits, batch.targets).mean()
    masked = task.scores(logits, batch)["masked"].nanmean()
    assert [accuracy, masked] == pytest.approx([*task.floors().values()], abs=0.01)


def test_xor_of_five_bits_evaluates_on_every_input():
    task = get_task("bit-xor", n=5)
    (batch,) = task.eval_batches("test", 2000, "cpu")
    bits = batch.inputs[0, :, :, 0].long()
    assert task.fitting
    assert len(bits.unique(dim=0)) == 1024 == task.sizes["test"]
    assert torch.equal(bits[:, :5] ^ bits[:, 5:], batch.targets[0])


def test_xor_holds_inputs_out_of_training():
    task = get_task("bit-xor", n=10)
    batches = [task.train_batch([0, 1], step, 1000, "cpu") for step in range(20)]
    batches_by_split = {"train": batches}
    for split in ("valid", "test"):
        batches_by_split[split] = list(task.eval_batches(split, 1000, "cpu"))
    inputs = {}
    for split, batches in batches_by_split.items():
        bits = torch.cat([batch.inputs.flatten(0, 1)[..., 0] for batch in batches]).long()
        targets = torch.cat([batch.targets.flatten(0, 1) for batch in batches])
        assert torch.equal(bits[:, :10] ^ bits[:, 10:], targets)
        inputs[split] = set(map(tuple, bits.tolist()))
    assert len(inputs["train"]) > 38_000  # 40,000 draws from 917,504 inputs: 850 repeats expected
    assert [len(inputs[split]) for split in ("valid", "test")] == [1000, 2000]
    assert len(set.union(*inputs.values())) == sum(map(len, inputs.values()))


@pytest.mark.parametrize(("n", "most"), [(2, 16), (7, 4**7), (10, 32_768)])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_xor_has_no_more_different_inputs_than_there_are(n, most, split):
    sentence = [repr(split), f"at most {most}, not {most + 1}", f"n = {n}"]
    refuses(lambda: get_task("bit-xor", n=n, **{split: most + 1}), *sentence)
    task = get_task("bit-xor", n=n, **{split: most})
    inputs, _ = task.eval_set(split)
    assert len(inputs) == len(inputs.unique(dim=0)) == most == task.sizes[split]


def test_xor_of_strings_that_no_model_takes_is_described_at_once():
    assert get_task("bit-xor", n=10**9).length == 2 * 10**9


@pytest.mark.parametrize("n", [1, 5, 6, 7, 10])
def test_xor_evaluates_on_the_usual_number_or_on_every_input(n):
    task = get_task("bit-xor", n=n)
    every_input = {"valid": 4**n, "test": 4**n}
    assert task.options == {"n": n} | (every_input if n < 7 else {"valid": 1000, "test": 2000})
