"""Dropout and noise of a pack: every run draws alone what it draws in company.

Before each training step the loop calls `Draws.begin`; every run's masks come from one generator
seeded by (run seed, "dropout", step), all sites in order in one draw. So nothing depends on pack
neighbours, nothing needs saving, and there is one kernel per run however deep the body is.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .device import constant
from .rng import fold, generator


class Draws:
    """The random numbers of one step: masks (sites, K, B, T, width), scaled by 1 / (1 - p)."""

    def __init__(self) -> None:
        self.sites: list[float] = []  # drop probability of each site, in order of use
        self.masks: Tensor | None = None
        self.noise: dict[tuple[str, tuple[int, ...]], Tensor] = {}  # of training, as last drawn
        self.seeds: tuple[int, ...] = ()
        self.step = 0

    def begin(
        self, seeds: Sequence[int], step: int, shape: tuple[int, int, int], like: Tensor
    ) -> None:
        """Draw the masks of `step` for runs `seeds`; `shape` is (B, T, width) of one run, where
        T may be longer than the sequences at hand."""
        self.seeds, self.step = tuple(seeds), step
        # In place where the runs are as many: a CUDA graph reads noise and masks where they were.
        self.noise = {at: it for at, it in self.noise.items() if len(it) == len(self.seeds)}
        for (purpose, size), noise in self.noise.items():
            noise.copy_(self._normal(purpose, size, noise, step))
        if not any(self.sites):
            self.masks = None
            return
        full = (len(self.sites), len(self.seeds), *shape)
        if self.masks is None or self.masks.shape != full or self.masks.device != like.device:
            self.masks = torch.empty(full, device=like.device, dtype=like.dtype)
        draw = _draw_on_cpu if like.device.type == "cpu" else _draw
        for row, seed in zip(self.masks.unbind(1), self.seeds, strict=True):
            draw(row, seed, step, self.sites)

    def normal(self, purpose: str, shape: tuple[int, ...], like: Tensor, training: bool) -> Tensor:
        """Standard normal noise (K, *shape), keyed by run and step; fixed outside training."""
        if not training:
            return self._normal(purpose, shape, like, -1)
        if (purpose, shape) not in self.noise:
            self.noise[purpose, shape] = self._normal(purpose, shape, like, self.step)
        return self.noise[purpose, shape]

    def _normal(self, purpose: str, shape: tuple[int, ...], like: Tensor, step: int) -> Tensor:
        rows = [
            torch.randn(
                shape,
                generator=generator(like.device, seed, purpose, step),
                device=like.device,
                dtype=like.dtype,
            )
            for seed in self.seeds
        ]
        return torch.stack(rows)


def _draw(out: Tensor, seed: int, step: int, drops: Sequence[float]) -> None:
    """Fill `out` (sites, ...): 0 with the site's drop probability p, else 1 / (1 - p)."""
    keep = constant(tuple(1 - p for p in drops), out.device).view(-1, 1, 1, 1)
    noise = torch.empty_like(out).uniform_(generator=generator(out.device, seed, "dropout", step))
    torch.div(noise < keep, keep, out=out)


def _draw_on_cpu(out: Tensor, seed: int, step: int, drops: Sequence[float]) -> None:
    """The same in steps of 1 / 65,536, fine enough for dropout: NumPy draws four such numbers in a
    word, some thirty times faster than torch draws floats."""
    keep = np.array([1 - p for p in drops], np.float32)[:, None]
    limits = np.ceil(keep.astype(float) * 65536) - 1  # 1 - p may be 1, that is 65,536
    words = np.random.SFC64(fold(seed, "dropout", step)).random_raw(-(-out.numel() // 4))
    noise = words.astype("<u8", copy=False).view("<u2")[: out.numel()].reshape(len(keep), -1)
    np.multiply(noise <= limits.astype(np.uint16), 1 / keep, out=out.view(len(keep), -1).numpy())


class Dropout(nn.Module):
    """Dropout at one site of a pack, on (K*B, T, width), or on the positions `at` of it."""

    def __init__(self, p: float, draws: Draws) -> None:
        super().__init__()
        self.p, self.draws, self.site = p, draws, len(draws.sites)
        draws.sites.append(p)

    def forward(self, x: Tensor, at: int | Tensor | None = None) -> Tensor:
        """`x` is (K*B, T, width); with `at` a step of time (K*B, width), or with (K*B, R) indices
        the positions read (K*B, R, width)."""
        return x * self.mask(x, at) if self.training and self.p else x

    def add(self, x: Tensor, y: Tensor, at: Tensor | None = None) -> Tensor:
        """x + dropout of y, in one kernel."""
        return torch.addcmul(x, y, self.mask(y, at)) if self.training and self.p else x + y

    def mask(self, x: Tensor, at: int | Tensor | None) -> Tensor:
        """This step's mask, shaped as `x`."""
        assert self.draws.masks is not None, "Draws.begin was not called before this step"
        mask = self.draws.masks[self.site]
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
