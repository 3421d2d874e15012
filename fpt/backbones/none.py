"""No transformer: input and output net alone, a control (Tan et al. 2024, arXiv:2406.16964).

The output net reads the vector of the last token, or the mean of all tokens up to it. Where several
positions are read, each has a mean of its own: one over the whole sequence would give all of them
the same answer.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .common import at
from .dropout import Draws

if TYPE_CHECKING:
    from . import Backbone

GROUPS = ()  # nothing to freeze, nothing to train


class LastToken(nn.Module):
    """The identity."""

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """(N, T, width) -> (N, T, width), or (N, R, width) at the positions `read` (N, R)."""
        return at(x, read)


class MeanToken(nn.Module):
    """At each position the mean of the tokens so far. Padding follows them, so it is not heard."""

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As `LastToken.forward`."""
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return at(x.cumsum(1) / count[:, None], read)


def init_(body: nn.Module, draw: torch.Generator) -> None:
    """There is nothing to start."""


def build_last(spec: "Backbone", draws: Draws, dropout: float) -> LastToken:
    return LastToken()


def build_mean(spec: "Backbone", draws: Draws, dropout: float) -> MeanToken:
    return MeanToken()
