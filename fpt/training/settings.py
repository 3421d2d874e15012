"""The checks of a run, wherever its settings come from: params.yaml, `--set`, a reader's
own arm, and the meaning that a run has. Each check raises an FptError
that names the place `where` and the allowed values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..backbones import BACKBONES, Backbone, backbone
from ..backbones.generic.prefix import check_prefix
from ..backbones.initialisations import INITS
from ..backbones.weights import check_identity
from ..errors import FptError, check_names, placed
from ..spec import PROBE, RunSpec, probe_of
from ..tasks import Task, task_of
from ..tasks.rng import ORDERS
from .model import INPUT_INITS, check_length
from .progress import TRAIN_ITEMS

Allowed = tuple[type, float, float]  # type and range of a value, both ends included

SETTINGS: Mapping[str, Allowed] = {
    "lr": (float, 1e-12, 1e3),
    "batch": (int, 1, 10**6),
    "steps": (int, 1, 10**9),
    "eval_every": (int, 1, 10**9),
    "eval_items": (int, 0, 10**9),
    "test_items": (int, 0, 10**9),
    "threshold": (float, 0, 1),
    "patience": (int, 0, 10**9),
    "clip": (float, 1e-12, 1e12),
    "dropout": (float, 0, 0.99),
    "augment": (bool, False, True),
    "warmup": (int, 0, 10**9),
    "prefix": (int, 0, 10**9),
    "eval_early": (int, 0, 10**9),
}
SEED = (int, 0, 2**63 - 1)
FLAG = (bool, False, True)
EXPECTED = {
    float: "a number such as 0.001 or 1.0e-3, from {} to {}",
    int: "a whole number from {} to {}",
    bool: "true or false",
}
# Evaluation subsets and what is measured are shared by all arms, so arms and blocks may
# not set them.
OF_TASKS = ("eval_items", "test_items", "threshold")
OF_ARMS = tuple(name for name in SETTINGS if name not in OF_TASKS)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "init": tuple(INITS),
    "input_init": INPUT_INITS,
    "procedure": ("sgd", "probe"),
    "order": ORDERS,
}
GROUPS = sorted(
    {group for architecture in BACKBONES.values() for group in architecture.trainable}
)
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


def check_name(where: str, value: Any) -> None:
    if not isinstance(value, str):
        raise FptError(f"{where}: expected a name, found {value!r}.")


def check_mapping(
    where: str, values: Any, names: Iterable[str] | None = None, needed: Iterable[str] = ()
) -> Mapping[str, Any]:
    """`values`, which have all `needed` names, and none but `names` unless these are
    None."""
    if not isinstance(values, Mapping):
        raise FptError(f"{where}: expected settings by name, found {values!r}.")
    if names is not None:
        check_names(where, values, names)
    absent = [name for name in needed if name not in values]
    if absent:
        raise FptError(
            f"{where}: {', '.join(absent)} missing; it needs {', '.join(needed)}."
        )
    return values


def check_list(where: str, values: Any, names: Iterable[str] | None = None) -> list[Any]:
    """The values of a list, each different, and one of `names` unless these are None."""
    if not isinstance(values, list | tuple) or not values:
        raise FptError(f"{where}: expected a list such as [a, b], found {values!r}.")
    if names is not None:
        check_names(where, values, names)
    for value in values:
        if values.count(value) > 1:
            raise FptError(f"{where}: {value!r} appears twice; name it once.")
    return list(values)


def check_settings(
    where: str,
    values: Any,
    extra: Iterable[str] = (),
    names: Iterable[str] = tuple(SETTINGS),
) -> dict[str, Any]:
    """`values`, whose settings `names` have their types; they may have the names `extra`
    too."""
    checked = dict(check_mapping(where, values, (*names, *extra)))
    for name in SETTINGS.keys() & checked.keys():
        checked[name] = check_value(f"{where}.{name}", checked[name], SETTINGS[name])
    return checked


def check_arm(where: str, values: Any, tasks: Iterable[str]) -> dict[str, Any]:
    """Settings of an arm, whose `lr` may be given by task."""
    settings = dict(check_mapping(where, values))
    if not isinstance(settings.get("lr"), Mapping):
        return check_settings(where, settings, names=OF_ARMS)
    rates = settings.pop("lr")
    if not rates:
        raise FptError(f"{where}.lr: expected a rate, or rates by task, found {{}}.")
    checked = check_settings(where, settings, names=OF_ARMS)
    check_names(f"{where}.lr", rates, tasks)
    of_tasks = {
        task: check_value(f"{where}.lr.{task}", rate, SETTINGS["lr"])
        for task, rate in rates.items()
    }
    return {**checked, "lr": of_tasks}


def check_choices(where: str, values: Mapping[str, Any]) -> None:
    """The names in `values` that a run or an arm chooses among: its initialisations, its
    procedure, the order of its tokens, and the groups that it trains (None: all)."""
    for name, allowed in CHOICES.items():
        if name in values:  # an arm says nothing of its input net
            check_names(f"{where}.{name}", [values[name]], allowed)
    if values["trainable"] is not None:
        check_list(f"{where}.trainable", values["trainable"], GROUPS)


def check_spec(where: str, spec: RunSpec) -> None:
    """A run before it is trained: each of its settings, and what they mean together."""
    for name, allowed in {**SETTINGS, "seed": SEED}.items():
        if name != "prefix" or spec.prefix is not None:
            check_value(f"{where}.{name}", getattr(spec, name), allowed)
    check_choices(where, vars(spec))
    check_name(f"{where}.data", spec.data)
    check_name(f"{where}.backbone", spec.backbone)
    if spec.weights is not None:
        check_name(f"{where}.weights", spec.weights)
    with placed(where):
        task = task_of(spec)
        architecture = backbone(spec.backbone)
        check_names(
            f"trainable group of {spec.backbone}", spec.trainable, architecture.trainable
        )
        check_length(architecture, task)
        if spec.weights is not None:
            check_identity(spec.weights)
        if spec.draw is not None:
            check_value("draw", spec.draw, SEED)
        if spec.prefix is not None:
            check_prefix(architecture, spec.init, spec.prefix)
        check_items(task, vars(spec))
        check_together(spec)


def check_together(spec: RunSpec) -> None:
    """FptError for settings that are right by themselves but contradict each other."""
    init = INITS[spec.init]
    if init.reads_weights and spec.weights is None:
        raise FptError(f"the initialisation {spec.init!r} needs weights, found None.")
    if spec.weights is not None and not init.reads_weights:
        raise FptError(
            f"the initialisation {spec.init!r} reads no weights, found {spec.weights!r}."
        )
    if spec.draw is not None and not init.depends_on_seed:
        raise FptError(f"the initialisation {spec.init!r} draws nothing; leave `draw` out.")
    if spec.eval_every > spec.steps:
        raise FptError(
            f"eval_every is {spec.eval_every:,}, above the {spec.steps:,} steps, so that "
            "the training would never be evaluated; give the number of steps at most."
        )
    if spec.procedure == "probe" and spec != probe_of(spec):
        fixed = sorted(
            name for name, value in PROBE.items() if getattr(spec, name) != value
        )
        raise FptError(f"a probe fixes {', '.join(fixed)}; change none of them.")


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
    test_items = settings["test_items"] or test
    # Such a test would take longer than the training.
    if task.length >= LONG:
        test_items = min(test_items, LONG_TEST_ITEMS)
    return {
        "eval_items": eval_items if eval_items <= task.sizes["valid"] else 0,
        "test_items": test_items if test_items < test else 0,
    }


def semantics_of(spec: RunSpec) -> int:
    """Which meaning of its fields a spec has: 1, unless it is among those whose meaning has
    moved. `RunSpec.semantics` is part of a run's key, so records of an older meaning are
    superseded.

    2: an evaluation reads a part of a set that is not stored in random order (the first
    version read the head of it: the shortest sequences, or the first classes), or dropout
    fell on an embedding, or the evaluation of the released LSTM depended on its pack. 3: a
    token of zeros reached the first norm of the backbone as zeros.
    """
    task = task_of(spec)
    architecture = backbone(spec.backbone)
    if starts_anew(spec, architecture, task):
        return 3
    if architecture.family == "lstm-released":
        return 2
    if spec.procedure == "probe":  # it evaluates whole sets, without dropout
        return 1
    if task.kind == "token" and spec.dropout:
        return 2
    in_part = [
        split
        for split, count in {"valid": spec.eval_items, "train": TRAIN_ITEMS}.items()
        if 0 < count < task.sizes[split]
    ]
    return 1 if {*in_part} <= {*task.random_order} else 2


def starts_anew(spec: RunSpec, architecture: Backbone, task: Task) -> bool:
    """Whether a run starts from a drawn bias of its input net or a drawn table of positions
    where there were zeros before: without a table of positions, or on a ViT whose table is
    new."""
    # Without positions, only a drawn bias keeps a token of zeros from the first norm.
    if architecture.meets_bare_tokens:
        return task.kind == "vector" and spec.input_init != "default"
    published = spec.weights is None or spec.weights.startswith("hub:")
    return architecture.family == "vit" and published
