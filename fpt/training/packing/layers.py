"""Layers with parameters for each of the K packed runs."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...tasks.rng import generator

INPUT_GAIN = 1.41  # of the orthogonal initialisation in the released code


class Packed(nn.Module):
    """A module whose parameters, one of each per run, are bound by `PackedParameters`;
    `shapes` are those for one run, by name."""

    weight: Tensor
    bias: Tensor

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.shapes = shapes
        for name in shapes:
            self.register_parameter(name, None)


class PackedLinear(Packed):
    """One linear layer per run: (K, B, T, inputs) -> (K, B, T, outputs).

    `drawn_bias`: its bias starts as a random vector that is as long as a column of an
    orthogonal weight, on average, instead of zero. An input net needs it if nothing else is
    added to the token vectors. Without it a token of zeros (a bit 0, a black patch) is a
    vector of zeros, which every norm of the backbone keeps at zero while its backward pass
    multiplies the gradient by 1 / sqrt(eps), 316 as a rule: after a few layers clipping
    leaves nothing of all other gradients, and after thirty they overflow.
    """

    def __init__(self, inputs: int, outputs: int, drawn_bias: bool = False) -> None:
        super().__init__(weight=(outputs, inputs), bias=(outputs,))
        self.drawn_bias = drawn_bias

    def initial(self, name: str, init: str, draw: torch.Generator) -> Tensor:
        """Initial values of one run: the library's `default`; or a matrix that is
        `orthogonal`, as the released code's input net, or `normal`, N(0, 1), and a bias of
        zero or a drawn one."""
        value = torch.zeros(self.shapes[name], dtype=torch.float32)
        if init == "default":
            limit = 1 / math.sqrt(self.shapes["weight"][1])
            return value.uniform_(-limit, limit, generator=draw)
        if name == "bias":
            std = INPUT_GAIN / math.sqrt(len(value))
            return value.normal_(0.0, std, generator=draw) if self.drawn_bias else value
        if init == "normal":
            return value.normal_(generator=draw)
        return nn.init.orthogonal_(value, INPUT_GAIN, draw)

    def forward(self, x: Tensor) -> Tensor:
        runs, size, length, inputs = x.shape
        x = x.reshape(runs, size * length, inputs)
        y = torch.baddbmm(self.bias[:, None], x, self.weight.transpose(1, 2))
        return y.view(runs, size, length, -1)


class PackedEmbedding(Packed):
    """One table of token embeddings per run: (K, B, T) ids -> (K, B, T, width)."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__(weight=(tokens, width))

    def initial(self, name: str, init: str, draw: torch.Generator) -> Tensor:
        """Initial values of one run: N(0, 1), the library's default, whatever `init` is."""
        return torch.zeros(self.shapes[name], dtype=torch.float32).normal_(generator=draw)

    def forward(self, ids: Tensor) -> Tensor:
        tables = self.weight.unbind(0)
        return torch.stack([F.embedding(i, t) for i, t in zip(ids, tables, strict=True)])


class PackedLayerNorm(Packed):
    """Layer norm of (K*B, ..., width) with one gain and bias per run, both (K, width); if
    `norm` is marked as time-major, of (T, K*B, width)."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        shape = tuple(norm.normalized_shape)
        super().__init__(**{name: shape for name, _ in norm.named_parameters()})
        self.shape = shape
        self.eps = norm.eps
        self.time_major = getattr(norm, "time_major", False)
        if norm.bias is None:  # ModernBERT's
            self.register_buffer("bias", torch.zeros(1, *shape, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        runs = self.weight.shape[0]
        if runs == 1:  # the kernel scales and shifts too, in one pass
            return F.layer_norm(x, self.shape, self.weight[0], self.bias[0], self.eps)
        if self.time_major:
            return self.of_batches(x.transpose(0, 1)).transpose(0, 1)
        return self.of_batches(x)

    def of_batches(self, x: Tensor) -> Tensor:
        """The norm of (K*B, ..., width)."""
        runs = self.weight.shape[0]
        # Without gain and bias, which differ between runs; then one fused multiply-add.
        normal = F.layer_norm(x, self.shape, None, None, self.eps).view(
            runs, -1, *self.shape
        )
        return torch.addcmul(self.bias[:, None], normal, self.weight[:, None]).view(x.shape)


class PackedRMSNorm(Packed):
    """A norm of transformers that divides by the root mean square and does not shift, such
    as T5's or Llama's, of (K*B, ..., width) with one gain per run (K, width). The norm
    computes it itself, with its own rounding and, in Gemma, 1 + gain: per-run gains (K, 1,
    width) are broadcast."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(weight=tuple(norm.get_parameter("weight").shape))
        self.eps = float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0)))
        self.scales_by_gain = scales_by_gain(norm, self.eps)
        # The norm computes with whatever gains are bound to it at each call.
        del norm.weight
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        runs, width = self.weight.shape
        if self.scales_by_gain and not x.is_cuda and torch.is_autocast_enabled("cpu"):
            grouped = x.reshape(runs, -1, width)
            return RootMeanSquareInBf16.apply(grouped, self.weight, self.eps).view(x.shape)
        self.norm.weight = self.weight[:, None]
        return self.norm(x.reshape(runs, -1, width)).view(x.shape)


class RootMeanSquareInBf16(torch.autograd.Function):
    """gain * x / sqrt(mean(x^2) + eps) of x (K, N, width) with gains (K, width), in float32
    and rounded once to bf16. transformers' norms would hand float32 to autocast, which
    casts it for every product that reads it: together a tenth to a sixth of a step on a
    CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        normal = x.to(torch.float32, copy=True)
        length = torch.linalg.vector_norm(normal, dim=-1, keepdim=True)
        scale = length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        normal.mul_(scale)
        ctx.save_for_backward(normal, scale, gain)
        ctx.dtype = x.dtype
        return (normal * gain[:, None]).bfloat16()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        normal, scale, gain = ctx.saved_tensors
        gradient = gradient.to(torch.float32, copy=True)
        along = gradient * normal
        of_gain = along.sum(1) if ctx.needs_input_grad[1] else None
        share = (along @ gain[..., None]).div_(normal.shape[-1])
        of_x = gradient.mul_(gain[:, None]).addcmul_(normal, share, value=-1).mul_(scale)
        return of_x.to(ctx.dtype), of_gain, None


@torch.no_grad()
def scales_by_gain(norm: nn.Module, eps: float) -> bool:
    """Whether a norm is the formula of `RootMeanSquareInBf16`, by what it computes: Gemma's
    is not, it multiplies by 1 + gain. Of small vectors too, where `eps` counts."""
    gain = norm.get_parameter("weight").detach().float()
    draw = generator("cpu", 0, "a norm's trial")
    x = torch.randn(3, gain.shape[-1], generator=draw, dtype=torch.float32, device="cpu")
    x *= torch.tensor([[1e-3], [1.0], [30.0]], dtype=torch.float32)
    x = x.to(gain.device)
    expected = gain * x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return torch.allclose(norm(x).float(), expected, rtol=1e-4, atol=1e-6)


def packed(norm: nn.Module) -> Packed:
    """A norm with per-run parameters in place of `norm`, which gives up its own."""
    return PackedLayerNorm(norm) if isinstance(norm, nn.LayerNorm) else PackedRMSNorm(norm)
