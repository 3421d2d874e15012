"""How much attention falls on the tokens that an answer needs (paper section 3.5).

The paper shows maps of the first layer. Here every layer and head is measured at the
positions that are read, beside what attention spread evenly over the visible tokens would
give.
"""

from contextlib import suppress

import pandas as pd
import torch
from torch import Tensor

from ..backbones.gpt2 import GPT2Backbone
from ..errors import FptError
from ..tasks import Batch, Task
from ..tasks.bits import BitMemory, BitXor
from ..training import device as devices
from ..training.kept import trained_model
from ..training.model import Model, assemble
from .study import Study

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


def attention_mass(study: Study) -> pd.DataFrame:
    """One row per model, task, seed, layer and head (each from 0): `mass` on the needed
    tokens of a fixed random part of the test set, and `chance`. The models are the arms
    whose parameters were kept and, as `fpt untrained`, the first arm's before its first
    step. Runs that are not here have no row."""
    records = study.records()
    device = devices.choose()
    rows: list[tuple[object, ...]] = []
    for run in study.runs:
        record = records.get(run.key)
        if not run.keep or record is None or record.status != "done":
            continue
        models = {}
        with suppress(FptError):  # its backbone's weights are not here
            models[run.arm] = trained_model(record, study.store, device)
            if run.arm == study.arms[0]:
                task = models[run.arm].task
                models[f"{run.arm} untrained"] = assemble([run.spec], task, device)[0]
        for name, model in models.items():
            size = max(8, CELLS // model.task.length**2)
            batch = next(model.task.eval_batches("test", size, device, size))
            tokens = needed(model.task, batch)
            for layer, probabilities in enumerate(maps(model, batch)):
                for head, value in enumerate(mass(probabilities, tokens).tolist()):
                    place = (name, run.task, run.spec.seed, layer, head)
                    rows.append((*place, value, chance(tokens)))
    return pd.DataFrame(rows, columns=COLUMNS)
