"""One forward pass of an architecture, with random weights, before anyone trains on it.

An architecture is judged before its checkpoint is fetched, so weights are random. Its own
configuration is tried, at its own width and depth, since what breaks may be in its last
layer. Of a big model only the first layers are, at least one of each kind that its
configuration names: a trial takes seconds then too. Layers share their weights, so that it
takes the memory of one layer.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import FptError
from ..base import is_norm
from .skeleton import (
    FIRST_LAYERS,
    Misfit,
    bare,
    hidden_states,
    judged,
    network,
    per_layer,
    table_of,
    text_of,
    without_tokens,
)

BIG = 50_000_000  # parameters, token embeddings included
LENGTHS = (6, 3)  # of the two sequences of the trial, the first without padding
TOLERANCE = 1e-3  # of a difference, in standard deviations of what is compared
Calls = list[tuple[Any, Tensor]]  # norms and their inputs, in the order of their calls


@dataclass(frozen=True)
class Trial:
    """What an architecture turned out to be."""

    causal: bool  # a token sees none after it
    time_major: bool  # its norms see (T, N, width)
    outputs: int  # width of its hidden states
    unused: frozenset[str]  # parameters outside the layers that change nothing, by name


def tried(config: str) -> Trial:
    """The trial of the architecture of a configuration (JSON). FptError if it cannot run,
    if its hidden states are not those of the whole model, or if padding or another sequence
    of the batch has influence on them."""
    settings = json.loads(config)
    model = network(config)
    with judged(settings["model_type"]):
        if sum(parameter.numel() for parameter in model.parameters()) > BIG:
            few = {FIRST_LAYERS: layers_of_each_kind(model.config)}
            # Some cannot be cut. Then all layers are tried, which takes time alone.
            with suppress(FptError):
                model = network(text_of(settings | few))
        # The program around may have switched gradients off.
        with torch.inference_mode(False), torch.enable_grad():
            return trial(model)


def layers_of_each_kind(config: Any) -> int:
    """How many of the first layers, two or more, have every value of each setting per
    layer."""
    needed = 2
    for values in per_layer(config).values():
        texts = [str(value) for value in values]
        needed = max(needed, 1 + max(map(texts.index, texts)))
    return min(needed, config.num_hidden_layers)


def trial(model: Any) -> Trial:
    """The trial of a model of transformers on the meta device, which it changes. Misfit if
    it does not fit, and any error of its own."""
    width = model.get_input_embeddings().embedding_dim
    path, first_row = table_of(model)
    fill_cheaply(without_tokens(model))
    table = model.get_submodule(path).weight[first_row:] if path else None
    rows = max(LENGTHS) if table is None else len(table)
    lengths = [min(length, rows) for length in LENGTHS]
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(len(lengths), longest, width, generator=draw, dtype=torch.float32)

    # transformers' own hidden states first, then those of the bare model, which must be the
    # same.
    causal = is_causal(model, x)
    used_mask = None if causal else mask  # as in training
    of_transformers = hidden_states(model, x, used_mask)
    if table is not None:
        x = x + table[:longest]
    bare(model)
    outside = parameters_outside(model)
    hidden, norms_of_both = with_norm_inputs(model, x.requires_grad_(), used_mask)
    if hidden.dim() != 3 or hidden.shape[:2] != mask.shape:
        raise Misfit(f"{longest} token vectors give hidden states {tuple(hidden.shape)}")
    if not hidden[mask].isfinite().all():
        raise Misfit("its hidden states are not finite")
    reason = "its positions are not added to the token vectors"
    check_equal(hidden[mask], of_transformers[mask], reason)
    # A parameter without a gradient belongs to no trainable group.
    total = hidden[mask].square().sum()
    of_x, *of_outside = torch.autograd.grad(
        total, [x, *outside.values()], allow_unused=True
    )
    # That of padding too: it would reach what is trained.
    if of_x is None or not of_x.isfinite().all():
        raise Misfit("its gradients are not finite")
    unused = [name for name, of in zip(outside, of_outside, strict=True) if of is None]
    with torch.no_grad():
        first_alone, norms_of_first = with_norm_inputs(model, x[:1], None)
        reason = "another sequence of the batch changes its hidden states"
        check_equal(first_alone[0], hidden[0], reason)
        second_alone = hidden_states(model, x[1:, : lengths[1]], None)
        reason = "padding changes its hidden states"
        check_equal(second_alone[0], hidden[1, : lengths[1]], reason)
        time_major = check_norms(norms_of_both, norms_of_first)
    return Trial(causal, time_major, hidden.shape[-1], frozenset(unused))


def fill_cheaply(model: Any) -> None:
    """Give every parameter random values, the same in each layer: gains near 1,
    biases near 0, matrices that keep the size of a vector."""
    draw = torch.Generator().manual_seed(0)
    values: dict[str, Tensor] = {}
    for path, part in model.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            shape = parameter.shape
            place = f"{re.sub(r'[0-9]+', '', path)}.{name} {tuple(shape)}"
            if place not in values:
                empty = torch.empty(shape, dtype=torch.float32)
                if name == "bias":
                    # Larger ones would make all tokens alike after many layers, and then
                    # nothing would show that one changes another.
                    values[place] = empty.uniform_(-0.1, 0.1, generator=draw)
                elif len(shape) < 2:
                    values[place] = empty.uniform_(0.5, 1.5, generator=draw)
                else:
                    values[place] = empty.normal_(0.0, shape[-1] ** -0.5, generator=draw)
            setattr(part, name, nn.Parameter(values[place], requires_grad=False))


@torch.no_grad()
def is_causal(model: Any, x: Tensor) -> bool:
    """Whether the last token has no influence on those before it."""
    changed = x[:1].clone()
    changed[:, -1] = x[1:2, -1]
    before, after = hidden_states(model, torch.cat([x[:1], changed]), None)
    return bool((before - after)[:-1].abs().max() < TOLERANCE * before.std())


def parameters_outside(model: Any) -> dict[str, nn.Parameter]:
    """The parameters outside the layers and norms, by name: few, so that gradients cost
    little."""
    return {
        f"{path}.{name}".lstrip("."): parameter.requires_grad_()
        for path, part in model.named_modules()
        if not re.search(r"[0-9]", path) and not is_norm(part)
        for name, parameter in part.named_parameters(recurse=False)
    }


def with_norm_inputs(model: Any, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Calls]:
    """The hidden states, and the inputs of the norms that have parameters."""
    calls: Calls = []

    def remember(norm: nn.Module, inputs: tuple[Any, ...]) -> None:
        (value,) = inputs  # a norm that takes a gate too cannot be replaced
        calls.append((norm, value.detach().clone()))

    norms = [part for part in model.modules() if is_norm(part) and [*part.parameters()]]
    handles = [norm.register_forward_pre_hook(remember) for norm in norms]
    hidden = hidden_states(model, x, mask)
    for handle in handles:
        handle.remove()
    return hidden, calls


def are_equal(tensor: Tensor, expected: Tensor) -> bool:
    """Whether both are equal but for rounding; not if one holds what is no number."""
    if tensor.shape != expected.shape:
        return False
    return bool((tensor - expected).abs().max() <= TOLERANCE * expected.std())


def check_equal(tensor: Tensor, expected: Tensor, reason: str) -> None:
    """Misfit for `reason` unless both are equal but for rounding."""
    if not are_equal(tensor, expected):
        raise Misfit(reason)


def check_norms(of_both: Calls, of_first: Calls) -> bool:
    """Whether norms see (T, N, width) rather than (N, T, ..., width), by their inputs for
    two sequences and for the first of them. Misfit unless each norm can have gains per run:
    runs are chunks of the batch, so a norm has to see the batch in order."""
    orders = set()
    for (norm, pair), (_, first) in zip(of_both, of_first, strict=True):
        kind = type(norm).__name__
        if are_equal(pair.flatten()[: first.numel()], first.flatten()):
            orders.add("batch first")
        elif (
            isinstance(norm, nn.LayerNorm)
            and pair.dim() == 3
            and are_equal(pair[:, :1], first)
        ):
            orders.add("time first")
        else:
            raise Misfit(f"{kind} mixes the sequences of a batch")
        if not isinstance(norm, nn.LayerNorm):
            # One of transformers has to take its gain with an axis of runs in front.
            gain = norm.weight
            width = gain.shape[-1]
            expected = norm(pair)
            norm.weight = nn.Parameter(gain.expand(2, 1, width), requires_grad=False)
            per_run = norm(pair.reshape(2, -1, width)).view(expected.shape)
            norm.weight = gain
            check_equal(per_run, expected, f"{kind} takes no gains per run")
    if len(orders) > 1:
        raise Misfit("its norms see batches in different orders")
    return orders == {"time first"}
