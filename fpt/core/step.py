"""The net of one run, and the one training step as a pure function of K runs.

A step takes rows, moments, the number of the step, a batch and dropout masks, and gives new
rows, moments, losses and norms. Nothing in it draws a number, reads a tensor on the host or
changes what it was given, so the same step runs on a CPU, is compiled, and is captured on a
GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils._pytree import tree_map

from ..tasks import Task
from .draws import Body

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # PyTorch's defaults of Adam
Rows = dict[str, Tensor]  # the trained parameters of K runs by name, (K, ...)


class Net(nn.Module):
    """The paper's model of one run: input net, positions, frozen backbone, output net on
    the positions that are read."""

    def __init__(
        self, task: Task, backbone: Body, width: int, outputs: int, has_positions: bool
    ) -> None:
        super().__init__()
        self.answers = task.classes
        self.width = width
        # The released code drops values of its linear input nets, none of its embeddings.
        self.drops_input = task.kind == "vector"
        with torch.device("meta"):  # values are handed in
            kind = nn.Linear if self.drops_input else nn.Embedding
            self.input: nn.Module = kind(task.dim, width)
            table = torch.empty(task.length, width)
            self.positions = nn.Parameter(table) if has_positions else None
            self.output = nn.Linear(outputs, task.answers * task.classes)
        self.prefix: Tensor | None  # (width,): a frozen vector in front of every sequence
        self.register_buffer("prefix", None)
        self.backbone = backbone

    @property
    def state_names(self) -> dict[str, str]:
        """The names of its parameters in states and draws, by their names here."""
        inside = {
            f"backbone.{a}": f"backbone.{b}" for a, b in self.backbone.state_names.items()
        }
        return {name: inside.get(name, name) for name, _ in self.named_parameters()}

    def forward(
        self,
        inputs: Tensor,
        real: Tensor | None,
        read: Tensor,
        masks: Tensor | None,
        noise: Tensor | None = None,
        features: bool = False,
    ) -> Tensor:
        """Logits (B, R, classes), or with `features` what the output net reads (B,
        positions read, width). `inputs` are vectors (B, T, D) or symbols (B, T), `real` (B,
        T) is False for padding, `read` (B, R) are the positions that are read, `masks`
        (sites, B, T, width) and `noise` are draws (`fpt.core.draws`)."""
        self.backbone.masks.begin(masks, noise)
        x = self.input(inputs)
        if self.drops_input:
            x = self.backbone.masks.drop(x)
        if self.positions is not None:
            x = x + self.positions[: x.shape[1]]
        if self.prefix is not None:
            x = torch.cat([self.prefix.expand(len(x), 1, -1), x], 1)
            read = read + 1
            if real is not None:
                real = torch.cat([torch.ones_like(real[:, :1]), real], 1)
        if torch.is_autocast_enabled(x.device.type) and x.device.type == "cpu":
            # As what the backbone's products add to them; in float32 every sum would be.
            x = x.bfloat16()
        hidden = self.backbone(x, real)
        self.backbone.masks.end()
        index = read[..., None].expand(-1, -1, hidden.shape[-1])
        hidden = hidden.gather(1, index)
        if features:
            return hidden
        return self.output(hidden).unflatten(-1, (-1, self.answers)).flatten(1, 2)


@dataclass(frozen=True)
class Settings:
    """How each of K runs is trained: (K,) rates, norms at which a gradient is clipped, and
    steps in which the rate rises linearly (1: none). `trained` says of a parameter which
    runs train it, 0 or 1 (K,); without a row for it, all."""

    lr: Tensor
    clip: Tensor
    warmup: Tensor
    trained: Mapping[str, Tensor]


@dataclass(frozen=True)
class Step:
    """A training step of K runs of `net` on one task. `shared` are its parameters and
    buffers that all runs have and none trains."""

    net: Net
    task: Task
    shared: Mapping[str, Tensor]
    settings: Settings
    device: str = "cpu"
    bf16: bool = False

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Let the attention of the net be that of these runs: it is shared with the steps
        of others."""
        is_plain = self.device == "cpu" and (len(self.settings.lr) > 1 or self.bf16)
        self.net.backbone.attend("plain" if is_plain else "fused")

    def with_settings(self, settings: Settings) -> "Step":
        """The same step of other runs."""
        return replace(self, settings=settings)

    def logits(self, rows: Rows, *inputs: Tensor | bool | None) -> Tensor:
        """What `Net` gives for one run, whose rows have no leading axis."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            return functional_call(self.net, {**self.shared, **rows}, inputs)

    def features(self, rows: Rows, *inputs: Tensor | None) -> Tensor:
        """What the output net of one run reads."""
        return self.logits(rows, *inputs, True)

    def loss(
        self,
        rows: Rows,
        fixed: Rows,
        inputs: Tensor,
        real: Tensor | None,
        read: Tensor,
        targets: Tensor,
        masks: Tensor | None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of one run, from its rows without their leading axis, and those
        that it does not train: `fixed`."""
        logits = self.logits({**fixed, **rows}, inputs, real, read, masks, noise)
        return self.task.losses(logits[None], targets[None]).mean()

    def __call__(
        self, rows: Rows, first: Rows, second: Rows, count: Tensor, *arguments: Any
    ) -> tuple[Rows, Rows, Rows, Tensor, Tensor]:
        """Update number `count` (from 1): rows, both moments, losses (K,) and norms (K,)
        before clipping. `arguments` is what `loss` takes after the rows, each (K, ...)."""
        gradients, losses = self.each(grad_and_value(self.loss), rows, *arguments)
        for name, trains in self.settings.trained.items():
            gradients[name] = gradients[name] * of_runs(trains, gradients[name])
        squares = [gradient.flatten(1).square().sum(1) for gradient in gradients.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        # As torch.nn.utils.clip_grad_norm_ has it, for each run.
        shrink = (self.settings.clip / (norms + 1e-6)).clamp(max=1.0)
        lr = self.settings.lr * (count / self.settings.warmup).clamp(max=1.0)
        rate = lr / (1 - BETA1**count)
        new_rows, new_first, new_second = {}, {}, {}
        for name, row in rows.items():
            gradient = gradients[name] * of_runs(shrink, row)
            new_first[name] = first[name].lerp(gradient, 1 - BETA1)
            new_second[name] = second[name] * BETA2 + gradient.square() * (1 - BETA2)
            size = (new_second[name] / (1 - BETA2**count)).sqrt() + EPS
            new_rows[name] = row - of_runs(rate, row) * new_first[name] / size
        return new_rows, new_first, new_second, losses, norms

    def each(self, function: Any, *arguments: Any) -> Any:
        """A function of one run for each of K runs, whose arguments and results are
        tensors, or mappings of them, with a leading axis of runs; None is None for all."""
        if len(self.settings.lr) > 1:
            axes = tuple(None if part is None else 0 for part in arguments)
            return vmap(function, in_dims=axes)(*arguments)
        # A single run has no overhead of runs beside each other.
        alone = tree_map(lambda part: part if part is None else part[0], arguments)
        return tree_map(lambda part: part[None], function(*alone))


def of_runs(values: Tensor, like: Tensor) -> Tensor:
    """(K,) numbers of the runs, to be multiplied with `like` (K, ...)."""
    return values.view(-1, *[1] * (like.dim() - 1))
