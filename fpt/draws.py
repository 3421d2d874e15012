"""Dropout and noise of a pack: every run draws alone what it draws in company.

Before each training step the loop calls `Draws.begin`; every run's masks come from one generator
seeded by (run seed, "dropout", step), all sites in order in one draw. So nothing depends on pack
neighbours, nothing needs saving, and there is one kernel per run however deep the body is.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .rng import fold, generator


class Draws:
    """The random numbers of one step: masks (K, sites, B, T, width), scaled by 1 / (1 - p)."""

    def __init__(self) -> None:
        self.sites: list[float] = []  # drop probability of each site, in order of use
        self.masks: Tensor | None = None
        self.seeds: tuple[int, ...] = ()
        self.step = 0

    def begin(
        self, seeds: Sequence[int], step: int, shape: tuple[int, int, int], like: Tensor
    ) -> None:
        """Draw the masks of `step` for runs `seeds`; `shape` is (B, T, width) of one run, where
        T may be longer than the sequences at hand."""
        self.seeds, self.step = tuple(seeds), step
        if not any(self.sites):
            self.masks = None
            return
        full = (len(self.seeds), len(self.sites), *shape)
        if self.masks is None or self.masks.shape != full or self.masks.device != like.device:
            self.masks = torch.empty(full, device=like.device, dtype=like.dtype)
        keep = torch.tensor([1 - p for p in self.sites], device=like.device).view(-1, 1, 1, 1)
        for row, seed in zip(self.masks, self.seeds, strict=True):
            torch.div(_uniform(row, seed, step) < keep, keep, out=row)

    def normal(self, purpose: str, shape: tuple[int, ...], like: Tensor, training: bool) -> Tensor:
        """Standard normal noise (K, *shape), keyed by run and step; fixed outside training."""
        step = self.step if training else -1
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


def _uniform(like: Tensor, seed: int, step: int) -> Tensor:
    """Numbers in [0, 1) shaped as `like`, in steps of 1 / 65,536: fine enough for dropout."""
    if like.device.type == "cpu":  # NumPy draws these ten times faster than torch does
        noise = np.random.Generator(np.random.SFC64(fold(seed, "dropout", step)))
        words = np.frombuffer(noise.bytes(2 * like.numel()), dtype="<u2").reshape(like.shape)
        return torch.from_numpy(words.astype(np.float32)).mul_(2.0**-16)
    draw = generator(like.device, seed, "dropout", step)
    return torch.empty_like(like).uniform_(generator=draw)


class Dropout(nn.Module):
    """Dropout at one site of a pack, on (K*B, T, width), or on the positions `at` of it."""

    def __init__(self, p: float, draws: Draws) -> None:
        super().__init__()
        self.p, self.draws, self.site = p, draws, len(draws.sites)
        draws.sites.append(p)

    def forward(self, x: Tensor, at: int | Tensor | None = None) -> Tensor:
        """`x` is (K*B, T, width); with `at` a step of time (K*B, width), or with (K*B, R) indices
        the positions read (K*B, R, width)."""
        if not self.training or self.p == 0:
            return x
        assert self.draws.masks is not None, "Draws.begin was not called before this step"
        mask = self.draws.masks[:, self.site]
        if at is None:
            mask = mask[:, :, : x.shape[1]]
        if isinstance(at, int):
            mask = mask[:, :, at]
        elif at is not None:
            index = at.view(*mask.shape[:2], -1, 1).expand(-1, -1, -1, mask.shape[-1])
            mask = mask.gather(2, index)
        return (x.view(mask.shape) * mask).view(x.shape)

    def extra_repr(self) -> str:
        return f"p={self.p}, site={self.site}"
