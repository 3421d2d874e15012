"""The checks of a run, wherever its settings come from: params.yaml, `--set`, a reader's
own arm, and the meaning that a run has. Each check raises an FptError that names the place
`where` and the allowed values. Types and ranges are those of fpt/params.schema.yaml.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backbones import backbone
from ..backbones.generic.prefix import check_prefix
from ..backbones.initialisations import INITS
from ..errors import FptError, check_names, placed
from ..project import check, schema
from ..spec import PROBE, RunSpec, probe_of
from ..tasks import Task, task_of
from .model import check_length
from .progress import TRAIN_ITEMS

Allowed = tuple[type, float, float]  # type and range of a value, both ends included
KINDS = {"number": float, "integer": int, "boolean": bool}
SETTINGS: Mapping[str, Allowed] = {
    name: (KINDS[row["type"]], row.get("minimum", False), row.get("maximum", True))
    for name, row in schema()["definitions"]["settings"]["properties"].items()
}
SEED = (int, 0, 2**63 - 1)
EXPECTED = {
    float: "a number such as 0.001 or 1.0e-3, from {} to {}",
    int: "a whole number from {} to {}",
    bool: "true or false",
}
LONG = 1024  # tokens of a sequence from which on a test is shortened
LONG_TEST_ITEMS = 2000  # test examples of such a task at most


def check_value(where: str, value: Any, allowed: Allowed) -> Any:
    """`value` in its type, of which a whole number may be a float; a number of NumPy will
    do."""
    kind, least, most = allowed
    value = value.item() if isinstance(value, np.generic) else value
    # By type, not isinstance: True is an int in Python, and no number of steps.
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds or not least <= value <= most:
        expected = EXPECTED[kind].format(least, most)
        raise FptError(f"{where}: expected {expected}, found {value!r}.")
    return kind(value)


def check_list(where: str, values: Any) -> list[str]:
    """The names in a list, each different."""
    check(where, values, "names")
    return list(values)


def check_settings(where: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run, each in its type."""
    check_names(where, values, SETTINGS)
    return {
        name: check_value(f"{where}.{name}", value, SETTINGS[name])
        for name, value in values.items()
    }


def check_spec(where: str, spec: RunSpec) -> None:
    """A run before it is trained: each of its settings, and what they mean together."""
    check(where, vars(spec), "run")
    with placed(where):
        architecture = backbone(spec.backbone)
        check_length(architecture, task_of(spec))
        if spec.prefix is not None:
            check_prefix(architecture, spec.init, spec.prefix)
        check_together(spec)


def check_together(spec: RunSpec) -> None:
    """FptError for settings that are right by themselves but contradict each other."""
    if INITS[spec.init].reads_weights and spec.weights is None:
        raise FptError(
            f"{spec.init!r} starts from pretrained weights, and there are none; give an "
            "arm that is drawn, such as random, or a model with weights."
        )
    if spec.eval_every > spec.steps:
        raise FptError(
            f"eval_every is {spec.eval_every:,}, above the {spec.steps:,} steps, so that "
            "the training would never be evaluated; give the number of steps at most."
        )
    if spec.procedure == "probe" and spec != probe_of(spec):
        raise FptError(f"a probe fixes {', '.join(PROBE)}; change none of them.")


def check_items(task: Task, settings: Mapping[str, Any]) -> None:
    """FptError if `settings` evaluate more examples than the task's sets have."""
    for name, split in {"eval_items": "valid", "test_items": "test"}.items():
        items = settings.get(name, 0)
        size = task.sizes[split]
        if items > size:
            raise FptError(
                f"{name} is {items:,}, and the set has {size:,} examples; give that at "
                "most, or 0 for all of them."
            )


def evaluated(task: Task, settings: Mapping[str, Any]) -> dict[str, int]:
    """How many examples of each set a run is evaluated on, 0 for all. A number in
    `defaults` is for sets of all sizes, so it is a bound."""
    test = task.sizes["test"]
    eval_items = settings["eval_items"]
    test_items = settings.get("test_items") or test
    # Such a test would take longer than the training.
    if task.length >= LONG:
        test_items = min(test_items, LONG_TEST_ITEMS)
    return {
        "eval_items": eval_items if eval_items <= task.sizes["valid"] else 0,
        "test_items": test_items if test_items < test else 0,
    }


def semantics_of(spec: RunSpec) -> int:
    """Which meaning of its fields a spec has. It is part of a run's key, so the rule never
    changes: 1, unless the meaning had moved when the spec was first trained.

    2: an evaluation reads a part of a set that is not stored in random order, or dropout
    fell on an embedding, or the evaluation of the released LSTM depended on its pack. 3: a
    run starts from a drawn bias or table of positions where there were zeros before.
    """
    task = task_of(spec)
    architecture = backbone(spec.backbone)
    # Without positions, only a drawn bias keeps a token of zeros from the first norm.
    if architecture.meets_bare_tokens and task.kind == "vector":
        return 3
    published = spec.weights is None or spec.weights.startswith("hub:")
    if architecture.family == "vit" and published:
        return 3
    if architecture.family == "lstm-released":
        return 2
    if spec.procedure == "probe":  # it evaluates whole sets, without dropout
        return 1
    counts = {"valid": spec.eval_items, "train": TRAIN_ITEMS}
    in_part = {name for name, count in counts.items() if 0 < count < task.sizes[name]}
    in_order = in_part - {*task.random_order}
    return 2 if in_order or (task.kind == "token" and spec.dropout) else 1
