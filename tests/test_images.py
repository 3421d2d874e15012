"""Images: patches, normalisation, the augmentation against plain references, parts of a set."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import spec

from fpt.tasks import get_task
from fpt.tasks.datasets import Dataset
from fpt.tasks.images import draw_transforms, transform
from fpt.training.loop import Loop
from fpt.training.model import evaluate

AVAILABLE = {"mnist": 55_000, "cifar10": 45_000, "cifar10-lra": 45_000, "digits": 4388}
FEW = {"train": 60, "valid": 5, "test": 40}


@pytest.fixture(scope="module")
def images():
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (12, 32, 32, 3), dtype=torch.uint8, generator=draw)


@pytest.fixture
def few(tmp_path, monkeypatch):
    """cifar10 on sixty images of noise; gives the task with as many training examples."""
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)

    def build():
        rng = np.random.default_rng(0)
        shapes = {"images": (32, 32, 3), "labels": ()}
        return {
            f"{split}_{part}": rng.integers(0, 10, (count, *shape), np.uint8)
            for split, count in FEW.items()
            for part, shape in shapes.items()
        }

    def make(train=FEW["train"]):
        dataset, sizes = Dataset("few-images-v1", {}, build), FEW | {"train": train}
        return replace(get_task("cifar10"), dataset=dataset, sizes=sizes, available=FEW["train"])

    return make


def numbers(row=0.5, column=0.5, flip=0.9, angle=0.5):
    """Draws that mean: no shift, no flip, no rotation, unless given."""
    return torch.tensor([row, column, flip, angle])


def test_patches_hold_their_pixels_in_reading_order(images):
    tokens = get_task("cifar10").tokens(images)
    assert tokens.shape == (12, 64, 48)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    patch = (images[3, 8:12, 20:24].float() / 255 - mean) / std  # third row, sixth column
    torch.testing.assert_close(tokens[3, 2 * 8 + 5], patch.flatten())


def test_grey_pixels_one_by_one(images):
    tokens = get_task("cifar10-lra").tokens(images)
    references = [np.asarray(Image.fromarray(image.numpy()).convert("L")) for image in images]
    reference = torch.from_numpy(np.stack(references)).float().flatten(1) / 255
    torch.testing.assert_close(tokens[..., 0], (reference - 0.5) / 0.5, atol=0.01, rtol=0)


def test_mnist_is_padded_to_the_papers_size(images):
    image = images[:2, :28, :28, :1]
    wide, narrow = get_task("mnist").tokens(image), get_task("mnist", size=28).tokens(image)
    assert (wide.shape, narrow.shape) == ((2, 64, 16), (2, 49, 16))
    canvas = torch.zeros(2, 32, 32)
    canvas[:, 2:30, 2:30] = image[..., 0] / 255
    torch.testing.assert_close(wide[:, 0], canvas[:, :4, :4].flatten(1))
    torch.testing.assert_close(wide[:, 9], canvas[:, 4:8, 4:8].flatten(1))
    torch.testing.assert_close(narrow[:, 1], image[:, :4, 4:8, 0].flatten(1) / 255)


# ------------------------------------------------------------------------------------ augmentation


@pytest.mark.parametrize("flip", [0.1, 0.9])
@pytest.mark.parametrize(("dy", "dx"), [(0, 0), (-4, 4), (0, -3), (2, 1)])
def test_crop_and_flip_match_indexing(images, dy, dx, flip):
    draws = numbers(row=(dy + 4.5) / 9, column=(dx + 4.5) / 9, flip=flip).expand(12, 4)
    padded = torch.zeros(12, 40, 40, 3, dtype=torch.uint8)
    padded[:, 4:36, 4:36] = images
    expected = padded[:, 4 + dy : 36 + dy, 4 + dx : 36 + dx]
    expected = expected.flip(2) if flip < 0.5 else expected
    assert torch.equal(transform(images, draws), expected)


@pytest.mark.parametrize("degrees", [-20, -7.3, 3, 19.9])
def test_rotation_matches_pillow(images, degrees):
    draws = numbers(angle=(degrees / 20 + 1) / 2).expand(12, 4)
    for got, image in zip(transform(images, draws), images, strict=True):
        # Pillow turns counter-clockwise; the sign is a convention, the draw is symmetric.
        rotated = Image.fromarray(image.numpy()).rotate(degrees, Image.Resampling.NEAREST)
        same = (got == torch.from_numpy(np.array(rotated))).all(-1).float().mean()
        assert same > 0.99  # a pixel half-way between two may fall either way


def test_draws_cover_their_ranges_and_a_pack_uses_those_of_each_run():
    shifts = (draw_transforms([5], 0, 4000, "cpu")[0, :, :2] * 9).floor()
    assert torch.equal(shifts.unique(), torch.arange(9.0))
    draws = draw_transforms([1, 2], 3, 6, "cpu")
    assert torch.equal(draws[1], draw_transforms([2], 3, 6, "cpu")[0])
    assert not torch.equal(draws[0], draws[1])


def test_augmentation_is_switched_and_changes_inputs_only(few):
    task = few()
    plain, again = (task.train_batch([0], 0, 16, "cpu", False) for _ in range(2))
    changed = task.train_batch([0], 0, 16, "cpu", True)
    assert torch.equal(plain.inputs, again.inputs)
    assert torch.equal(plain.targets, changed.targets)
    assert (plain.inputs != changed.inputs).flatten(2).any(-1).all()
    other = replace(task, augmented=False)  # as mnist, where a mirrored digit is another sign
    assert torch.equal(other.train_batch([0], 0, 16, "cpu", True).inputs, plain.inputs)
    assert not get_task("mnist").augmented
    assert get_task("cifar10").augmented


@pytest.mark.parametrize("augment", [False, True])
def test_a_run_trains_on_transformed_images_if_its_spec_says_so(few, tiny, augment):
    """And is evaluated on the images as they are."""
    loop = Loop([spec("cifar10", {}, augment=augment)], few(), torch.device("cpu"))
    seen = []
    loop.model.register_forward_pre_hook(lambda _, given: seen.append(given[0].inputs))
    loop.train_step()
    loop.train_step()
    evaluate(loop.model, "train")
    first, second, scored = seen
    for step, inputs in enumerate((first, second)):
        assert torch.equal(inputs, few().train_batch([0], step, 8, "cpu", augment).inputs)
    (whole,) = few().eval_batches("train", 60, "cpu")
    assert torch.equal(scored, whole.inputs)
    # A step's draws are its own.
    assert not torch.equal(*(draw_transforms([0], step, 8, "cpu") for step in (0, 1)))


# ---------------------------------------------------------------------------- the option `train`


@pytest.mark.parametrize("name", AVAILABLE)
def test_a_larger_part_contains_a_smaller_one(name):
    parts, available = [], AVAILABLE[name]
    for size in (1, 100, available - 1, available):
        task = get_task(name, train=size)
        assert task.sizes["train"] == len(task.part.unique()) == size
        assert torch.equal(task.part, task.part.sort()[0])
        parts.append(set(task.part.tolist()))
    assert all(smaller < larger for smaller, larger in zip(parts, parts[1:], strict=False))
    assert parts[-1] == set(range(available))
    assert get_task(name).identity == task.identity != get_task(name, train=10).identity
    middle = get_task(name, train=1000).part.double().mean().item()
    assert middle == pytest.approx(available / 2, rel=0.06)


def test_a_part_is_trained_on_and_evaluated_in_its_order(few):
    whole, task = few(), few(7)
    (every,), batches = whole.eval_batches("train", 60, "cpu"), task.eval_batches("train", 4, "cpu")
    (first, second) = batches
    assert torch.equal(torch.cat([first.inputs, second.inputs], 1), every.inputs[:, task.part])
    labels = every.targets[:, task.part]
    assert torch.equal(torch.cat([first.targets, second.targets], 1), labels)
    assert torch.equal(task.labels("train"), labels.flatten())

    trained = [task.train_batch([0, 1], step, 4, "cpu") for step in range(7)]  # four epochs of 7
    seen = torch.cat([batch.inputs.flatten(0, 1) for batch in trained])
    rows = (seen[:, None] == every.inputs[0, task.part]).flatten(2).all(-1).int().argmax(1)
    assert rows.bincount().tolist() == [8] * 7
    assert torch.equal(labels.flatten()[rows], torch.cat([b.targets.flatten() for b in trained]))
    for split in ("valid", "test"):
        (mine,), (theirs,) = (it.eval_batches(split, 50, "cpu") for it in (task, whole))
        assert torch.equal(mine.inputs, theirs.inputs)


def test_a_part_has_baselines_of_its_own(few):
    task = few(3)
    top = task.labels("train").bincount(minlength=10).argmax()
    assert task.measure_floors() == {"majority": (task.labels("test") == top).double().mean()}
    assert "linear classifier" in get_task("digits").floors()
    assert set(get_task("digits", train=100).floors()) == {"majority"}
