"""How many parameters each trainable group has, and what the frozen backbone computes."""

import math
from collections.abc import Sequence
from functools import cache

from ..backbones import Backbone, backbone, build, group_of, trained_group
from ..backbones.base import matrices
from ..spec import RunSpec
from ..tasks import Task
from .model import check_length, nets


def parameter_counts(
    architecture: Backbone, task: Task, trained: Sequence[str] = ()
) -> dict[str, int]:
    """Parameters by group, on the rows of the position table that `task` uses; of the last
    layer's attention by itself if that is `trained` alone.

    The released code marks all 1,024 position rows as trainable; those beyond the sequence
    never get a gradient, so they are not counted here.
    """
    check_length(architecture, task)
    counts = dict.fromkeys((*architecture.groups, *trained), 0)
    for group, net in nets(task, architecture).items():
        counts[group] = sum(map(math.prod, net.shapes.values()))
    if architecture.positions or "positions" in trained:
        counts["positions"] = task.length * architecture.width
    for name, parameter in build(architecture).named_parameters():
        group = trained_group(architecture, name, trained) or group_of(architecture, name)
        # Groups of parameters that never change the output cannot be trained.
        if group in counts:
            counts[group] += parameter.numel()
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
    """FLOPs in the record of a run that takes its whole budget of steps; those of a probe
    do not depend on its steps.

    Evaluation is left out of a training. It is part of a probe, whose backbone sees each
    split once, or one batch of an endless training set.
    """
    examples = spec.steps * spec.batch
    if spec.procedure == "probe":
        training = task.sizes["train"] or spec.batch
        examples = training + task.sizes["valid"] + task.sizes["test"]
    return flops_per_token(spec, backbone(spec.backbone)) * examples * task.length
