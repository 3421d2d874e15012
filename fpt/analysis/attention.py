"""Attention maps, and how much attention falls on the tokens that matter (paper section 3.5).

The paper shows first-layer maps only. Here every layer and head is measured at the positions that
are read, beside what attention spread evenly over the visible tokens would give.
"""

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor

from ..backbones.gpt2 import GPT2Body
from ..files import FptError
from ..tasks import Batch, Task
from ..tasks.bits import BitMemory, BitXor
from ..training.model import Model


@torch.no_grad()
def maps(model: Model, batch: Batch, keep: Callable[[Tensor], Tensor] = torch.clone) -> Tensor:
    """Attention probabilities (layers, N, heads, T, T): [..., q, k] is what q takes from k.

    N are the examples of the batch for each of the model's runs, one run after the other; without
    dropout, in full precision. Long sequences need much memory (12 layers of 12 heads at 512
    tokens: 150 MB per example): `keep` takes the map of one layer (N, heads, T, T), and what it
    returns is stacked instead.

    transformers' default attention has no probabilities to give, so the blocks are run again with
    its eager one on the same packed vectors.
    """
    body = model.backbone
    if not isinstance(body, GPT2Body) or not body.causal:
        raise FptError(
            f"Attention maps are read from causal GPT-2 bodies, not from {type(body).__name__}; "
            "choose a GPT-2 backbone."
        )
    given: list[Tensor] = []
    kept: list[Tensor] = []
    hooks = [body.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))]
    gpt2 = body.gpt2
    implementation, training = gpt2.config._attn_implementation, model.training
    model.eval()
    try:
        model(batch)
        hooks += [
            block.attn.register_forward_hook(
                lambda _, inputs, outputs: kept.append(keep(outputs[1]))
            )
            for block in gpt2.h
        ]
        gpt2.set_attn_implementation("eager")
        x = given[0]
        future = torch.full((x.shape[1], x.shape[1]), -torch.inf, device=x.device).triu(1)
        for block in gpt2.h:
            x = block(x, attention_mask=future, use_cache=False)
    finally:
        gpt2.set_attn_implementation(implementation)
        model.train(training)
        for hook in hooks:
            hook.remove()
    return torch.stack(kept)


def relevant(task: Task, batch: Batch) -> dict[str, Tensor]:
    """The tokens that an answer needs: (B, R, T) bool for each position read, by their part.

    `partner` must be fetched: for bit-xor the bit of the first string at the same place, for
    bit-memory the same patch of the string that the query was made from. `own` is the token read
    itself. B are the examples of all runs of the batch.
    """
    reads, length = task.reads, task.length
    if isinstance(task, BitXor):
        partner = torch.arange(reads).expand(batch.targets.shape[:2].numel(), reads)
    elif isinstance(task, BitMemory):
        source = task.pattern(batch).flatten().cpu()
        partner = source[:, None] * reads + torch.arange(reads)
    else:
        raise FptError(
            f"Which tokens matter is known for bit-xor and bit-memory, not for {task.name!r}."
        )
    own = torch.arange(length - reads, length).expand_as(partner)
    parts = {"partner": partner, "own": own}
    return {
        name: torch.nn.functional.one_hot(index, length).bool().to(batch.inputs.device)
        for name, index in parts.items()
    }


def mass(probabilities: Tensor, tokens: Tensor) -> Tensor:
    """Attention of the positions read that falls on `tokens`, their mean: (..., N, heads).

    `probabilities` is (..., N, heads, T, T); `tokens` (N, R, T) bool belongs to the last R
    positions.
    """
    reads = tokens.shape[1]
    return (probabilities[..., -reads:, :] * tokens[:, None]).sum(-1).mean(-1)


def chance(tokens: Tensor) -> float:
    """`mass` of causal attention that is spread evenly over the visible tokens."""
    length = tokens.shape[-1]
    even = torch.ones(length, length, dtype=torch.double, device=tokens.device).tril()
    even = even / even.sum(-1, keepdim=True)
    return mass(even[None, None], tokens).mean().item()


def attention_mass(model: Model, batch: Batch) -> pd.DataFrame:
    """`mass` per run, layer and head (each from 0) and part of the relevant tokens.

    One row each: `run`, `layer`, `head`, `part`, `mass` (mean over the examples), `chance`.
    """
    rows = []
    runs = len(model.output.weight)
    parts = relevant(model.task, batch)
    # An evaluation batch is one for all runs; a training batch has the examples of each.
    masks = {name: _for_runs(tokens, batch, runs) for name, tokens in parts.items()}

    def keep(probabilities: Tensor) -> Tensor:  # (parts, runs, heads)
        found = [mass(probabilities, tokens) for tokens in masks.values()]
        return torch.stack([each.unflatten(0, (runs, -1)).mean(1) for each in found])

    levels = {name: chance(tokens) for name, tokens in parts.items()}
    for layer, found in enumerate(maps(model, batch, keep).tolist()):
        for part, by_run in zip(parts, found, strict=True):
            for run, by_head in enumerate(by_run):
                for head, value in enumerate(by_head):
                    rows.append((run, layer, head, part, value, levels[part]))
    return pd.DataFrame(rows, columns=["run", "layer", "head", "part", "mass", "chance"])


def _for_runs(tokens: Tensor, batch: Batch, runs: int) -> Tensor:
    return tokens if len(batch.inputs) == runs else tokens.repeat(runs, 1, 1)
