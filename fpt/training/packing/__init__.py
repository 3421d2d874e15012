"""Packs: K runs on one frozen backbone, trained as one batch of K * B sequences.

A frozen matrix product does not care whose tokens it multiplies. What differs between the
runs is kept as rows of one matrix (K, P): one row per run, one slice of columns per
parameter. Clipping, Adam and leaving the pack are then a few operations on that matrix, and
rows never meet.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from safetensors.torch import save
from torch import Tensor, nn


@dataclass(frozen=True)
class ParameterSlice:
    """One parameter: where it is bound, its shape for one run, and its trainable group."""

    owner: nn.Module
    attribute: str
    shape: tuple[int, ...]
    group: str
    name: str
    packed: bool = True  # with the leading K axis; a trained backbone (K = 1) is without

    @property
    def stored(self) -> str:
        """Its name in a file of kept parameters."""
        return self.name.replace("backbone.", "body.", 1)


class PackedParameters:
    """Parameters of K runs as rows of `values` (K, P), bound into modules as views of
    it."""

    def __init__(self, slices: Sequence[ParameterSlice], trained: bool) -> None:
        self.slices = tuple(slices)
        self.trained = trained
        self.values = torch.empty(0, 0, dtype=torch.float32)
        self.grads: Tensor | None = None

    def bind(self, values: Tensor) -> None:
        """Make `values` (K, P) the parameters. It is used, not copied."""
        self.values = values
        self.grads = torch.zeros_like(values) if self.trained else None
        # Views of the rows: what updates these updates the model, and nothing is copied.
        for part, columns in self.parts():
            # A run that trains its backbone has no K axis there.
            alone = not part.packed and len(values) == 1
            shape = part.shape if alone else (len(values), *part.shape)
            parameter = nn.Parameter(
                values[:, columns].view(shape), requires_grad=self.trained
            )
            if self.grads is not None:
                parameter.grad = self.grads[:, columns].view(shape)
            setattr(part.owner, part.attribute, parameter)

    def differentiate(self, loss: Tensor) -> None:
        """Write the gradient of `loss` into `grads`; a parameter that it does not depend on
        has 0. (`loss.backward()` would add to each view of `grads`, and warn that it may be
        slow.)"""
        parameters = [getattr(part.owner, part.attribute) for part in self.slices]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad.copy_(gradient)

    def parts(self) -> Iterator[tuple[ParameterSlice, slice]]:
        """Every parameter and its columns."""
        start = 0
        for part in self.slices:
            end = start + math.prod(part.shape)
            yield part, slice(start, end)
            start = end

    def stored(self, row: Tensor, trainable: Collection[str]) -> bytes:
        """A safetensors file of a run's `row` (P,): float32 tensors of the groups
        `trainable`."""
        tensors = {
            part.stored: row[columns].view(part.shape).clone()
            for part, columns in self.parts()
            if part.group in trainable
        }
        return save(tensors)

    def mask(self, trainable: Sequence[Collection[str]]) -> Tensor | None:
        """(K, P), 0 where a run does not train a column that a pack mate trains, by the
        groups `trainable` of each run; None: every run trains every column."""
        if all(part.group in groups for part in self.slices for groups in trainable):
            return None
        mask = torch.zeros_like(self.values)
        for part, columns in self.parts():
            for row, groups in zip(mask, trainable, strict=True):
                row[columns] = float(part.group in groups)
        return mask


@dataclass
class Adam:
    """Adam with PyTorch's defaults on the rows of a pack, each clipped by its own norm.

    Nothing here waits for the device: norms and clipping stay tensors.
    """

    rows: PackedParameters
    lr: Tensor  # (K, 1)
    clip: Tensor  # (K, 1)
    warmup: Tensor  # (K, 1), steps in which the rate rises linearly; 1: none
    mask: Tensor | None  # (K, P), 0 where a run does not train a column
    first: Tensor  # moments, (K, P)
    second: Tensor

    beta1, beta2, eps = 0.9, 0.999, 1e-8

    @torch.no_grad()
    def step(self, count: int) -> Tensor:
        """Update number `count` (from 1) with the gradients in the rows; returns norms
        (K,)."""
        bias_of_first = 1 - self.beta1**count
        bias_of_second = 1 - self.beta2**count
        grads = self.rows.grads
        assert grads is not None, "these rows are not trained"
        # Before the norm, so that clipping sees what a run trains and nothing of its mates.
        if self.mask is not None:
            grads.mul_(self.mask)
        norms = torch.linalg.vector_norm(grads, dim=1, keepdim=True)
        # As torch.nn.utils.clip_grad_norm_ has it, for each row.
        grads.mul_((self.clip / (norms + 1e-6)).clamp(max=1.0))
        self.first.lerp_(grads, 1 - self.beta1)
        self.second.mul_(self.beta2).addcmul_(grads, grads, value=1 - self.beta2)
        denominator = (self.second / bias_of_second).sqrt_().add_(self.eps)
        lr = self.lr * (count / self.warmup).clamp(max=1.0)
        update = (self.first * (lr / bias_of_first)).div_(denominator)
        self.rows.values.sub_(update)
        # Parameters keep views of it, so it is emptied, not replaced.
        grads.zero_()
        return norms[:, 0]
