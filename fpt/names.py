"""Models and arms by their one name: what is frozen, how it starts, and what of it is
trained.

fpt/models.yaml and fpt/arms.yaml have a row for each. A run is a model and an arm on a
task; no row is a product of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .backbones import Backbone, backbone
from .errors import FptError, check_free, instead
from .files import read_yaml
from .pretraining.plans import check_weights
from .project import PACKAGE, REGISTRIES, check, import_modules
from .spec import FOUR_GROUPS


@dataclass(frozen=True)
class Model:
    """One row of models.yaml: what is frozen.

    `weights` begins the identity of its pretrained weights, `source` is the one that new
    runs read, if they differ in a corpus, a number of tokens and a seed. `size` names what
    stands in its place: the `lstm-small` of gpt2 is as wide as it.
    """

    name: str
    backbone: str
    weights: str = ""
    source: str = ""
    size: str = ""
    about: str = ""

    @property
    def reads(self) -> str:
        """The identity of the weights that a new run reads; empty if nobody trained any."""
        return self.source or self.weights

    @property
    def in_place(self) -> str:
        """How the names of backbones end that stand in its place."""
        return self.size or self.backbone


@dataclass(frozen=True)
class Arm:
    """One row of arms.yaml, or one of your own: how a backbone starts (`init`), which
    groups are trained (None: the paper's four; `all`), by which `procedure`, on tokens in
    which `order`, and which `backbone` stands in the place of the model, if any."""

    name: str
    id: str = ""
    init: str = "pretrained"
    trainable: Sequence[str] | None = None
    procedure: str = "sgd"
    order: str = "given"
    backbone: str = ""
    color: str = ""

    def groups(self, architecture: Backbone) -> tuple[str, ...]:
        """The groups that this arm trains on a backbone, sorted. A backbone without heads,
        such as an LSTM, knows the order of tokens by itself and has no positions."""
        if self.trainable == "all":
            chosen = {*architecture.groups, "positions"}
        else:
            chosen = {*(self.trainable or FOUR_GROUPS)}
        return tuple(sorted(chosen & {*architecture.trainable}))


def _read(stem: str, kind: Any) -> dict[str, Any]:
    """The rows of a file of this package by name."""
    rows = read_yaml(PACKAGE / f"{stem}.yaml")
    return {name: kind(name, **row) for name, row in rows.items()}


MODELS: dict[str, Model] = _read("models", Model)
ARMS: dict[str, Arm] = _read("arms", Arm)
SHIPPED = frozenset([*MODELS, *ARMS])  # the others are a reader's own
REGISTRIES += [MODELS, ARMS]


def model(name: str) -> Model:
    """The model of this name; FptError if there is none."""
    return _found(name, MODELS, "model")


def arm(name: str) -> Arm:
    """The arm of this name, or with this id; FptError if there is none."""
    by_id = {row.id: row.name for row in ARMS.values() if row.id}
    return _found(by_id.get(name, name), ARMS, "arm")


def _found(name: str, rows: Mapping[str, Any], kind: str) -> Any:
    if name not in rows:
        import_modules()  # a reader's own are registered there
    if name not in rows:
        raise FptError(f"{name!r} is no {kind} of fpt/{kind}s.yaml{instead(name, rows)}.")
    return rows[name]


def in_order(names: Iterable[str], rows: Mapping[str, Any]) -> list[str]:
    """Names in the order of models.yaml or arms.yaml, and after them those of a reader."""
    unique = dict.fromkeys(names)
    return sorted(unique, key=[*rows, *unique].index)


def register_arm(own: Arm) -> None:
    """Make an arm of yours known by its name; for a module that `params.yaml` names under
    `modules`. FptError if the name is taken, or if no run can be what the arm says."""
    check_free("arm", own.name, ARMS)
    check(f"arm {own.name!r}", vars(own), "arm")
    ARMS[own.name] = own


def register_model(own: Model) -> None:
    """Make a model of yours known by its name, as `register_arm` does an arm."""
    check_free("model", own.name, MODELS)
    backbone(own.backbone)
    if own.reads:
        check_weights(own.reads)
    MODELS[own.name] = own
