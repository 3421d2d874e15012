"""Images: patches, normalisation, and the augmentation against plain references."""

import numpy as np
import pytest
import torch
from PIL import Image

from fpt.tasks import augment, get_task


@pytest.fixture(scope="module")
def images():
    return torch.randint(
        0, 256, (12, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def numbers(row=0.5, column=0.5, flip=0.9, angle=0.5):
    """Draws that mean: no shift, no flip, no rotation, unless said."""
    return torch.tensor([row, column, flip, angle])


def test_patches_hold_their_pixels_in_reading_order(images):
    task = get_task("cifar10")
    tokens = task.tokens(images)
    assert tokens.shape == (12, 64, 48)
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    patch = (images[3, 8:12, 20:24].float() / 255 - mean) / std  # third row, sixth column
    torch.testing.assert_close(tokens[3, 2 * 8 + 5], patch.flatten())


def test_grey_pixels_one_by_one(images):
    tokens = get_task("cifar10-lra").tokens(images)
    assert tokens.shape == (12, 1024, 1)
    references = [np.asarray(Image.fromarray(image.numpy()).convert("L")) for image in images]
    reference = torch.from_numpy(np.stack(references)).float().flatten(1) / 255
    torch.testing.assert_close(tokens[..., 0], (reference - 0.5) / 0.5, atol=0.01, rtol=0)


def test_mnist_is_padded_to_the_papers_size():
    image = torch.randint(0, 256, (2, 28, 28, 1), dtype=torch.uint8)
    wide, narrow = get_task("mnist").tokens(image), get_task("mnist", size=28).tokens(image)
    assert wide.shape == (2, 64, 16)
    assert narrow.shape == (2, 49, 16)
    assert wide.min() >= 0
    assert wide.max() <= 1
    canvas = torch.zeros(2, 32, 32)
    canvas[:, 2:30, 2:30] = image[..., 0] / 255
    torch.testing.assert_close(wide[:, 0], canvas[:, :4, :4].flatten(1))
    torch.testing.assert_close(wide[:, 9], canvas[:, 4:8, 4:8].flatten(1))
    torch.testing.assert_close(narrow[:, 1], image[:, :4, 4:8, 0].flatten(1) / 255)


def test_no_augmentation_is_the_identity(images):
    assert torch.equal(augment.transform(images, numbers().expand(12, 4)), images)


@pytest.mark.parametrize("flip", [0.1, 0.9])
@pytest.mark.parametrize(("dy", "dx"), [(-4, 4), (0, -3), (2, 1)])
def test_crop_and_flip_match_indexing(images, dy, dx, flip):
    draws = numbers(row=(dy + 4.5) / 9, column=(dx + 4.5) / 9, flip=flip).expand(12, 4)
    padded = torch.zeros(12, 40, 40, 3, dtype=torch.uint8)
    padded[:, 4:36, 4:36] = images
    expected = padded[:, 4 + dy : 36 + dy, 4 + dx : 36 + dx]
    expected = expected.flip(2) if flip < 0.5 else expected
    assert torch.equal(augment.transform(images, draws), expected)


@pytest.mark.parametrize("degrees", [-20, -7.3, 3, 19.9])
def test_rotation_matches_pillow(images, degrees):
    draws = numbers(angle=(degrees / 20 + 1) / 2).expand(12, 4)
    ours = augment.transform(images, draws)
    for got, image in zip(ours, images, strict=True):
        # Pillow turns counter-clockwise; the sign is a convention, the draw is symmetric.
        rotated = Image.fromarray(image.numpy()).rotate(degrees, Image.Resampling.NEAREST)
        same = (got == torch.from_numpy(np.array(rotated))).all(-1).float().mean()
        assert same > 0.99  # a pixel half-way between two may fall either way


def test_draws_cover_their_ranges_and_are_keyed():
    draws = augment.draw([5], 0, 4000, "cpu")
    shifts = (draws[0, :, :2] * 9).floor()
    assert torch.equal(shifts.unique(), torch.arange(9.0))
    pack = augment.draw([5, 6], 3, 8, "cpu")
    assert torch.equal(pack[1], augment.draw([6], 3, 8, "cpu")[0])
    assert not torch.equal(pack[0], pack[1])


def test_augmentation_is_switched_and_changes_inputs_only(tmp_path, monkeypatch):
    monkeypatch.setattr("fpt.tasks.datasets.PREPARED", tmp_path)
    monkeypatch.setattr("fpt.tasks.image_data.SHAPES_SIZES", {"train": 50, "valid": 5, "test": 5})
    task = get_task("shapes")
    plain, again = (task.train_batch([0], 0, 16, "cpu", False) for _ in range(2))
    changed = task.train_batch([0], 0, 16, "cpu", True)
    assert torch.equal(plain.inputs, again.inputs)
    assert torch.equal(plain.targets, changed.targets)
    assert (plain.inputs != changed.inputs).flatten(2).any(-1).all()


def test_a_task_that_the_paper_does_not_augment_is_never_augmented():
    task = get_task("digits")  # a mirrored digit is another sign
    plain, asked = (task.train_batch([0], 0, 16, "cpu", augment) for augment in (False, True))
    assert torch.equal(plain.inputs, asked.inputs)
    assert not get_task("mnist").augmented
    assert get_task("cifar10").augmented


def test_a_pack_transforms_each_image_by_its_own_numbers(images):
    draws = augment.draw([1, 2], 0, 6, "cpu")
    packed = augment.transform(images.view(2, 6, 32, 32, 3), draws)
    for k in range(2):
        for b in range(6):
            alone = augment.transform(images.view(2, 6, 32, 32, 3)[k, b], draws[k, b])
            assert torch.equal(packed[k, b], alone)
