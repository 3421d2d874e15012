"""Dropout and noise of a pack: every run draws alone what it draws in company.

Before each training step the loop calls `Draws.begin`. The masks of a run come from one generator
seeded by (run seed, "dropout", step), site after site in the order of construction, each when it is
first used. So nothing depends on pack neighbours and nothing needs saving.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..tasks.rng import fold, generator

NOISE_BLOCK = 64  # evaluation examples whose noise is drawn together


class Draws:
    """The random numbers of one step: dropout masks and noise of K runs."""

    def __init__(self) -> None:
        self.sites: list[float] = []  # drop probability of each site, in order of construction
        self.seeds: tuple[int, ...] = ()
        self.first = 0  # number of the first example of an evaluation batch in its split
        self.step = 0
        self.shape = (0, 0, 0)
        self.masks: dict[int, Tensor] = {}  # of this step, by site, as far as they are drawn
        self.streams: list[np.random.SFC64] | list[torch.Generator] = []
        self.device = torch.device("cpu")

    def begin(
        self,
        seeds: Sequence[int],
        step: int,
        shape: tuple[int, int, int],
        device: torch.device | str,
    ) -> None:
        """Start training step `step` of runs `seeds`; `shape` is (B, T, width) of one run, where T
        may be longer than the sequences at hand and the width is a multiple of 4."""
        assert shape[-1] % 4 == 0, "masks are drawn in words of four numbers"
        self.seeds, self.step, self.shape = tuple(seeds), step, shape
        self.device, self.masks = torch.device(device), {}
        if self.device.type == "cpu":
            self.streams = [np.random.SFC64(fold(seed, "dropout", step)) for seed in self.seeds]
        else:
            self.streams = [generator(device, seed, "dropout", step) for seed in self.seeds]

    def kept(self, site: int) -> Tensor:
        """The mask of a site in this step, (K, B, T, width) bool, True where a value is kept."""
        assert self.seeds, "Draws.begin was not called before this step"
        while len(self.masks) <= site:
            keep = 1 - self.sites[len(self.masks)]
            rows = [_draw(stream, self.shape, keep, self.device) for stream in self.streams]
            self.masks[len(self.masks)] = torch.stack(rows)
        return self.masks[site]

    def normal(self, purpose: str, shape: Sequence[int], like: Tensor, training: bool) -> Tensor:
        """Standard normal noise (K, *shape) on the device of `like`; `shape` is (..., B, width).

        In training it is keyed by run and step; in evaluation by run and the example's number, so
        that it depends neither on the pack nor on the size of the batch.
        """
        if training:
            return self._normal(like, shape, purpose, self.step)
        *outer, count, width = shape
        first_block, offset = divmod(self.first, NOISE_BLOCK)
        blocks = range(first_block, first_block + -(-(offset + count) // NOISE_BLOCK))
        block_shape = (*outer, NOISE_BLOCK, width)
        drawn = [self._normal(like, block_shape, purpose, -1, block) for block in blocks]
        return torch.cat(drawn, -2)[..., offset : offset + count, :]

    def _normal(self, like: Tensor, shape: Sequence[int], *key: int | str) -> Tensor:
        rows = [
            torch.randn(
                tuple(shape),
                generator=generator(like.device, seed, *key),
                device=like.device,
                dtype=like.dtype,
            )
            for seed in self.seeds
        ]
        return torch.stack(rows)


def _draw(
    stream: np.random.SFC64 | torch.Generator,
    shape: tuple[int, int, int],
    keep: float,
    device: torch.device,
) -> Tensor:
    """(B, T, width) bool, True with probability `keep`. On a CPU in steps of 1 / 65,536, fine
    enough for dropout: NumPy draws four such numbers in a word, some thirty times faster than torch
    draws floats."""
    if isinstance(stream, torch.Generator):
        return torch.rand(shape, generator=stream, device=device) < keep
    words = stream.random_raw(math.prod(shape) // 4).astype("<u8", copy=False)
    limit = np.uint16(np.ceil(float(np.float32(keep)) * 65536) - 1)  # keep may be 1, that is 65,536
    return torch.from_numpy(words.view("<u2") <= limit).view(shape)


class _Drop(torch.autograd.Function):
    """x * kept * scale. The mask is stored as bools, a quarter of what a product would store."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return x * (kept * scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return gradient * (kept * ctx.scale), None, None


class _AddDropped(torch.autograd.Function):
    """x + y * kept * scale, in one kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return torch.addcmul(x, y, kept * scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return gradient, gradient * (kept * ctx.scale), None, None


class Dropout(nn.Module):
    """Dropout at one site of a pack, on (K*B, T, width), or on the positions `at` of it."""

    def __init__(self, p: float, draws: Draws) -> None:
        super().__init__()
        self.p, self.draws, self.site = p, draws, len(draws.sites)
        self.scale = float(1 / np.float32(1 - p))
        draws.sites.append(p)

    def forward(self, x: Tensor, at: int | Tensor | None = None) -> Tensor:
        """`x` is (K*B, T, width); with `at` a step of time (K*B, width), or with (K*B, R) indices
        the positions read (K*B, R, width)."""
        return _Drop.apply(x, self.kept(x, at), self.scale) if self.training and self.p else x

    def add(self, x: Tensor, y: Tensor, at: Tensor | None = None) -> Tensor:
        """x + dropout of y."""
        if self.training and self.p:
            return _AddDropped.apply(x, y, self.kept(y, at), self.scale)
        return x + y

    def kept(self, x: Tensor, at: int | Tensor | None) -> Tensor:
        """This step's mask, bool, shaped as `x`."""
        mask = self.draws.kept(self.site)
        if isinstance(at, int):
            mask = mask[:, :, at]
        elif at is not None:
            index = at.view(*mask.shape[:2], -1, 1).expand(-1, -1, -1, mask.shape[-1])
            mask = mask.gather(2, index)
        else:
            mask = mask[:, :, : x.shape[1]]
        return mask.reshape(x.shape)

    def extra_repr(self) -> str:
        return f"p={self.p}, site={self.site}"
