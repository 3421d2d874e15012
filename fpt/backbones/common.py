"""What the bodies share: where they are read, what a token sees, GELU, their matrices, a default
start."""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def at(x: Tensor, read: Tensor | None) -> Tensor:
    """The positions `read` (N, R) of x (N, T, width); None: all of them."""
    return x if read is None else x.gather(1, read[..., None].expand(-1, -1, x.shape[-1]))


def keys_seen(mask: Tensor | None) -> Tensor | None:
    """What bidirectional attention may look at: (N, 1, 1, T), from `mask` (N, T), True = a real
    token. None: everything."""
    return None if mask is None else mask[:, None, None]


class Gelu(nn.Module):
    """GELU in its tanh form (GPT-2's `gelu_new`), quicker on a CPU than the kernel there is."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh") if x.is_cuda else GeluOnCPU.apply(x)


class GeluOnCPU(torch.autograd.Function):
    """x / 2 * (1 + tanh(u / 2)) is x * sigmoid(u), and a CPU's sigmoid takes a third of its tanh.

    With u = a x + b x^3 and s = sigmoid(u), the derivative is s + 3 s (1 - s) (u - 2/3 a x). It is
    taken on the way, in place: memory written once and read never again is what costs here.
    """

    a = 2 * math.sqrt(2 / math.pi)
    b = 0.044715 * a

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        u = torch.addcmul(x.new_tensor(GeluOnCPU.a), x, x, value=GeluOnCPU.b).mul_(x)
        s = u.sigmoid()
        if ctx.needs_input_grad[0]:
            u.sub_(x, alpha=2 / 3 * GeluOnCPU.a).addcmul_(u, s, value=-1)
            ctx.save_for_backward(torch.addcmul(s, s, u, value=3, out=u))
        return s.mul_(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0]


def matrices(body: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """The weights that every token is multiplied by, with their names, and the axis of their
    inputs: 1 in a Linear, 0 in GPT-2's Conv1D."""
    for path, module in body.named_modules():
        conv = type(module).__name__ == "Conv1D"  # of transformers
        if conv or isinstance(module, nn.Linear):
            yield f"{path}.weight", module.get_parameter("weight"), 0 if conv else 1


def round_frozen(body: nn.Module) -> None:
    """Keep the frozen matrices and biases of a body in bfloat16. Autocast would round them anew at
    every use, as it remembers only the roundings of what is trained; the numbers are the same."""
    for path, _, _ in matrices(body):
        for parameter in body.get_submodule(path.removesuffix(".weight")).parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()


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
