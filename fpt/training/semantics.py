"""Which specs mean something else than they did in an earlier version of this project.

`RunSpec.semantics` is part of a run's key, so records of an older meaning are superseded.
"""

from ..backbones import Backbone, backbone
from ..spec import RunSpec
from ..tasks import Task, get_task
from .loop import TRAIN_ITEMS


def semantics_of(spec: RunSpec) -> int:
    """Which meaning of its fields a spec has: 1, unless it is among those whose meaning has moved.

    2: an evaluation reads a part of a set that is not stored in random order (the first version
    read the head of it: the shortest sequences, or the first classes), or dropout fell on an
    embedding, or the evaluation of the released LSTM depended on its pack.
    3: a token of zeros reached the first norm of the backbone as zeros.
    """
    task = get_task(spec.task, **spec.options)
    architecture = backbone(spec.backbone)
    if starts_anew(spec, architecture, task):
        return 3
    if architecture.family == "lstm-released":
        return 2
    if spec.procedure == "probe":  # it evaluates whole sets, without dropout
        return 1
    if task.kind == "token" and spec.dropout:
        return 2
    for split, count in {"valid": spec.eval_items, "train": TRAIN_ITEMS}.items():
        if 0 < count < task.sizes[split] and split not in task.random_order:
            return 2
    return 1


def starts_anew(spec: RunSpec, architecture: Backbone, task: Task) -> bool:
    """Whether a run starts from a drawn bias of its input net or a drawn table of positions where
    there were zeros before: without a table of positions, or on a ViT whose table is new."""
    if architecture.meets_bare_tokens:
        return task.kind == "vector" and spec.input_init != "default"
    published = spec.weights is None or spec.weights.startswith("hub:")
    return architecture.family == "vit" and published
