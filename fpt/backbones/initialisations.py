"""How a backbone is initialised: pretrained, at random, or with part of the pretrained
weights.

Beside the paper's section 3.8 there are controls of our own. The paper's random arm draws
norms and positions anew as well, which FPT trains from their pretrained values; so they are
parts of their own here. Every draw is keyed by the seed, its purpose and, if tensors are
drawn one by one, the tensor's name. Every backbone is rounded to bfloat16 once, so that no
arm has finer weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import FptError, check_names
from ..tasks.rng import generator
from . import generic, group_of
from .base import (
    FAMILIES,
    LAYER,
    STD,
    Backbone,
    State,
    bare_matrices,
    matrices,
    normal_init_,
)
from .weights import random_positions, read_weights

Part = Literal["body", "layernorm", "positions"]  # `body`: the matrices and their biases


@dataclass(frozen=True)
class Start:
    """What an initial state is made from."""

    architecture: Backbone
    module: nn.Module  # on the meta device
    read: State  # the pretrained weights, empty unless the initialisation reads them
    seed: int

    def part_of(self, name: str) -> Part:
        """The part of the backbone that a tensor belongs to."""
        if name == "positions":
            return "positions"
        return "layernorm" if group_of(self.architecture, name) == "layernorm" else "body"

    def draw(self, *purpose: str) -> torch.Generator:
        """The random numbers of one purpose, the same on every machine."""
        return generator("cpu", self.seed, *purpose)


Make = Callable[[Start], State]


@dataclass(frozen=True)
class Initialisation:
    """`make` gives the initial state, from the pretrained weights if it `reads_weights`:
    some read only their statistics. docs/architecture.md lists what each one keeps."""

    make: Make
    reads_weights: bool = True
    depends_on_seed: bool = True  # then runs with different seeds cannot share a backbone


def random(
    start: Start, init_: Callable[[nn.Module, torch.Generator], None] | None = None
) -> State:
    """The default of the paper's day, N(0, 0.02) for every matrix of a transformer,
    whatever the configuration of a model from the hub says; or the values that `init_`
    draws."""
    init_ = init_ or FAMILIES[start.architecture.family].init_
    draw = start.draw("body")
    module = start.module.to_empty(device="cpu")
    with torch.no_grad():
        init_(module, draw)
    state = {name: parameter.detach() for name, parameter in module.named_parameters()}
    if start.architecture.positions:
        state["positions"] = random_positions(start.architecture, draw)
    return state


def random_own(start: Start) -> State:
    """What the model's own code and configuration draw: SmolLM2 has a standard deviation of
    1/24. Of the families that are built in it is `random`."""
    is_generic = start.architecture.family == "generic"
    return random(start, partial(generic.init_, std=None) if is_generic else None)


def random_scaled(start: Start) -> State:
    """The default of today's libraries: residual projections divided by sqrt(2 *
    layers)."""
    architecture = start.architecture
    if architecture.family != "gpt2":
        raise FptError(
            f"Initialisation 'random-scaled' is GPT-2's; backbone {architecture.name!r} is "
            f"of family {architecture.family!r}: use 'random'."
        )
    std = STD / math.sqrt(2 * architecture.layers)
    return random(start, partial(normal_init_, residual_std=std))


def random_at_scale(start: Start) -> State:
    """`random` with all matrices multiplied by one factor, which gives their entries, taken
    together, the standard deviation of the pretrained ones."""
    fresh = random(start)
    names = [name for name, _, _ in matrices(start.module)]
    if start.architecture.family == "generic":
        names += bare_matrices(start.module)
    spread, drawn_spread = (together(state, names).std() for state in (start.read, fresh))
    factor = (spread / drawn_spread).item()
    return fresh | {name: fresh[name] * factor for name in names}


def together(state: State, names: Sequence[str]) -> Tensor:
    """All entries of several tensors, in double precision."""
    return torch.cat([state[name].flatten() for name in names]).double()


def random_at_scale_with_norms(start: Start) -> State:
    """`random_at_scale` with the pretrained norms: all that is left of the pretraining is
    one scale of the matrices and the gains."""
    return with_parts(start, random_at_scale(start), ("layernorm",))


def with_parts(start: Start, state: State, parts: Sequence[Part]) -> State:
    """`state` with the pretrained values of `parts`."""
    return {
        name: start.read[name] if start.part_of(name) in parts else tensor
        for name, tensor in state.items()
    }


def kept(*parts: Part) -> Make:
    """`parts` pretrained, the others as in `random`: which part carries the effect?"""
    return lambda start: with_parts(start, random(start), parts)


def random_layernorm(start: Start) -> State:
    """Norms as in `random`, all else pretrained."""
    # They are 1 and 0 in every other family, so runs of all seeds share such a backbone.
    if start.architecture.family == "lstm-released":
        raise FptError(
            "Initialisation 'random-layernorm' is for norms that start at 1 and 0; the "
            "released LSTM draws its own."
        )
    return with_parts(start, random(start), ("body", "positions"))


def resampled(start: Start, level: Literal["tensor", "layer", "global"]) -> State:
    """Statistics only: each tensor is drawn from a Gaussian with mean and std of the old
    values.

    `level` says over what these are computed: each tensor, the tensors of one layer, or
    all. The paper says “the mean and the standard deviation” and neither over what, nor
    whether norms, positions and biases are drawn as well. Here they are, so that nothing
    else of the pretrained weights is left; at the two coarse levels like is pooled with
    like: matrices, their biases, gains of norms, biases of norms, positions. A tensor
    outside the layers, such as GPT-2's last norm, is a layer of its own. The three levels
    share their standard normal draws.
    """
    pools: dict[tuple[str, ...], list[str]] = {}
    for name, tensor in start.read.items():
        kind = "matrix" if tensor.dim() > 1 else name.rpartition(".")[2]
        place = {"tensor": name, "layer": layer_of(name), "global": ""}[level]
        pools.setdefault((start.part_of(name), kind, place), []).append(name)
    drawn = {}
    for names in pools.values():
        values = together(start.read, names)
        mean = values.mean().item()
        std = values.std(correction=0).item()
        for name in names:
            noise = torch.empty_like(start.read[name])
            drawn[name] = (
                noise.normal_(generator=start.draw("statistics", name)) * std + mean
            )
    return {name: drawn[name] for name in start.read}


def layer_of(name: str) -> str:
    """The number of the tensor's layer, or the tensor's own name outside the layers."""
    layer = LAYER.search(name)
    return layer[1] if layer else name


def shuffled(start: Start) -> State:
    """The entries of every tensor in random order: its histogram stays, all else goes.

    Not in the paper. Norms, positions and biases are shuffled too; queries, keys and values
    are one tensor in GPT-2, as stored, and mix.
    """
    mixed = {}
    for name, tensor in start.read.items():
        order = torch.randperm(tensor.numel(), generator=start.draw("shuffled", name))
        mixed[name] = tensor.flatten()[order].view_as(tensor)
    return mixed


def permuted_rows(start: Start) -> State:
    """Every matrix reads its inputs in random order and is otherwise the pretrained one.

    Not in the paper. The axis is that of the *inputs* (rows of GPT-2's Conv1D, columns of a
    Linear): each matrix keeps its singular values and each output unit its weights and
    bias, so that queries, keys, values and heads stay apart; the match between a matrix and
    its inputs is lost. Biases, norms and position tables stay pretrained.
    """
    permuted = dict(start.read)
    for name, _, axis in linear_matrices(start):
        draw = start.draw("permuted rows", name)
        order = torch.randperm(permuted[name].shape[axis], generator=draw)
        permuted[name] = permuted[name].index_select(axis, order)
    return permuted


def spectrum(start: Start) -> State:
    """Every matrix keeps its singular values and gets random singular vectors on both
    sides.

    Not in the paper. What is left of a matrix is how much it stretches, not in which
    directions. Biases, norms and position tables stay pretrained.
    """
    rotated = dict(start.read)
    for name, _, _ in linear_matrices(start):
        rows, columns = rotated[name].shape
        values = torch.linalg.svdvals(rotated[name])
        draw = start.draw("spectrum", name)
        left = orthonormal(rows, len(values), draw)
        right = orthonormal(columns, len(values), draw)
        rotated[name] = (left * values) @ right.T
    return rotated


def linear_matrices(start: Start) -> list[tuple[str, Tensor, int]]:
    """`matrices` of a backbone. FptError if its layers have others, which would stay
    pretrained without a word."""
    bare = bare_matrices(start.module) if start.architecture.family == "generic" else []
    if bare:
        raise FptError(
            f"Backbone {start.architecture.name!r} has matrices whose axis of inputs is "
            f"not known, such as {bare[0]}: use 'shuffled' or 'statistics-tensor'."
        )
    return [*matrices(start.module)]


def orthonormal(rows: int, columns: int, draw: torch.Generator) -> Tensor:
    """(rows, columns) with orthonormal columns, uniformly distributed (Haar)."""
    q, r = torch.linalg.qr(torch.randn(rows, columns, generator=draw))
    # QR fixes no signs; those of R's diagonal make the draw uniform (Mezzadri 2007).
    return q * r.diagonal().sign()


INITS: Mapping[str, Initialisation] = {
    "pretrained": Initialisation(lambda start: start.read, depends_on_seed=False),
    # Nothing pretrained: three ways to draw a backbone.
    "random": Initialisation(random, reads_weights=False),
    "random-own": Initialisation(random_own, reads_weights=False),
    "random-scaled": Initialisation(random_scaled, reads_weights=False),
    # The pretrained scale alone, which speeds some tasks up by itself.
    "random-at-scale": Initialisation(random_at_scale),
    "random-at-scale-norms": Initialisation(random_at_scale_with_norms),
    # The pretrained statistics alone, the paper's control, in three readings.
    "statistics-tensor": Initialisation(partial(resampled, level="tensor")),
    "statistics-layer": Initialisation(partial(resampled, level="layer")),
    "statistics-global": Initialisation(partial(resampled, level="global")),
    # The pretrained entries, or singular values, without what connects them.
    "shuffled": Initialisation(shuffled),
    "permuted-rows": Initialisation(permuted_rows),
    "spectrum": Initialisation(spectrum),
    # One part drawn anew, or kept: which part carries the effect?
    "random-body": Initialisation(kept("layernorm", "positions")),
    "random-layernorm": Initialisation(random_layernorm, depends_on_seed=False),
    "random-positions": Initialisation(kept("body", "layernorm")),
    "pretrained-body": Initialisation(kept("body")),
    "pretrained-layernorm": Initialisation(kept("layernorm")),
    "pretrained-positions": Initialisation(kept("positions")),
}


def initial_state(
    architecture: Backbone, module: nn.Module, init: str, weights: str | None, seed: int
) -> State:
    """Initial values of a backbone, `module` on the meta device, and its positions, rounded
    to bf16. FptError for an unknown `init`, and for weights that are missing or do not
    fit."""
    check_names("initialisation", [init], INITS)
    read: State = {}
    if INITS[init].reads_weights:
        assert weights is not None  # as `fpt.training.settings` checks
        read = read_weights(architecture, module, weights)
    state = INITS[init].make(Start(architecture, module, read, seed))
    return {name: tensor.bfloat16().float() for name, tensor in state.items()}
