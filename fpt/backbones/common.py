"""What the bodies share: where they are read, what a token sees, a default start."""

import torch
from torch import Tensor, nn


def at(x: Tensor, read: Tensor | None) -> Tensor:
    """The positions `read` (N, R) of x (N, T, width); None: all of them."""
    return x if read is None else x.gather(1, read[..., None].expand(-1, -1, x.shape[-1]))


def keys_seen(mask: Tensor | None) -> Tensor | None:
    """What bidirectional attention may look at: (N, 1, 1, T), from `mask` (N, T), True = a real
    token. None: everything."""
    return None if mask is None else mask[:, None, None]


def init_(body: nn.Module, draw: torch.Generator) -> None:
    """The default start of BERT, Longformer, ViT: weights N(0, 0.02), biases 0, norms 1 and 0."""
    for module in body.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias":
                parameter.zero_()
            elif isinstance(module, nn.LayerNorm):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, 0.02, generator=draw)
