"""Training-image augmentation of the released code, batched: crop, flip, rotation."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .rng import generator

PADDING = 4
DEGREES = 20.0


def draw(seeds: Sequence[int], step: int, size: int, device: torch.device | str) -> Tensor:
    """(K, size, 4) uniform in [0, 1): row, column, flip, angle; keyed by run, so K runs packed get
    the numbers that each gets alone."""
    return torch.stack(
        [
            torch.rand(size, 4, generator=generator(device, seed, "augment", step), device=device)
            for seed in seeds
        ]
    )


def transform(images: Tensor, numbers: Tensor) -> Tensor:
    """Random crop after zero padding by 4, horizontal flip, rotation within 20 degrees.

    images (..., H, W, C), numbers (..., 4) in [0, 1) -> (..., H, W, C). The three maps are composed
    into one gather: an output pixel looks up the pixel nearest to its source; 0 outside, at the
    rotation (outside the crop) and at the crop (outside the image) alike.
    """
    height, width = images.shape[-3:-1]
    shift = (numbers[..., :2] * (2 * PADDING + 1)).floor().long() - PADDING
    flip = numbers[..., 2] < 0.5
    angle = (numbers[..., 3] * 2 - 1) * math.radians(DEGREES)

    row = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    column = torch.arange(width, device=images.device) - (width - 1) / 2
    cos, sin = angle.cos()[..., None, None], angle.sin()[..., None, None]
    x = (cos * column - sin * row + (width - 1) / 2).round().long()
    y = (sin * column + cos * row + (height - 1) / 2).round().long()
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)

    x = torch.where(flip[..., None, None], width - 1 - x, x) + shift[..., 1, None, None]
    y = y + shift[..., 0, None, None]
    inside &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
    source = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)).flatten(-2)[..., None]
    pixels = images.flatten(-3, -2).gather(-2, source.expand(*source.shape[:-1], images.shape[-1]))
    return pixels.view(images.shape) * inside[..., None]
