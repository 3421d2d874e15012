"""What is kept of a pretrained body when all but its statistics, or its order, is thrown away.

The controls of the paper's section 3.8 and two more. The paper's random arm draws norms and
positions anew as well, which FPT trains from their pretrained values; so they are parts of their
own here. Each function turns the state of a pretrained body into another one, drawn anew for every
seed; every draw is keyed by (seed, what for, name of the tensor).
"""

from collections.abc import Collection
from typing import Literal

import pandas as pd
import torch
from torch import Tensor, nn

from ..tasks.rng import generator
from . import LAYER, Backbone, group_of
from .common import matrices

State = dict[str, Tensor]  # the body's parameters by name, and "positions" (rows, width)
Level = Literal["tensor", "layer", "global"]
Part = Literal["body", "layernorm", "positions"]


def part_of(spec: Backbone, name: str) -> Part:
    """The part of a body that a tensor belongs to; matrices and their biases are `body`."""
    if name == "positions":
        return "positions"
    return "layernorm" if group_of(spec, name) == "layernorm" else "body"


def is_end(spec: Backbone, name: str) -> bool:
    """Whether the tensor is not of the frozen body but a starting point: a norm, the positions."""
    return part_of(spec, name) != "body"


def resampled(spec: Backbone, body: nn.Module, state: State, seed: int, level: Level) -> State:
    """Statistics only: every tensor drawn from a Gaussian with the mean and std of the old values.

    `level` says over what they are taken: each tensor, the tensors of one layer, or all of them.
    The paper says «the mean and the standard deviation» and neither over what, nor whether norms,
    positions and biases are drawn as well. Here they are, so that nothing else of the pretrained
    body is left; at the two coarse levels like is pooled with like: matrices, their biases, gains
    of norms, biases of norms, positions. A tensor outside the layers, such as GPT-2's last norm,
    is a layer of its own. The three levels share their standard normal draws.
    """
    del body
    pools: dict[tuple[str, ...], list[str]] = {}
    for name in state:
        pools.setdefault(_pool(spec, state, name, level), []).append(name)
    drawn = {}
    for names in pools.values():
        values = torch.cat([state[name].flatten() for name in names]).double()
        mean, std = values.mean().item(), values.std(correction=0).item()
        for name in names:
            draw = generator("cpu", seed, "statistics", name)
            drawn[name] = torch.empty_like(state[name]).normal_(generator=draw) * std + mean
    return {name: drawn[name] for name in state}


def _pool(spec: Backbone, state: State, name: str, level: Level) -> tuple[str, ...]:
    if level == "tensor":
        return (name,)
    end = "end" if is_end(spec, name) else "body"
    if name == "positions":
        kind = "positions"
    else:
        kind = "matrix" if state[name].dim() > 1 else name.rpartition(".")[2]
    return (end, kind, layer_of(name)) if level == "layer" else (end, kind)


def layer_of(name: str) -> str:
    """The number of the tensor's layer, or the tensor's own name outside the layers."""
    found = LAYER.search(name)
    return found[1] if found else name


def shuffled(spec: Backbone, body: nn.Module, state: State, seed: int) -> State:
    """The entries of every tensor in random order: its whole histogram stays, all else goes.

    Not in the paper. Norms, positions and biases are shuffled too; queries, keys and values are one
    tensor in GPT-2, as stored, and mix.
    """
    del spec, body

    def mixed(name: str, tensor: Tensor) -> Tensor:
        order = torch.randperm(tensor.numel(), generator=generator("cpu", seed, "shuffled", name))
        return tensor.flatten()[order].view_as(tensor)

    return {name: mixed(name, tensor) for name, tensor in state.items()}


def permuted_rows(spec: Backbone, body: nn.Module, state: State, seed: int) -> State:
    """Every matrix reads its inputs in random order; each otherwise stays the pretrained one.

    Not in the paper. The axis is that of the *inputs* (rows of GPT-2's Conv1D, columns of a
    Linear): each matrix keeps its singular values and each output unit its weights and bias, so
    that queries, keys, values and heads stay apart; what goes is the fit of a matrix to what is
    written where it reads. Biases, norms and position tables stay pretrained.
    """
    del spec
    permuted = dict(state)
    for name, _, axis in matrices(body):
        draw = generator("cpu", seed, "permuted rows", name)
        order = torch.randperm(state[name].shape[axis], generator=draw)
        permuted[name] = state[name].index_select(axis, order)
    return permuted


def joined(spec: Backbone, kept: Collection[Part], read: State, fresh: State) -> State:
    """The parts `kept` from `read`, the others from `fresh`."""
    return {name: (read if part_of(spec, name) in kept else fresh)[name] for name in read}


def weight_stds(state: State) -> pd.DataFrame:
    """Mean and std of every matrix, one row each: `layer` (from 0), `tensor`, `mean`, `std`.

    The paper has this as a figure only, «Weight STDs per layer in FPT» (section 3.8).
    """
    rows = []
    for name, tensor in state.items():
        found = LAYER.search(name)
        if found is None or tensor.dim() < 2:
            continue
        values = tensor.double()
        rows.append(
            {
                "layer": int(found[1]),
                "tensor": name[found.end() :].removesuffix(".weight"),
                "mean": values.mean().item(),
                "std": values.std(correction=0).item(),
            }
        )
    return pd.DataFrame(rows, columns=["layer", "tensor", "mean", "std"])
