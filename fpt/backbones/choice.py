"""The backbone that a person at work means by a name, who may also mean a folder.

`fpt.backbones.backbone` gives a name the same meaning in every process, so that runs can be known
by it. A person also writes the name of a folder beside the program. If the same word is the name of
a built-in backbone too, nothing is guessed: one sentence asks which of them is meant.
"""

import os
from dataclasses import replace
from pathlib import Path

from ..files import NAME, SHIPPED, FptError
from . import BACKBONES, BY_REPOSITORY, backbone
from .auto import backbone_in, holds_model, pinned
from .base import Backbone
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
    whole, _, _ = architecture.name.partition("@")  # the first layers have the weights of all
    own = OWN_WEIGHTS.get(whole) or pinned(architecture.hub or architecture.name)
    identity = pinned(weights) if weights else own
    if identity != architecture.name:
        architecture = replace(architecture, folder=place_of(identity))
    return architecture, identity


def choose_backbone(name: str | os.PathLike[str]) -> Backbone:
    """As `backbone`, or the folder of this name, whose path may be relative. `./NAME` is always
    the folder and `builtin:NAME` never. FptError as `choose`."""
    if isinstance(name, os.PathLike):
        return backbone_in(Path(name))
    if name.startswith(EXPLICIT):
        return backbone(name.removeprefix(BUILT_IN))
    folders = folders_called(name)
    built_in = BY_REPOSITORY.get(name, name).partition("@")[0] in BACKBONES
    known = BUILT_IN + name if built_in else pinned(name)
    spellings = [*folders, *([known] if known != name else [])]
    if len(spellings) > 1:
        # Whichever were taken, it might silently be the other model.
        raise FptError(
            f"{name!r} has several meanings here; write {' or '.join(map(repr, spellings))}."
        )
    return backbone_in(folders[spellings[0]]) if folders else backbone(name)


def folders_called(name: str) -> dict[str, Path]:
    """The models `name` in the working directory and in `local_folder()`, by what to write for
    each; one if both are the same folder."""
    folders = {}
    here, local = Path(name), local_folder() / name
    if name and holds_model(here):
        folders[os.path.join(os.curdir, name)] = here
    same = folders and local.exists() and local.samefile(here)
    if NAME.fullmatch(name) and holds_model(local) and not same:
        folders[str(local)] = local
    return folders


def place_of(weights: str) -> str:
    """The absolute folder of local weights; empty for those of the hub and of the package, which
    every process finds by their identity, and for those that are not here."""
    if weights.startswith("hub:"):
        return ""
    folder = folder_of(weights)
    return str(folder.resolve()) if folder.is_dir() and folder.parent != SHIPPED else ""
