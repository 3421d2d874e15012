"""How many parameters each trainable group has."""

from collections.abc import Collection

from .backbones import LAST_ATTENTION, Backbone, build, group_of, trained_group
from .draws import Draws
from .model import InputNet, OutputNet
from .tasks import Task


def parameter_counts(spec: Backbone, task: Task) -> dict[str, int]:
    """Parameters by group, on the rows of the position table that `task` uses.

    The released code marks all 1,024 position rows as trainable; those beyond the sequence never
    get a gradient, so they are not counted here.
    """
    nets = {
        "input": InputNet(task.kind, task.dim, spec.width).shapes,
        "output": OutputNet(spec.width, task.answers * task.classes).shapes,
    }
    counts = dict.fromkeys(spec.groups, 0)
    for group, shapes in nets.items():
        counts[group] = sum(_size(shape) for shape in shapes.values())
    if spec.positions:
        counts["positions"] = task.length * spec.width
    for name, parameter in build(spec, Draws(), 0.0).named_parameters():
        counts[group_of(spec, name)] += parameter.numel()
    return counts


def trained_count(spec: Backbone, task: Task, trainable: Collection[str]) -> int:
    """Parameters that a run trains, by the groups or the part of one that it names."""
    counts = parameter_counts(spec, task)
    if LAST_ATTENTION in trainable and "attention" not in trainable:
        counts[LAST_ATTENTION] = sum(
            parameter.numel()
            for name, parameter in build(spec, Draws(), 0.0).named_parameters()
            if trained_group(spec, name, (LAST_ATTENTION,))
        )
    return sum(counts.get(group, 0) for group in trainable)


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def paper_count(layers: int, width: int, tokens: int = 64, dim: int = 16, classes: int = 10) -> int:
    """Trained parameters by the paper's own counting (Table 8 and its appendix).

    It takes CIFAR-10 tokens of 16 numbers, no output bias and no final layer norm:
    width * classes + (dim + 1) * width + 4 * layers * width + tokens * width.
    """
    return width * (classes + dim + 1 + 4 * layers + tokens)
