"""What the backbones share: selected positions, masks, GELU, initialisation, and dropout.

Dropout: a run draws the same masks alone and in a pack. Before each training step the loop calls
`Draws.begin`. The masks of a run come from one generator seeded by (run seed, "dropout", step),
site after site in the order of construction, each when it is first used. So they do not depend on
the other runs, and a checkpoint needs no generator state.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..tasks.rng import fold, generator

STD = 0.02  # of weights, by default
Device = torch.device | str
Shape = tuple[int, int, int]  # (B, T, width)
Stream = np.random.SFC64 | torch.Generator
NOISE_BLOCK = 64  # evaluation examples whose noise is drawn together


def select_positions(x: Tensor, read: Tensor | None) -> Tensor:
    """The positions `read` (N, R) of x (N, T, width); None: all of them."""
    return x if read is None else x.gather(1, read[..., None].expand(-1, -1, x.shape[-1]))


def visible_keys(mask: Tensor | None) -> Tensor | None:
    """The mask of bidirectional attention, (N, 1, 1, T), from `mask` (N, T), True = a real token.
    None: every token sees all."""
    return None if mask is None else mask[:, None, None]


class Gelu(nn.Module):
    """GELU in its tanh form (GPT-2's `gelu_new`), faster on a CPU than PyTorch's kernel."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate="tanh") if x.is_cuda else GeluOnCPU.apply(x)


class GeluOnCPU(torch.autograd.Function):
    """x / 2 * (1 + tanh(u / 2)) is x * sigmoid(u), and a CPU's sigmoid takes a third of its tanh.

    With u = a x + b x^3 and s = sigmoid(u), the derivative is s + 3 s (1 - s) (u - 2/3 a x). It is
    computed in the forward pass, which reuses its buffers.
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


def matrices(module: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """The weight matrices of Linear and Conv1D layers, which multiply every token: name, tensor,
    and the axis of the inputs (1 in a Linear, 0 in GPT-2's Conv1D)."""
    for path, layer in module.named_modules():
        conv = type(layer).__name__ == "Conv1D"  # of transformers
        if conv or isinstance(layer, nn.Linear):
            yield f"{path}.weight", layer.get_parameter("weight"), 0 if conv else 1


def is_norm(module: nn.Module) -> bool:
    """Whether it is of a type that `fpt.training.packing` gives parameters per run: LayerNorm, and
    the norms of transformers that divide by the root mean square (T5's, and all *RMSNorm)."""
    root_mean_square = type(module).__name__.endswith(("RMSNorm", "T5LayerNorm"))
    return type(module) is nn.LayerNorm or (root_mean_square and not isinstance(module, nn.RMSNorm))


def round_frozen(module: nn.Module) -> None:
    """Store the frozen matrices and their biases in bfloat16. Autocast caches its casts of trained
    parameters only, so it would round frozen ones again at every use; the numbers are the same."""
    for path, _, _ in matrices(module):
        for parameter in module.get_submodule(path.removesuffix(".weight")).parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.bfloat16()


def normal_init_(module: nn.Module, draw: torch.Generator, residual_std: float = STD) -> None:
    """The default initialisation of GPT-2 in the libraries of 2019 to 2021, of BERT, Longformer and
    ViT: weights N(0, 0.02), biases 0, norms 1 and 0. Queries and keys that are parameters of their
    own (`fpt.backbones.pre_norm`) are N(0, 1).

    `residual_std`: of GPT-2's projections that add to the residual stream, which newer libraries
    divide by sqrt(2 * layers).
    """
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            if name == "bias":
                parameter.zero_()
            elif isinstance(part, nn.LayerNorm):
                parameter.fill_(1.0)
            elif name in ("query", "key"):
                parameter.normal_(generator=draw)
            else:
                std = residual_std if path.endswith("c_proj") else STD
                parameter.normal_(0.0, std, generator=draw)


class Draws:
    """The random numbers of one step: dropout masks and noise of K runs."""

    def __init__(self) -> None:
        self.sites: list[float] = []  # drop probability of each site, in order of construction
        self.seeds: tuple[int, ...] = ()
        self.first = 0  # number of the first example of an evaluation batch in its split
        self.step = 0
        self.shape = (0, 0, 0)
        self.masks: list[Tensor] = []  # of this step, by site, as far as they are drawn
        self.streams: list[Stream] = []

    def begin(self, seeds: Sequence[int], step: int, shape: Shape, device: Device) -> None:
        """Start training step `step` of the runs `seeds`. `shape` is (B, T, width) of one run; T
        may exceed the length of the sequences."""
        self.seeds, self.step, self.shape = tuple(seeds), step, shape
        self.masks = []
        if torch.device(device).type == "cpu":
            self.streams = [np.random.SFC64(fold(seed, "dropout", step)) for seed in seeds]
        else:
            self.streams = [generator(device, seed, "dropout", step) for seed in seeds]

    def kept(self, site: int) -> Tensor:
        """The mask of a site in this step, (K, B, T, width) bool, True for a value that is kept."""
        while len(self.masks) <= site:
            keep = 1 - self.sites[len(self.masks)]
            self.masks.append(_draw(self.streams, self.shape, keep))
        return self.masks[site]

    def normal(self, purpose: str, shape: Sequence[int], like: Tensor, training: bool) -> Tensor:
        """Standard normal noise (K, *shape) on the device of `like`; `shape` is (..., B, width).

        In training the key is run and step; in evaluation it is run and number of the example, so
        that the noise depends neither on the pack nor on the size of the batch.
        """

        def drawn(shape: Sequence[int], *key: int) -> Tensor:
            noise = like.new_empty((len(self.seeds), *shape))
            for row, seed in zip(noise, self.seeds, strict=True):
                row.normal_(generator=generator(like.device, seed, purpose, *key))
            return noise

        if training:
            return drawn(shape, self.step)
        *outer, count, width = shape
        first_block, offset = divmod(self.first, NOISE_BLOCK)
        blocks = range(first_block, first_block + -(-(offset + count) // NOISE_BLOCK))
        noise = [drawn((*outer, NOISE_BLOCK, width), -1, block) for block in blocks]
        return torch.cat(noise, -2)[..., offset : offset + count, :]


def _draw(streams: Sequence[Stream], shape: Shape, keep: float) -> Tensor:
    """(K, B, T, width) bool, True with probability `keep`, a row from each stream. On a CPU in
    steps of 1 / 65,536: NumPy draws four such numbers in a word, some thirty times faster than
    torch draws floats."""
    count = math.prod(shape)
    words = [it.random_raw(-(-count // 4)) for it in streams if isinstance(it, np.random.SFC64)]
    if not words:  # on a GPU
        generators = [it for it in streams if isinstance(it, torch.Generator)]
        drawn = [
            torch.rand(shape, generator=it, dtype=torch.float32, device=it.device)
            for it in generators
        ]
        return torch.stack(drawn) < keep
    limit = np.uint16(np.ceil(float(np.float32(keep)) * 65536) - 1)  # keep may be 1, that is 65,536
    numbers = np.stack(words).astype("<u8", copy=False).view("<u2")[:, :count]
    return torch.from_numpy(numbers <= limit).view(len(streams), *shape)


def _scaled(kept: Tensor, scale: float) -> Tensor:
    """`scale` where a value is kept, else 0. A CPU converts bytes four times faster than bools."""
    return kept.view(torch.uint8).float().mul_(scale)


class _Dropped(torch.autograd.Function):
    """y * kept * scale, and `x` added in the same kernel if there is one. The mask is stored as
    bools, a quarter of what a product would store."""

    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        mask = _scaled(kept, scale)
        return y * mask if x is None else torch.addcmul(x, y, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        of_x = gradient if ctx.needs_input_grad[0] else None
        return of_x, gradient * _scaled(kept, ctx.scale), None, None


class Dropout(nn.Module):
    """Dropout at one site of a pack. Inputs are (K*B, T, width); or (K*B, width) at the time step
    `places`; or (K*B, R, width) at the positions `places` (K*B, R)."""

    def __init__(self, p: float, draws: Draws) -> None:
        super().__init__()
        self.p, self.draws, self.site = p, draws, len(draws.sites)
        self.scale = float(1 / np.float32(1 - p))
        draws.sites.append(p)

    def forward(self, x: Tensor, places: int | Tensor | None = None) -> Tensor:
        return self.add(None, x, places)

    def add(self, x: Tensor | None, y: Tensor, places: int | Tensor | None = None) -> Tensor:
        """Dropout of y, added to x if there is one."""
        if not (self.training and self.p):
            return y if x is None else x + y
        return _Dropped.apply(x, y, self.kept(y, places), self.scale)

    def kept(self, x: Tensor, places: int | Tensor | None) -> Tensor:
        """This step's mask, bool, in the shape of `x`."""
        mask = self.draws.kept(self.site)
        if isinstance(places, int):
            mask = mask[:, :, places]
        elif places is not None:
            index = places.view(*mask.shape[:2], -1, 1).expand(-1, -1, -1, mask.shape[-1])
            mask = mask.gather(2, index)
        elif x.shape[1] < mask.shape[2]:
            mask = mask[:, :, : x.shape[1]]
        return mask.reshape(x.shape)
