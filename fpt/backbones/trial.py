"""One forward pass of an architecture, with random weights, before anyone trains on it.

Its own configuration at its own size is tried, not a smaller one: a model cut short is another
model, and what breaks may be in its last layer. Parameters of equal shape share their values, so
that the trial takes the memory of about one layer, and on one core about two seconds for every half
a billion parameters.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .layers import is_norm
from .skeleton import bare, first_line, hidden_states, network, table_of, unfit, without_tokens

LENGTHS = (7, 4, 2)  # of the sequences of the trial
TOLERANCE = 1e-3  # of a difference, in standard deviations of the hidden states


class Misfit(Exception):
    """Why an architecture is no backbone."""


@dataclass(frozen=True)
class Trial:
    """What an architecture turned out to be."""

    causal: bool  # a token sees none after it
    time_major: bool  # its norms see (T, N, width)
    outputs: int  # width of its hidden states
    unused: frozenset[str]  # paths of parameters outside the layers that change nothing


def tried(config: str) -> Trial:
    """The trial of the architecture of a configuration (JSON). FptError if it cannot run, if its
    hidden states are not those of the whole model, or if padding or another sequence of the batch
    has influence on them."""
    model = network(config)
    try:
        return trial(model)
    except Exception as error:  # a misfit, or whatever transformers raised
        raise unfit(config, first_line(error)) from error


def trial(model: Any) -> Trial:
    """The trial of a model of transformers on the meta device, which it changes. Misfit if it does
    not fit, and any error of its own."""
    width = model.get_input_embeddings().embedding_dim
    path, first = table_of(model)
    fill_cheaply(without_tokens(model))
    rows = model.get_submodule(path).num_embeddings - first if path else max(LENGTHS)
    lengths = [min(length, rows) for length in LENGTHS]
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(len(lengths), max(lengths), width, generator=draw)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    causal = is_causal(model, x)
    seen = None if causal else mask  # as in training
    with torch.no_grad():
        whole = hidden_states(model, x, seen)
    vectors = x.clone()
    if path:
        vectors += model.get_submodule(path).weight[first:][: max(lengths)]
    bare(model)
    vectors.requires_grad_()
    outside = parameters_outside(model)
    hidden = hidden_states(model, vectors, seen)
    check_hidden(hidden, mask)
    compare(hidden[mask], whole[mask], "its positions are not added to the token vectors")
    gradients = torch.autograd.grad(
        hidden[mask].square().sum(), [vectors, *outside.values()], allow_unused=True
    )
    if gradients[0] is None or not gradients[0].isfinite().all():
        raise Misfit("its gradients are not finite")
    for row, length in enumerate(lengths):
        with torch.no_grad():
            alone = hidden_states(model, vectors[row : row + 1, :length], None)
        reason = "padding, or another sequence of the batch, changes its hidden states"
        compare(alone[0], hidden[row, :length], reason)
    unused = [name for name, it in zip(outside, gradients[1:], strict=True) if it is None]
    time_major = check_norms(model, vectors.detach())
    return Trial(causal, time_major, hidden.shape[-1], frozenset(unused))


def fill_cheaply(model: Any) -> None:
    """Give every parameter random values, those of equal shape the same: gains and biases near 1,
    matrices that keep the size of a vector."""
    draw, values = torch.Generator().manual_seed(0), {}
    for part in model.modules():
        for name, parameter in part.named_parameters(recurse=False):
            shape = parameter.shape
            if shape not in values:
                empty = torch.empty(shape)
                if len(shape) < 2:
                    values[shape] = empty.uniform_(0.5, 1.5, generator=draw)
                else:
                    values[shape] = empty.normal_(0.0, shape[-1] ** -0.5, generator=draw)
            setattr(part, name, nn.Parameter(values[shape], requires_grad=False))


def parameters_outside(model: Any) -> dict[str, nn.Parameter]:
    """The parameters outside the layers and norms, by name: few, so that gradients cost nothing."""
    outside = {}
    for path, part in model.named_modules():
        if any(piece.isdigit() for piece in path.split(".")) or is_norm(part):
            continue
        for name, parameter in part.named_parameters(recurse=False):
            outside[f"{path}.{name}".lstrip(".")] = parameter.requires_grad_()
    return outside


@torch.no_grad()
def is_causal(model: Any, x: Tensor) -> bool:
    """Whether the last token has no influence on those before it."""
    changed = x[:1].clone()
    changed[:, -1] = x[1:2, -1]
    one, other = hidden_states(model, torch.cat([x[:1], changed]), None)
    return bool((one - other)[:-1].abs().max() < TOLERANCE * one.std())


def check_hidden(hidden: Tensor, mask: Tensor) -> None:
    """Misfit unless these are finite hidden states, one for each token."""
    if hidden.dim() != 3 or hidden.shape[:2] != mask.shape:
        raise Misfit(f"{mask.shape[1]} token vectors give hidden states {tuple(hidden.shape)}")
    if not hidden[mask].isfinite().all():
        raise Misfit("its hidden states are not finite")


def compare(one: Tensor, other: Tensor, reason: str) -> None:
    """Misfit for `reason` unless both are equal but for rounding."""
    apart = (one - other).abs().max()
    if not apart <= TOLERANCE * other.std():  # not a number is apart too
        raise Misfit(reason)


@torch.no_grad()
def check_norms(model: Any, x: Tensor) -> bool:
    """Whether norms see (T, N, width) rather than (N, T, ..., width). Misfit unless each norm can
    have gains per run: runs are chunks of the batch, so a norm has to see the batch in order."""
    both, one = inputs_of_norms(model, x[:2]), inputs_of_norms(model, x[:1])
    time_major = set()
    for (norm, pair), (_, first) in zip(both, one, strict=True):
        if same(pair.flatten()[: first.numel()], first.flatten()):
            time_major.add(False)
        elif pair.dim() == 3 and same(pair[:, :1], first):
            time_major.add(True)
            pair = pair.transpose(0, 1)
        else:
            raise Misfit(f"{type(norm).__name__} mixes the sequences of a batch")
        if not isinstance(norm, nn.LayerNorm):
            check_gains_per_run(norm, pair)
    if len(time_major) > 1:
        raise Misfit("its norms see batches in different orders")
    return time_major == {True}


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two inputs of a norm are equal but for rounding."""
    equal_size = one.shape == other.shape
    return equal_size and bool((one - other).abs().max() <= TOLERANCE * (other.std() + 1))


def inputs_of_norms(model: Any, x: Tensor) -> list[tuple[nn.Module, Tensor]]:
    """The norms with parameters, and their inputs, in the order in which they are called."""
    calls: list[tuple[nn.Module, Tensor]] = []

    def remember(norm: nn.Module, inputs: tuple[Any, ...]) -> None:
        (value,) = inputs  # a norm that takes a gate too cannot be replaced
        calls.append((norm, value.clone()))

    norms = [part for part in model.modules() if is_norm(part) and [*part.parameters()]]
    handles = [norm.register_forward_pre_hook(remember) for norm in norms]
    try:
        hidden_states(model, x, None)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def check_gains_per_run(norm: Any, pair: Tensor) -> None:
    """Misfit unless a norm of transformers takes its gain with an axis of runs in front."""
    gain, width = norm.weight, norm.weight.shape[-1]
    expected = norm(pair)
    norm.weight = nn.Parameter(gain.expand(2, 1, width), requires_grad=False)
    per_run = norm(pair.reshape(2, -1, width)).view(expected.shape)
    norm.weight = gain
    compare(per_run, expected, f"{type(norm).__name__} takes no gains per run")
