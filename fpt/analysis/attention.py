"""How much attention falls on the tokens that an answer needs (paper section 3.5).

The paper shows maps of the first layer. Here every layer and head is measured at the
positions that are read, beside what attention spread evenly over the visible tokens would
give.
"""

from collections.abc import Iterator
from contextlib import suppress

import pandas as pd
import torch
from torch import Tensor

from ..backbones.gpt2 import GPT2Backbone
from ..errors import FptError
from ..profile import Run
from ..tasks import Batch, Task
from ..tasks.bits import BitMemory, BitXor
from ..training import device as devices
from ..training.kept import trained_model
from ..training.model import Model, assemble
from .study import Study

HEADS = ["task", "arm", "seed", "layer", "head", "mass", "accuracy", "without"]
COLUMNS = ["model", "task", "seed", "layer", "head", "mass", "chance"]
CELLS = 1 << 16  # of the maps of one head: bounds the examples that are measured


@torch.no_grad()
def maps(model: Model, batch: Batch) -> list[Tensor]:
    """Attention probabilities of each layer, (N, heads, T, T): [..., q, k] is what q takes
    from k.

    N are the examples of the batch, for a model of one run; without dropout, in full
    precision. transformers' default attention has no probabilities to give, so the blocks
    are run again with its eager one on the same vectors.
    """
    backbone = model.backbone
    if not isinstance(backbone, GPT2Backbone) or not backbone.causal:
        raise FptError(
            f"Attention maps are read from causal GPT-2 backbones, not from "
            f"{type(backbone).__name__}; choose a GPT-2 backbone."
        )
    inputs: list[Tensor] = []
    probabilities: list[Tensor] = []
    gpt2 = backbone.gpt2
    training = model.training
    implementation = gpt2.config._attn_implementation
    hook = backbone.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    model.eval()
    model(batch)
    hook.remove()
    gpt2.set_attn_implementation("eager")
    x = inputs[0]
    future = torch.full((x.shape[1], x.shape[1]), -torch.inf, device=x.device).triu(1)
    for block in gpt2.h:
        probabilities.append(block.attn(block.ln_1(x), attention_mask=future)[1])
        x = block(x, attention_mask=future, use_cache=False)
    gpt2.set_attn_implementation(implementation)
    model.train(training)
    return probabilities


def needed(task: Task, batch: Batch) -> Tensor:
    """The token that each position read must fetch, one-hot (N, R, T): for bit-xor the bit
    of the first string at the same place, for bit-memory the same patch of the string that
    the query was made from."""
    reads = task.reads
    if isinstance(task, BitXor):
        index = torch.arange(reads).expand(batch.targets.shape[:2].numel(), reads)
    elif isinstance(task, BitMemory):
        index = task.pattern(batch).flatten().cpu()[:, None] * reads + torch.arange(reads)
    else:
        raise FptError(
            "Which tokens matter is known for bit-xor and bit-memory, not for "
            f"{task.name!r}."
        )
    return torch.nn.functional.one_hot(index, task.length).to(
        batch.inputs.device, torch.float
    )


def mass(probabilities: Tensor, tokens: Tensor) -> Tensor:
    """The share of attention of the positions read that falls on `tokens`, by head:
    (heads,).

    `probabilities` is (N, heads, T, T); `tokens` (N, R, T) belongs to the last R
    positions."""
    reads = tokens.shape[1]
    total = torch.einsum("nhrt,nrt->h", probabilities[..., -reads:, :], tokens)
    return total / tokens.shape[:2].numel()


def chance(tokens: Tensor) -> float:
    """`mass` of causal attention that is spread evenly over the visible tokens."""
    # Token t sees t + 1 tokens and takes as much from each.
    even = torch.ones(tokens.shape[-1], tokens.shape[-1], device=tokens.device).tril()
    even = (even / even.sum(-1, keepdim=True)).expand(len(tokens), 1, -1, -1)
    return mass(even, tokens).item()


def head_masses(
    model: Model, batch: Batch, tokens: Tensor
) -> Iterator[tuple[int, int, float]]:
    """Layer and head, each from 0, and the `mass` of the head on `tokens`."""
    for layer, probabilities in enumerate(maps(model, batch)):
        for head, value in enumerate(mass(probabilities, tokens).tolist()):
            yield layer, head, value


def strongest_head(layers: list[Tensor], tokens: Tensor) -> tuple[int, int]:
    """The layer and the head, each from 0, with the most attention on the needed `tokens`;
    `layers` as `maps` gives them."""
    masses = torch.stack([mass(probabilities, tokens) for probabilities in layers])
    layer, head = divmod(int(masses.argmax()), masses.shape[1])
    return layer, head


@torch.no_grad()
def without_heads(model: Model, batch: Batch) -> Tensor:
    """The accuracy on the batch if one head adds nothing, (layers, heads), for a model of
    one run."""
    assert isinstance(model.backbone, GPT2Backbone)  # others have no maps either
    rows = []
    for block in model.backbone.gpt2.h:
        attention = block.attn
        weight = attention.c_proj.weight  # (heads * head_dim, width): reads the heads
        trained = weight.clone()
        accuracies = []
        for head in range(attention.num_heads):
            weight.unflatten(0, (attention.num_heads, -1))[head] = 0
            accuracies.append(model.task.correct(model(batch), batch.targets).mean())
            weight.copy_(trained)
        rows.append(torch.stack(accuracies))
    return torch.stack(rows)


def kept_models(study: Study) -> Iterator[tuple[Run, Model, Batch]]:
    """The runs whose parameters were kept and whose backbone's weights are here, with their
    models and a fixed random part of their test set."""
    records = study.records()
    device = devices.choose()
    for run in study.runs:
        record = records.get(run.key)
        if not run.keep or record is None or record.status != "done":
            continue
        with suppress(FptError):  # its backbone's weights are not here
            model = trained_model(record, study.store, device)
            size = max(8, CELLS // model.task.length**2)
            yield run, model, next(model.task.eval_batches("test", size, device, size))


def needed_heads(study: Study) -> pd.DataFrame:
    """One row per run of `kept_models`, layer and head (each from 0): its `mass`, the
    `accuracy` of the model, and that `without` the head."""
    rows = []
    for run, model, batch in kept_models(study):
        tokens = needed(model.task, batch)
        with torch.no_grad():
            right = model.task.correct(model(batch), batch.targets).mean().item()
        without = without_heads(model, batch)
        place = (run.task, run.arm, run.spec.seed)
        for layer, head, value in head_masses(model, batch, tokens):
            rows.append((*place, layer, head, value, right, without[layer, head].item()))
    return pd.DataFrame(rows, columns=HEADS)


def attention_mass(study: Study) -> pd.DataFrame:
    """One row per model, task, seed, layer and head (each from 0): `mass` on the needed
    tokens of a fixed random part of the test set, and `chance`. The models are the arms
    whose parameters were kept and, as `fpt untrained`, the first arm's before its first
    step. Runs that are not here have no row."""
    rows = []
    for run, trained, batch in kept_models(study):
        models = {run.arm: trained}
        if run.arm == study.arms[0]:
            device = batch.inputs.device
            models[f"{run.arm} untrained"] = assemble([run.spec], trained.task, device)[0]
        tokens = needed(trained.task, batch)
        even = chance(tokens)
        for name, model in models.items():
            place = (name, run.task, run.spec.seed)
            for layer, head, value in head_masses(model, batch, tokens):
                rows.append((*place, layer, head, value, even))
    return pd.DataFrame(rows, columns=COLUMNS)
