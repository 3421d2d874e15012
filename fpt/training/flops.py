"""How many parameters each trainable group has, and what the frozen backbone computes."""

import math
from functools import cache

from ..backbones import Backbone, backbone, build, group_of
from ..backbones.base import matrices
from ..spec import RunSpec
from ..tasks import Task
from .model import check_length, nets


def parameter_counts(architecture: Backbone, task: Task) -> dict[str, int]:
    """Parameters by group, on the rows of the position table that `task` uses.

    The released code marks all 1,024 position rows as trainable; those beyond the sequence
    never get a gradient, so they are not counted here.
    """
    check_length(architecture, task)
    counts = dict.fromkeys(architecture.groups, 0)
    for group, net in nets(task, architecture).items():
        counts[group] = sum(map(math.prod, net.shapes.values()))
    if architecture.positions:
        counts["positions"] = task.length * architecture.width
    for name, parameter in build(architecture).named_parameters():
        group = group_of(architecture, name)  # maybe one that is never trained
        counts[group] = counts.get(group, 0) + parameter.numel()
    return counts


@cache
def matrix_parameters(architecture: Backbone) -> int:
    """Parameters of the backbone's matrices, which every token is multiplied by.

    Left out are biases, norms, positions, BERT's token type, T5's relative bias and the
    Linformer's mixing over positions.
    """
    if architecture.family == "gpt2":
        # As it is built, but without transformers, whose import takes long.
        return 12 * architecture.layers * architecture.width**2
    return sum(weight.numel() for _, weight, _ in matrices(build(architecture)))


def packable(spec: RunSpec) -> bool:
    """Whether the run leaves its backbone frozen, so that others can share it."""
    # These have a row for each run; all else of a backbone is one tensor for the whole
    # pack.
    return set(spec.trainable) <= {"input", "output", "layernorm", "positions"}


def flops_per_token(spec: RunSpec, architecture: Backbone) -> int:
    """FLOPs of a training step per token: two per multiply-add, matrices of the backbone
    only.

    The forward pass costs 2 P for P parameters, the gradient by the input another 2 P if
    anything before the output net is trained, and that by the weights another 2 P if the
    backbone is."""
    trained = set(spec.trainable)
    # Forward, the gradient by the input, the gradient by the weights.
    passes = 3
    if packable(spec):
        passes = 1 if trained == {"output"} else 2
    return 2 * passes * matrix_parameters(architecture)


def planned_flops(spec: RunSpec, task: Task) -> int:
    """FLOPs that a run's record counts if it takes its whole budget of steps; a probe's,
    always.

    Evaluation is left out of a training. It is part of a probe, whose backbone sees each
    split once, and one batch if the training set is endless.
    """
    examples = spec.steps * spec.batch
    if spec.procedure == "probe":
        # Of an endless task one batch is drawn.
        examples = (
            (task.sizes["train"] or spec.batch) + task.sizes["valid"] + task.sizes["test"]
        )
    return flops_per_token(spec, backbone(spec.backbone)) * examples * task.length


def forward_flops(architecture: Backbone, length: int) -> int:
    """FLOPs of the backbone's forward pass per token, in a sequence of `length` tokens.

    Two FLOPs per multiply-add, matrix products only: 2 for each of `matrix_parameters`, and
    in each layer with attention 4 * width * keys for the scores and the values they weigh.
    Every query meets all `length` keys, whether a mask hides them or not, as in a kernel
    that skips none; the `rank` keys of a Linformer cost 4 * width * rank more to mix, keys
    and values. That only the positions that are read need a last layer is not counted.
    """
    attention = 0
    if architecture.heads:
        keys = architecture.rank or length
        attention = (
            architecture.layers * 4 * architecture.width * (keys + architecture.rank)
        )
    return 2 * matrix_parameters(architecture) + attention


def as_costly(deep: Backbone, reference: Backbone, length: int) -> Backbone:
    """The first layers of `deep`, as many as take the FLOPs per token nearest to those of
    `reference`, in sequences of `length` tokens."""
    layer = forward_flops(deep, length) / deep.layers
    layers = round(forward_flops(reference, length) / layer)
    return deep if layers >= deep.layers else backbone(f"{deep.name}@{max(1, layers)}")
