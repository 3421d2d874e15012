"""The option `train` of image tasks: a fixed part of the training examples."""

from pathlib import Path

import pytest
import torch

from fpt.files import FptError
from fpt.tasks import get_task
from fpt.tasks.images import ImageTask

SIZES = {"mnist": 55_000, "cifar10": 45_000, "cifar10-lra": 45_000, "digits": 4388, "shapes": 8000}


def image_task(name: str, **options: int) -> ImageTask:
    task = get_task(name, **options)
    assert isinstance(task, ImageTask)
    return task


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty generated images, so that every one of them can be looked at."""
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)
    monkeypatch.setattr("fpt.tasks.image_data.SHAPES_SIZES", {"train": 60, "valid": 5, "test": 40})


@pytest.mark.parametrize("name", SIZES)
def test_a_larger_part_contains_a_smaller_one(name: str) -> None:
    parts = []
    for size in (1, 10, 100, 1000, SIZES[name] - 1):
        task = image_task(name, train=size)
        assert task.sizes["train"] == size
        part = task.part
        assert part is not None
        assert len(part) == len(part.unique()) == size
        assert part.min() >= 0
        assert part.max() < SIZES[name]
        assert torch.equal(part, part.sort()[0])
        parts.append(set(part.tolist()))
    for smaller, larger in zip(parts[:-1], parts[1:], strict=True):
        assert smaller < larger


@pytest.mark.parametrize("name", SIZES)
def test_all_examples_are_no_part(name: str) -> None:
    task = image_task(name)
    assert task.part is None
    assert task.options["train"] == task.sizes["train"] == task.available == SIZES[name]
    assert task.identity == image_task(name, train=SIZES[name]).identity
    assert task.identity != image_task(name, train=10).identity


def test_a_part_is_spread_over_the_data() -> None:
    part = image_task("mnist", train=1000).part
    assert part is not None
    assert part.double().mean().item() == pytest.approx(27_500, rel=0.06)
    assert (part != torch.arange(1000)).any()
    assert torch.equal(part, image_task("mnist", train=1000).part)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("augment", [False, True])
def test_batches_have_the_examples_of_the_part_and_no_others(augment: bool) -> None:
    whole, task = image_task("shapes"), image_task("shapes", train=7)
    part = task.part
    assert part is not None
    (everything,) = whole.eval_batches("train", 60, "cpu")
    allowed = {row.numpy().tobytes() for row in everything.inputs[0][part]}
    assert len(allowed) == 7
    labels = everything.targets[0, part, 0]
    seen: set[bytes] = set()
    answers: list[int] = []
    for step in range(7):  # four epochs of seven, for two runs
        batch = task.train_batch([0, 1], step, 4, "cpu", augment)
        assert batch.inputs.shape == (2, 4, 64, 48)
        seen |= {row.numpy().tobytes() for row in batch.inputs.flatten(0, 1)}
        answers += batch.targets.flatten().tolist()
    assert sorted(answers) == sorted(labels.tolist() * 8)
    assert (seen == allowed) is not augment


@pytest.mark.usefixtures("small")
def test_an_epoch_has_each_example_once() -> None:
    task = image_task("shapes", train=6)
    batch = task.train_batch([3], 0, 12, "cpu")
    rows = [row.numpy().tobytes() for row in batch.inputs[0]]
    assert len(set(rows[:6])) == len(set(rows[6:])) == 6
    assert set(rows[:6]) == set(rows[6:])
    assert rows[:6] != rows[6:]


@pytest.mark.usefixtures("small")
def test_what_is_read_of_the_training_split_is_the_part() -> None:
    whole, task = image_task("shapes"), image_task("shapes", train=9)
    part = task.part
    assert part is not None
    (every,), batches = whole.eval_batches("train", 60, "cpu"), task.eval_batches("train", 4, "cpu")
    found = list(batches)
    assert [batch.inputs.shape[1] for batch in found] == [4, 4, 1]
    assert torch.equal(torch.cat([b.inputs for b in found], 1), every.inputs[:, part])
    assert torch.equal(torch.cat([b.targets for b in found], 1), every.targets[:, part])
    assert torch.equal(task.labels("train"), whole.labels("train")[part])
    mine, theirs = task.features("train"), whole.features("train")
    assert mine is not None
    assert theirs is not None
    assert torch.equal(mine, theirs[part])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_other_splits_stay_whole(split: str) -> None:
    whole, task = image_task("shapes"), image_task("shapes", train=9)
    (mine,), (theirs,) = (it.eval_batches(split, 50, "cpu") for it in (task, whole))
    assert torch.equal(mine.inputs, theirs.inputs)
    assert torch.equal(mine.targets, theirs.targets)
    assert torch.equal(task.labels(split), whole.labels(split))


@pytest.mark.usefixtures("small")
def test_floors_are_of_the_part() -> None:
    task = image_task("shapes", train=3)
    top = task.labels("train").bincount(minlength=10).argmax()
    share = (task.labels("test") == top).double().mean().item()
    assert task.floors() == {"majority": share}
    assert set(image_task("shapes").floors()) >= {"majority"}


def test_a_part_has_no_floor_that_was_fitted_on_all() -> None:
    assert "linear classifier" in image_task("digits").floors()
    assert set(image_task("digits", train=100).floors()) == {"majority"}


@pytest.mark.parametrize("name", SIZES)
def test_more_than_there_is_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(FptError) as caught:
        get_task(name, train=SIZES[name] + 1)
    assert str(caught.value) == (
        f"option 'train' of task {name!r} must be at most {SIZES[name]}, not {SIZES[name] + 1}."
    )
    with pytest.raises(FptError, match="must be at least 1, not 0"):
        get_task(name, train=0)
    with pytest.raises(FptError, match="must be int"):
        get_task(name, train=0.5)
