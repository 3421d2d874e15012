"""The backbone that a person at work means by a name, who may also mean a folder.

`fpt.backbones.backbone` gives a name the same meaning in every process, so that runs can be known
by it. A person also writes the name of a folder beside the program. If the same word is the name of
a built-in backbone too, nothing is guessed: one sentence asks which of them is meant.
"""

import os
from dataclasses import replace
from pathlib import Path

from ..files import NAME, SHIPPED, FptError
from . import backbone, known_backbone
from .auto import backbone_at, backbone_in, model_at, split_layers
from .base import Backbone
from .published import comes_in_wheel, pinned
from .weights import folder_of, local_folder

BUILT_IN = "builtin:"  # before a name that is not to be taken for a folder's
EXPLICIT = (BUILT_IN, "hub:", "folder:")
OWN_WEIGHTS = {"nano": "nano-english-0"}  # of built-in backbones, those that ship with the package


def choose(name: object, weights: str | None) -> tuple[Backbone, str]:
    """The backbone `name` and the identity of its weights: of `weights`, or else its own.

    The backbone carries the absolute folder of weights that lie in one, so that it finds them
    wherever the program goes. FptError if there is no such backbone, or if the name has several
    meanings here; whether the weights are there is not looked at.
    """
    architecture = choose_backbone(name if isinstance(name, os.PathLike) else str(name))
    whole, _ = split_layers(architecture.name)  # the first layers have the weights of all
    own = OWN_WEIGHTS.get(whole) or pinned(architecture.hub or whole)
    identity = pinned(weights) if weights else own
    if identity != whole:
        architecture = replace(architecture, folder=place_of(identity))
    return architecture, identity


def choose_backbone(name: str | os.PathLike[str]) -> Backbone:
    """As `backbone`, or the folder or GGUF file of this name, whose path may be relative. `./NAME`
    is always the folder and `builtin:NAME` never. FptError as `choose`."""
    if isinstance(name, os.PathLike):
        return backbone_at(os.fspath(name)) or backbone_in(Path(name))
    if name.startswith(EXPLICIT):
        return backbone(name.removeprefix(BUILT_IN))
    folders = folders_called(name)
    known = spelling_of_known(name)
    spellings = [*folders, *([known] if known else [])]
    if len(spellings) > 1:
        # Whichever were taken, it might silently be the other model.
        raise FptError(
            f"{name!r} has several meanings here; write {' or '.join(map(repr, spellings))}."
        )
    return (backbone_at(folders[0]) if folders else None) or backbone(name)


def spelling_of_known(name: str) -> str:
    """How to write `name` so that it is the built-in or published model; empty if it is none."""
    whole, layers = split_layers(name)
    known = known_backbone(whole)
    if known is None:
        return ""
    if not known.name.startswith("hub:"):
        return BUILT_IN + name
    return known.name if layers is None else f"{known.name}@{layers}"


def folders_called(name: str) -> list[str]:
    """The models `name` in the working directory and in `local_folder()`, by what to write for
    each; one if both are the same folder. The folder in which the weights of a published model are
    kept is no other model."""
    here = model_at(name) if name else None
    local = model_at(str(local_folder() / name)) if NAME.fullmatch(name) else None
    same = here and local and here[0].samefile(local[0])
    spellings = []
    if here and not (same and comes_in_wheel(here[0].name)):
        spellings.append(os.path.join(os.curdir, name))
    if local and not same and not comes_in_wheel(local[0].name):
        spellings.append(str(local_folder() / name))
    return spellings


def place_of(weights: str) -> str:
    """The absolute folder of local weights; empty for those of the hub, of a wheel and of the
    package, which every process finds by their identity, and for those that are not here."""
    if weights.startswith("hub:") or comes_in_wheel(weights):
        return ""
    folder = folder_of(weights)
    return str(folder.resolve()) if folder.is_dir() and folder.parent != SHIPPED else ""
