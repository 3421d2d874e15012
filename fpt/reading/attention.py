"""How much attention falls on the tokens that an answer needs (paper section 3.5).

The paper shows maps of the first layer. Here every layer and head is measured at the
positions that are read, beside what attention spread evenly over the visible tokens would
give.
"""

import torch
from torch import Tensor

from ..backbones.gpt2 import GPT2Backbone
from ..errors import FptError
from ..tasks import Batch, Task
from ..tasks.bits import BitMemory, BitXor
from ..training.model import Model


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
