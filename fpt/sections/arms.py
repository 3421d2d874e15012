"""Arms: what is compared. arms.yaml has a row for each of them: which backbone it has, how
that is initialised, and what of it is trained.

Backbones and weights are roles; a profile of params.yaml says which backbone and which
weights play them (`fpt.config`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from ..errors import FptError, check_free
from ..files import read_yaml
from ..project import REGISTRIES, import_modules
from ..training.settings import check_choices, check_list, check_mapping

# What the paper trains around the backbone.
FROZEN = ("input", "layernorm", "output", "positions")


@dataclass(frozen=True)
class Arm:
    """One row of a table. `trainable` None: everything the backbone has; of the groups it
    names, a backbone without a table of positions has no `positions`. `layers` 0: all
    layers."""

    name: str
    label: str
    backbone: str = "transformer"  # its role
    init: str = "pretrained"
    trainable: tuple[str, ...] | None = FROZEN
    weights: str = "language"  # role of the weights, for initialisations that read any
    input_init: str = "orthogonal"
    procedure: str = "sgd"
    order: str = "given"  # of the tokens
    layers: int = 0

    @property
    def role(self) -> str:
        """The role of the backbone in a profile: that of the first layers of a transformer
        is `depth-1`, `depth-2` and so on."""
        return f"depth-{self.layers}" if self.layers else self.backbone


def rows() -> Iterator[Arm]:
    """The arms of arms.yaml."""
    content: Mapping[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))["arms"]
    names = {field.name for field in fields(Arm)} - {"name"}
    for name, row in content.items():
        where = f"arm {name!r} of arms.yaml"
        settings = {"trainable": FROZEN, **check_mapping(where, row, names, ["label"])}
        groups = settings["trainable"]
        trainable = None
        if groups != "all":
            trainable = tuple(check_list(f"{where}.trainable", groups))
        checked = Arm(name=name, **{**settings, "trainable": trainable})
        check_choices(where, vars(checked))
        yield checked


ARMS: dict[str, Arm] = {row.name: row for row in rows()}
REGISTRIES.append(ARMS)


def register_arm(own: Arm) -> None:
    """Make an arm of yours known by its name; for a module that `params.yaml` names under
    `modules`. FptError if the name is taken, or if no run can be what the arm says."""
    check_free("arm", own.name, ARMS)
    check_choices(f"arm {own.name!r}", vars(own))
    ARMS[own.name] = own


def roles(kind: Literal["backbone", "weights"], named: Iterable[str] = ()) -> set[str]:
    """The roles of this kind that arms have, beside depth-1 and so on; those of a reader's
    own arms are among them if one of `named` is not another's."""
    declared = {getattr(row, kind) for row in ARMS.values()}
    if set(named) <= declared:
        return declared
    import_modules()
    return {getattr(row, kind) for row in ARMS.values()}


def arm(name: str) -> Arm:
    """The arm of this name; FptError if the name is none."""
    if name not in ARMS:
        import_modules()  # the reader's own arms are registered there
    if name not in ARMS:
        near = get_close_matches(name, ARMS, n=3)
        guess = f"did you mean {' or '.join(near)}" if near else "the table has them all"
        raise FptError(f"{name!r} is not an arm; {guess} (fpt/sections/arms.yaml).")
    return ARMS[name]


def label(name: str) -> str:
    """What tables and figures call an arm."""
    return arm(name).label
