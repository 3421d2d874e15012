"""What is evaluated in part is a random subset of the whole, the same for every run."""

from dataclasses import replace

import torch
from made import LAB
from tiny import spec, task_of

from fpt.records import Store
from fpt.tasks import TASKS
from fpt.tasks.datasets import Dataset
from fpt.tasks.sequences import SequenceTask, end_to_end
from fpt.training.evaluation import evaluate
from fpt.training.loop import Loop
from fpt.training.settings import semantics_of

CPU = torch.device("cpu")
LISTOPS = {"max_length": 64, "train": 500, "valid": 2000, "test": 500}


class Sequences(SequenceTask):
    def example(self, split, index):
        raise NotImplementedError


def test_a_subset_of_sorted_labels_has_each_class_in_proportion(prepared):
    labels = torch.arange(10).repeat_interleave(100)
    arrays = end_to_end("valid", [torch.ones(3).numpy()] * 1000, labels.byte().numpy())
    task = Sequences(
        name="sorted", options={}, kind="token", dim=9, length=3, classes=10,
        sizes={"valid": 1000}, dataset=Dataset("sorted-v1", {}, lambda: arrays),
    )  # fmt: skip
    for count in (10, 250, 999):
        rows = task.subset("valid", count)
        assert len(rows.unique()) == count
        share = torch.bincount(labels[rows], minlength=10)
        assert (share - count / 10).abs().max() <= 1
    for count in (0, 5000):
        assert task.subset("valid", count).equal(torch.arange(1000))


def test_every_arm_and_pack_is_evaluated_on_the_same_examples(prepared, tiny, monkeypatch):
    """Whatever is trained, however many are trained together and however it is batched."""
    run = spec("listops", LISTOPS, steps=2, eval_items=50, test_items=60)
    another = replace(run, trainable=("output",), seed=1)
    pack = [run, replace(run, lr=0.1)]
    evaluated = []
    for specs, tokens in (([run], 32768), ([another], 640), (pack, 1000)):
        monkeypatch.setattr("fpt.training.evaluation.EVAL_TOKENS", tokens)
        loop = Loop(specs, task_of(run), CPU)
        batches = []
        loop.model.register_forward_pre_hook(
            lambda _, arguments, batches=batches: batches.append(arguments[0])
        )
        for split, count in (("valid", 50), ("test", 60), ("train", 70)):
            scores = evaluate(loop.model, split, count)
            assert all(score["items"] == count for score in scores)
        rows = [row[row > 0].tolist() for batch in batches for row in batch.inputs[0]]
        evaluated.append(sorted(map(tuple, rows)))
    assert set(evaluated[0]) == set(evaluated[1]) == set(evaluated[2])


# ------------------------------------------------------------------------- what the specs say


def test_no_committed_record_is_of_a_superseded_meaning():
    store = Store(LAB)
    records = store.read_all(store.keys()).values()
    assert len(records) > 1000
    # Twelve exploratory runs are of a task that is trained no longer.
    specs = [record.spec for record in records if record.spec.task in TASKS]
    assert len(specs) == len(records) - 12
    assert all(spec.semantics == semantics_of(spec) for spec in specs)
