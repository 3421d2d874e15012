"""No transformer: input and output net alone, a control (Tan et al. 2024, arXiv:2406.16964).

The output net reads the vector of the last token, or the mean of all tokens up to it. If several
positions are read, each has its own mean: one over the whole sequence would give all of them the
same answer.
"""

import torch
from torch import Tensor, nn

from .base import Backbone
from .layers import Draws, select_positions


class LastToken(nn.Module):
    """The identity."""

    def __init__(self, spec: Backbone, draws: Draws, dropout: float) -> None:
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        return select_positions(x, read)


class MeanToken(LastToken):
    """At each position the mean of the tokens so far. Padding follows them and has no effect."""

    def forward(self, x: Tensor, mask: Tensor | None = None, read: Tensor | None = None) -> Tensor:
        """As every backbone's `forward` (`fpt.backbones`)."""
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        return select_positions(x.cumsum(1) / count[:, None], read)
