"""Every task, as the training loop meets it: shapes, ranges, keyed batches, order, baselines."""

import pytest
import torch
from refusals import refuses

from fpt.tasks import get_task
from fpt.tasks.base import order

LOCAL = {
    "bit-memory": {"n": 40, "patch": 10, "valid": 30, "test": 50},
    "bit-xor": {},
    "listops": {"max_length": 40, "train": 60, "valid": 20, "test": 30},
    "digits": {},
}
pytestmark = pytest.mark.usefixtures("prepared")


@pytest.fixture(params=LOCAL)
def task(request):
    return get_task(request.param, **LOCAL[request.param])


def test_batches_have_the_promised_shape(task):
    tests = list(task.eval_batches("test", 8, "cpu"))
    assert sum(batch.targets.shape[1] for batch in tests) == task.sizes["test"]
    for batch in [task.train_batch([3, 7], 0, 5, "cpu", task.augmented), *tests]:
        assert batch.targets.shape[2] == task.reads * task.answers
        assert batch.targets.dtype == torch.int64
        assert 0 <= batch.targets.min() <= batch.targets.max() < task.classes
        assert batch.inputs.shape[:2] == batch.targets.shape[:2]
        if task.kind == "vector":
            assert batch.inputs.shape[2:] == (task.length, task.dim)
            assert batch.inputs.dtype == torch.float32
        else:
            assert batch.inputs.shape[2] <= task.length
            assert batch.inputs.max() < task.dim
        if batch.last is not None:
            assert torch.equal(batch.mask.sum(-1) - 1, batch.last)
            assert batch.inputs.shape[2] == batch.last.max() + 1
    assert {"train", "valid", "test"} <= task.sizes.keys()
    assert all(0 < floor < 1 for floor in task.floors().values())


def test_a_run_sees_the_same_examples_alone_and_in_a_pack(task):
    packed = task.train_batch([3, 7], 4, 6, "cpu", True)
    for k, seed in enumerate([3, 7]):
        alone = task.train_batch([seed], 4, 6, "cpu", True)
        assert torch.equal(packed.targets[k], alone.targets[0])
        assert torch.equal(packed.inputs[k, :, : alone.inputs.shape[2]], alone.inputs[0])
    assert not torch.equal(packed.targets[0], packed.targets[1])
    assert not torch.equal(packed.targets, task.train_batch([3, 7], 5, 6, "cpu").targets)


def test_each_epoch_shows_every_example_once():
    epochs = torch.cat([order(23, [1], step, 5)[0] for step in range(23)]).view(5, 23)
    assert torch.equal(epochs.sort(1).values, torch.arange(23).expand(5, -1))
    assert not torch.equal(epochs[0], epochs[1])
    long = order(23, [1, 2], 1, 60)  # a batch of more than an epoch
    assert torch.equal(long[0, 9 : 9 + 23].sort().values, torch.arange(23))
    assert not torch.equal(long[0], long[1])


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("minst", {}, ["'minst'", "bit-memory, bit-xor"]),
        ("mnist", {"sise": 28}, ["task 'mnist': 'sise' is not known (did you mean size?)"]),
        ("bit-xor", {"n": "5"}, ["must be a whole number from 1 to 2147483647, not '5'"]),
        ("bit-memory", {"patch": 30}, ["must divide n = 1000, not 30"]),
        ("digits", {"train": 4389}, ["must be at most 4388, not 4389"]),
    ],
)
def test_wrong_names_are_answered_with_the_allowed_ones(name, options, parts):
    refuses(lambda: get_task(name, **options), *parts)
