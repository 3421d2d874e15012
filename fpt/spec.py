"""RunSpec: everything that can change what one training run estimates, and nothing else.

Device and precision are not in it; the record says what ran. Data and weights are named by
identity (source, revision, preparation), never by path, so a machine without them can still
find every record.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any


def canonical(value: Any) -> str:
    """`value` as JSON with sorted names and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# What the paper trains around a frozen backbone.
FOUR_GROUPS = ("input", "layernorm", "output", "positions")
EARLY_STEPS = 100  # in which `RunSpec.eval_early` counts


@dataclass(frozen=True)
class RunSpec:
    """One training run. Fields with a default are left out of the key while they hold it,
    so that a field can be added without renaming the records that were made before it.
    NumPy scalars become Python's numbers."""

    data: str  # canonical JSON of the task's identity: name, options, source of its data
    backbone: str  # a name of fpt.backbones
    init: str  # initialisation of the backbone, a name of fpt.backbones.initialisations
    weights: str | None  # identity of the weights that `init` reads, None if none
    trainable: tuple[str, ...]  # groups of parameters, sorted
    lr: float  # Adam, constant
    batch: int  # sequences per step
    steps: int  # at most
    eval_every: int  # steps between two evaluations on the validation set
    seed: int  # initial trained parameters, data order, dropout; backbone if `draw` is None
    patience: int = 0  # evaluations without a better accuracy before stopping; 0: never
    clip: float = 1.0  # largest gradient norm
    dropout: float = 0.1  # after a linear input net and in the backbone (not in attention)
    augment: bool = True  # the task's augmentation, if it has one
    procedure: str = "sgd"  # or "probe": see `probe_of`
    input_init: str = "orthogonal"  # a name of fpt.training.model.INPUT_INITS
    order: str = "given"  # of the tokens, or "shuffled": see fpt.training.model
    eval_items: int = 0  # validation examples of an evaluation, see Task.subset; 0: all
    test_items: int = 0  # examples of the test set, see Task.subset; 0: all
    # Seed of a backbone that is drawn, so that one draw can be crossed with several seeds
    # of the nets around it; None: `seed`.
    draw: int | None = None
    threshold: float = 0.0  # validation accuracy; ends two evaluations after it; 0: none
    warmup: int = 0  # steps in which the learning rate rises linearly from 0; 0: none
    # Id of a token of the model's vocabulary, whose frozen vector stands in front of every
    # sequence (`fpt.backbones.generic.prefix`); None: no such token.
    prefix: int | None = None
    # Steps between two evaluations up to step EARLY_STEPS, where fast runs reach their
    # threshold; 0: eval_every.
    eval_early: int = 0
    # A change of what a spec means raises it for the specs concerned
    # (`fpt.training.settings`); their older records are superseded.
    semantics: int = 1

    def __post_init__(self) -> None:
        # A key is made from JSON, which has no NumPy scalars. They are known by `item`,
        # since importing NumPy would delay `fpt --help`.
        for name, value in vars(self).copy().items():
            if hasattr(value, "item"):
                object.__setattr__(self, name, value.item())

    @property
    def task(self) -> str:
        """A name of `fpt.tasks`."""
        return json.loads(self.data)["name"]

    @property
    def backbone_seed(self) -> int:
        """The seed of the backbone, if any of it is drawn."""
        return self.seed if self.draw is None else self.draw

    @property
    def options(self) -> dict[str, Any]:
        """Every option of the task."""
        return json.loads(self.data)["options"]

    def evaluates_at(self, step: int) -> bool:
        """Whether the run is evaluated after this many steps."""
        is_early = self.eval_early > 0 and step <= EARLY_STEPS
        every = self.eval_early if is_early else self.eval_every
        return step % every == 0 or step == self.steps

    def __repr__(self) -> str:
        facts = (
            f"{self.task}, {self.init} {self.backbone}, lr {self.lr:g}, seed {self.seed}"
        )
        return f"<RunSpec {self.key}: {facts}>"

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return values | {"data": json.loads(self.data), "trainable": list(self.trainable)}

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits that name the run."""
        values = self.to_dict()
        named = {
            f.name: values[f.name]
            for f in fields(self)
            if f.name == "semantics" or values[f.name] != f.default
        }
        return hashlib.sha256(canonical(named).encode()).hexdigest()[:16]


def from_dict(values: Mapping[str, Any]) -> RunSpec:
    """The spec that `to_dict` wrote; KeyError or TypeError if a field is missing or
    unknown."""
    data, trainable = canonical(values["data"]), tuple(values["trainable"])
    return RunSpec(**{**values, "data": data, "trainable": trainable})


# What a probe (`fpt.training.probe`) fixes. It has no learning rate and no mini-batches:
# `steps` are L-BFGS iterations at most, for each penalty; `batch` examples are drawn once
# if a task is endless.
PROBE: Mapping[str, Any] = {
    "procedure": "probe",
    "trainable": ("output",),
    "lr": 1.0,
    "batch": 4096,
    "steps": 1000,
    "eval_every": 1000,
    "eval_items": 0,
    "patience": 0,
    "clip": 1.0,
    "dropout": 0.0,
    "augment": False,
    "warmup": 0,
    "eval_early": 0,
}


def probe_of(spec: RunSpec) -> RunSpec:
    """The probe on the task and backbone of `spec`; runs that differ in training share
    one."""
    return replace(spec, **PROBE)
