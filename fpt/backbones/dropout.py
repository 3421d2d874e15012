"""Dropout that a run draws alike alone and in a pack.

The masks of a run in one training step come from one generator, seeded by (run seed,
"dropout", step), site after site in the order of construction, each when it is first used.
So they do not depend on the other runs of the pack, and a checkpoint needs no generator
state.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..tasks.rng import fold, generator

NOISE_BLOCK = 64  # evaluation examples whose noise is drawn together
Device = torch.device | str
Shape = tuple[int, int, int]  # (B, T, width)
Stream = np.random.SFC64 | torch.Generator


class Draws:
    """The random numbers of the runs `seeds`: dropout masks of a training step, and
    noise."""

    def __init__(self, seeds: Sequence[int] = (0,)) -> None:
        self.seeds = tuple(seeds)
        # Drop probability of each site, in order of construction.
        self.sites: list[float] = []
        self.first = 0  # number of the first example of an evaluation batch in its split
        self.step = 0
        self.shape: Shape = (0, 0, 0)
        self.masks: list[Tensor] = []  # of this step, by site, as far as they are drawn
        self.streams: list[Stream] = []

    def begin(self, step: int, shape: Shape, device: Device) -> None:
        """Start a training step. `shape` is (B, T, width) of one run; T may exceed the
        length of the sequences."""
        self.step = step
        self.shape = shape
        self.masks = []
        if torch.device(device).type == "cpu":
            self.streams = [
                np.random.SFC64(fold(seed, "dropout", step)) for seed in self.seeds
            ]
        else:
            self.streams = [generator(device, seed, "dropout", step) for seed in self.seeds]

    def kept(self, site: int) -> Tensor:
        """The mask of a site in this step, (K, B, T, width) bool, True for a value that is
        kept."""
        # Site after site: all masks of a step come from one stream of numbers.
        while len(self.masks) <= site:
            keep = 1 - self.sites[len(self.masks)]
            rows = [draw_mask(stream, self.shape, keep) for stream in self.streams]
            self.masks.append(torch.stack(rows))
        return self.masks[site]

    def normal(
        self, purpose: str, shape: Sequence[int], like: Tensor, training: bool
    ) -> Tensor:
        """Standard normal noise (K, *shape) on the device of `like`; `shape` is (..., B,
        width).

        In training the key is run and step; in evaluation it is run and number of the
        example, so that the noise depends neither on the pack nor on the size of the batch.
        """

        def draw(shape: Sequence[int], *key: int) -> Tensor:
            noise = like.new_empty((len(self.seeds), *shape))
            for row, seed in zip(noise, self.seeds, strict=True):
                row.normal_(generator=generator(like.device, seed, purpose, *key))
            return noise

        if training:
            return draw(shape, self.step)
        # In blocks of examples, so that a batch may begin and end anywhere.
        *outer, count, width = shape
        first_block, offset = divmod(self.first, NOISE_BLOCK)
        blocks = range(first_block, first_block + -(-(offset + count) // NOISE_BLOCK))
        noise = [draw((*outer, NOISE_BLOCK, width), -1, block) for block in blocks]
        return torch.cat(noise, -2)[..., offset : offset + count, :]


def draw_mask(stream: Stream, shape: Shape, keep: float) -> Tensor:
    """One run's mask (B, T, width), bool, True with probability `keep`."""
    if isinstance(stream, torch.Generator):  # on a GPU
        numbers = torch.rand(
            shape, generator=stream, dtype=torch.float32, device=stream.device
        )
        return numbers < keep
    # On a CPU in steps of 1 / 65,536: NumPy draws four such numbers in a word, some thirty
    # times faster than torch draws floats.
    count = math.prod(shape)
    words = stream.random_raw(-(-count // 4)).astype("<u8", copy=False)
    drawn = words.view("<u2")[:count]
    # `keep` may be 1, that is 65,536.
    limit = np.uint16(np.ceil(float(np.float32(keep)) * 65536) - 1)
    return torch.from_numpy(drawn <= limit).view(shape)


class MaskedSum(torch.autograd.Function):
    """y * kept * scale, and `x` added in the same kernel if there is one. The mask is
    stored as bools, a quarter of what a product would store, and converted as bytes, which
    a CPU does four times faster."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor | None, y: Tensor, kept: Tensor, scale: float
    ) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        mask = kept.view(torch.uint8).float().mul_(scale)
        return y * mask if x is None else torch.addcmul(x, y, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        mask = kept.view(torch.uint8).float().mul_(ctx.scale)
        return gradient if ctx.needs_input_grad[0] else None, gradient * mask, None, None


class Dropout(nn.Module):
    """Dropout at one site of a pack. Inputs are (K*B, T, width); or (K*B, width) at the
    time step `places`; or (K*B, R, width) at the positions `places` (K*B, R)."""

    def __init__(self, p: float, draws: Draws) -> None:
        super().__init__()
        self.p = p
        self.draws = draws
        self.site = len(draws.sites)
        self.scale = float(1 / np.float32(1 - p))
        draws.sites.append(p)

    def forward(self, x: Tensor, places: int | Tensor | None = None) -> Tensor:
        return self.add(None, x, places)

    def add(
        self, x: Tensor | None, y: Tensor, places: int | Tensor | None = None
    ) -> Tensor:
        """Dropout of y, added to x if there is one."""
        if not (self.training and self.p):
            return y if x is None else x + y
        return MaskedSum.apply(x, y, self.kept(y, places), self.scale)

    def kept(self, x: Tensor, places: int | Tensor | None) -> Tensor:
        """This step's mask, bool, in the shape of `x`."""
        mask = self.draws.kept(self.site)
        if isinstance(places, int):
            mask = mask[:, :, places]
        elif places is not None:
            runs, size, _, width = mask.shape
            index = places.view(runs, size, -1, 1).expand(-1, -1, -1, width)
            mask = mask.gather(2, index)
        elif x.shape[1] < mask.shape[2]:
            mask = mask[:, :, : x.shape[1]]
        return mask.reshape(x.shape)
