"""How many parameters each trainable group has, what the frozen backbone computes, and what
memory a training takes."""

import math
from collections.abc import Sequence
from functools import cache

from ..backbones import Backbone, backbone, build, group_of, trained_group
from ..backbones.base import matrices
from ..spec import RunSpec
from ..tasks import Task, task_of
from .model import check_length, nets

# Bytes that a training keeps for each token, layer and unit of width, counted for GPT-2:
# with a frozen backbone, and with a trained one; and for each parameter of either.
KEPT, KEPT_IF_TRAINED = 25, 53
WEIGHT, WEIGHT_IF_TRAINED = 2, 20
CONTEXT = 0.5e9  # bytes of a process on a GPU that does nothing yet


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
    """FLOPs in the record of a run that takes its whole budget of steps, about, if its
    sequences are padded; those of a probe do not depend on its steps.

    Evaluation is left out of a training. It is part of a probe, whose backbone sees each
    split once, or one batch of an endless training set.
    """
    examples = spec.steps * spec.batch
    if spec.procedure == "probe":
        training = task.sizes["train"] or spec.batch
        examples = training + task.sizes["valid"] + task.sizes["test"]
    return (
        flops_per_token(spec, backbone(spec.backbone))
        * examples
        * (task.padded or task.length)
    )


def tokens_of_step(spec: RunSpec) -> int:
    """Tokens of one run in one training step, at most."""
    return spec.batch * task_of(spec).length


def bytes_of(pack: Sequence[RunSpec]) -> float:
    """The memory that a pack takes on a GPU, about."""
    body = backbone(pack[0].backbone)
    is_frozen = packable(pack[0])
    weights = matrix_parameters(body) * (WEIGHT if is_frozen else WEIGHT_IF_TRAINED)
    if pack[0].procedure == "probe":  # it keeps nothing for a gradient of the backbone
        return CONTEXT + weights
    tokens = len(pack) * tokens_of_step(pack[0])
    kept = (KEPT if is_frozen else KEPT_IF_TRAINED) * tokens * body.layers * body.width
    return CONTEXT + weights + kept
