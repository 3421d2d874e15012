"""Images: patches, normalisation, the augmentation against plain references, parts of a set."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from refusals import refuses
from tiny import spec

from fpt.tasks import get_task
from fpt.tasks.datasets import Dataset
from fpt.tasks.images import transform
from fpt.training.evaluation import evaluate
from fpt.training.loop import Loop

FEW = {"train": 60, "valid": 5, "test": 40}


@pytest.fixture(scope="module")
def images():
    draw = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (12, 32, 32, 3), dtype=torch.uint8, generator=draw)


@pytest.fixture
def few(prepared):
    """cifar10 on sixty images of noise; gives the task with as many training examples."""

    def build():
        rng = np.random.default_rng(0)
        arrays = {}
        for split, count in FEW.items():
            arrays[f"{split}_images"] = rng.integers(0, 10, (count, 32, 32, 3), np.uint8)
            arrays[f"{split}_labels"] = rng.integers(0, 10, count, np.uint8)
        return arrays

    def make(train=60):
        dataset = Dataset("few-images-v1", {}, build)
        sizes = FEW | {"train": train}
        return replace(get_task("cifar10"), dataset=dataset, sizes=sizes, available=60)

    return make


def test_patches_hold_their_pixels_in_reading_order(images):
    tokens = get_task("cifar10").tokens(images)
    assert tokens.shape == (12, 64, 48)
    mean = torch.tensor([0.4914, 0.4822, 0.4465])
    std = torch.tensor([0.2023, 0.1994, 0.2010])
    patch = (images[3, 8:12, 20:24].float() / 255 - mean) / std  # third row, sixth column
    torch.testing.assert_close(tokens[3, 2 * 8 + 5], patch.flatten())


def test_grey_pixels_one_by_one(images):
    tokens = get_task("cifar10-lra").tokens(images)
    grey = [np.asarray(Image.fromarray(image.numpy()).convert("L")) for image in images]
    expected = torch.from_numpy(np.stack(grey)).float().flatten(1) / 255 * 2 - 1
    torch.testing.assert_close(tokens[..., 0], expected, atol=0.01, rtol=0)
    by_four = get_task("cifar10-lra", patch=2).tokens(images)
    square = tokens[..., 0].view(-1, 32, 32)[:, 2:4, 30:32]  # second row of patches, last column
    torch.testing.assert_close(by_four[:, 16 + 15], square.flatten(1))
    refuses(lambda: get_task("cifar10-lra", patch=3), "patch", "32")


def test_mnist_is_padded_to_the_papers_size(images):
    image = images[:2, :28, :28, :1]
    wide = get_task("mnist").tokens(image)
    narrow = get_task("mnist", size=28).tokens(image)
    assert (wide.shape, narrow.shape) == ((2, 64, 16), (2, 49, 16))
    canvas = torch.nn.functional.pad(image[..., 0] / 255, (2, 2, 2, 2))
    torch.testing.assert_close(wide[:, 9], canvas[:, 4:8, 4:8].flatten(1))
    torch.testing.assert_close(narrow[:, 1], image[:, :4, 4:8, 0].flatten(1) / 255)


# ------------------------------------------------------------------------------------ augmentation


def numbers(row=0.5, column=0.5, flip=0.9, angle=0.5):
    """Draws for 12 images that mean: no shift, no flip, no rotation, unless given."""
    return torch.tensor([row, column, flip, angle]).expand(12, 4)


@pytest.mark.parametrize("flip", [0.1, 0.9])
@pytest.mark.parametrize(("down", "right"), [(0, 0), (-4, 4), (2, 1)])
def test_crop_and_flip_match_indexing(images, down, right, flip):
    padded = torch.zeros(12, 40, 40, 3, dtype=torch.uint8)
    padded[:, 4:36, 4:36] = images
    expected = padded[:, 4 + down : 36 + down, 4 + right : 36 + right]
    draws = numbers((down + 4.5) / 9, (right + 4.5) / 9, flip)
    assert torch.equal(transform(images, draws), expected.flip(2) if flip < 0.5 else expected)


@pytest.mark.parametrize("degrees", [-20, 3, 19.9])
def test_rotation_matches_pillow(images, degrees):
    turned = transform(images, numbers(angle=(degrees / 20 + 1) / 2))
    for ours, image in zip(turned, images, strict=True):
        # Pillow turns counter-clockwise; the sign is a convention, the draw is symmetric.
        theirs = Image.fromarray(image.numpy()).rotate(degrees, Image.Resampling.NEAREST)
        same = (ours == torch.from_numpy(np.array(theirs))).all(-1).float().mean()
        assert same > 0.99  # a pixel half-way between two may fall either way


# Accuracies alone would not show that augmentation is off.
@pytest.mark.parametrize("augment", [False, True])
def test_a_run_trains_on_transformed_images_if_its_spec_says_so(few, tiny, augment):
    """And is evaluated on the images as they are."""
    task = few()
    loop = Loop(
        [spec("cifar10", {}, augment=augment)],
        task,
        torch.device("cpu"),
    )
    batches = []
    loop.model.register_forward_pre_hook(lambda _, arguments: batches.append(arguments[0]))
    loop.train_step()
    evaluate(loop.model, "train")
    plain = task.train_batch([0], 0, 8, "cpu", False)
    is_changed = (plain.inputs != batches[0].inputs).flatten(2).any(-1)
    assert torch.equal(is_changed, torch.full_like(is_changed, augment))
    assert torch.equal(plain.targets, batches[0].targets)
    (batch,) = task.eval_batches("train", 60, "cpu")
    assert torch.equal(batches[1].inputs, batch.inputs)
    never = replace(task, augmented=False)  # as mnist, where a mirrored digit is another sign
    assert torch.equal(never.train_batch([0], 0, 8, "cpu", augment).inputs, plain.inputs)
    assert (get_task("cifar10").augmented, get_task("mnist").augmented) == (True, False)


# ---------------------------------------------------------------------------- the option `train`


def test_a_larger_part_contains_a_smaller_one():
    complete = get_task("digits")
    available = complete.sizes["train"]
    smaller = set()
    for size in (1, 1000, available):
        task = get_task("digits", train=size)
        assert task.sizes["train"] == len(task.part) == size
        assert (task.part.diff() > 0).all()
        part = set(task.part.tolist())
        assert smaller < part
        smaller = part
    assert complete.identity == task.identity != get_task("digits", train=10).identity


def test_a_part_is_trained_on_and_evaluated_in_its_order(few):
    task = few(7)
    (batch,) = few().eval_batches("train", 60, "cpu")
    inputs = batch.inputs[0, task.part]
    labels = batch.targets[0, task.part]
    evaluated = list(task.eval_batches("train", 4, "cpu"))
    assert torch.equal(torch.cat([batch.inputs[0] for batch in evaluated]), inputs)
    assert torch.equal(task.labels("train"), labels.flatten())
    epochs = task.train_batch([0], 0, 28, "cpu")  # four
    rows = (epochs.inputs[0, :, None] == inputs).flatten(2).all(-1).int().argmax(1)
    assert rows.bincount().tolist() == [4] * 7
    assert torch.equal(labels[rows], epochs.targets[0])
