"""Which backbone a user means, who may also name a folder in the working directory.

If the name means several backbones, nothing is guessed: an error asks which of them is
meant. A user may also write `OWNER/REPO` of any repository, or `OWNER/REPO@REVISION`: the
commit at which the first use finds it is written down, and later uses take that one
(`fpt.tasks.sources.pin`).
"""

import os
from dataclasses import replace
from pathlib import Path

from ..errors import FptError
from ..files import NAME
from ..project import SHIPPED, project
from ..tasks.sources import LOCKED, pin
from .base import Backbone
from .generic.gguf import GGUF
from .names import (
    REPOSITORY,
    backbone,
    backbone_at,
    backbone_in,
    listed,
    model_at,
    split_layers,
)
from .published import comes_in_wheel, pinned
from .weights import (
    OWN_WEIGHTS,
    folder_of,
    saying_what_needs_no_hub,
)

BUILT_IN = "builtin:"  # before a name that is not to be taken for a folder's


def choose(
    name: object, weights: str | None, reads_weights: bool = True
) -> tuple[Backbone, str]:
    """The backbone `name` and the identity of its weights: of `weights`, or else its own,
    whose commit is not asked for unless the user `reads_weights`.

    The backbone carries the absolute folder of weights that lie in one, so that it finds
    them wherever the program goes. FptError if there is no such backbone, or if the name
    has several meanings here; whether the weights are there is not looked at.
    """
    if not isinstance(name, str | os.PathLike):
        raise FptError(
            f"The backbone is a name or a folder, not a {type(name).__name__}; store a "
            "loaded model by its save_pretrained, and give that folder."
        )
    architecture = choose_backbone(name)
    base, _ = split_layers(architecture.name)  # the first layers have the weights of all
    own = OWN_WEIGHTS.get(base) or architecture.hub or base
    identity = pinned(str(weights or own))
    if weights or reads_weights:
        identity = at_commit(identity)
    if identity == base:  # the folder of the backbone, if it is in one, has its weights
        return architecture, identity
    folder = ""
    # Weights of the hub, of a wheel and of the package are found by identity everywhere.
    is_remote = identity.startswith("hub:") or comes_in_wheel(identity)
    if not is_remote and identity != architecture.hub:
        local = folder_of(identity)
        if local.is_dir() and local.parent != SHIPPED:
            folder = str(local.resolve())
    return replace(architecture, folder=folder), identity


def choose_backbone(name: str | os.PathLike[str]) -> Backbone:
    """As `backbone`, or the folder or GGUF file of this name, whose path may be relative,
    or any repository at the commit that is pinned for it. `./NAME` is always the folder and
    `builtin:NAME` never. FptError as `choose`."""
    if isinstance(name, os.PathLike):
        return backbone_at(os.fspath(name)) or backbone_in(Path(name))
    if name.startswith(BUILT_IN):
        return backbone(name.removeprefix(BUILT_IN))
    if name.startswith(("hub:", "folder:")):
        return backbone(at_commit(name))
    folders = folders_called(name)
    meanings = list(folders)
    base, layers = split_layers(name)
    architecture = listed(base)
    if architecture and architecture.name.startswith("hub:"):
        meanings.append(architecture.name + ("" if layers is None else f"@{layers}"))
    elif architecture:
        meanings.append(BUILT_IN + name)
    if len(meanings) > 1:
        # Either choice might silently be the wrong model.
        raise FptError(
            f"{name!r} has several meanings here; write {' or '.join(map(repr, meanings))}."
        )
    if folders:
        return backbone_at(folders[0]) or backbone(name)
    # No path is looked up on the hub.
    is_local = base.lower().endswith(GGUF) or os.path.exists(base)
    return backbone(name if architecture or is_local else at_commit(name))


def at_commit(name: str) -> str:
    """`hub:OWNER/REPO@COMMIT`, and `@L` if it is there, for the name of a repository, whose
    commit is pinned if the name does not say it; other names as they are. FptError as
    `pin`."""
    match = REPOSITORY.fullmatch(name)
    if match is None:
        return name
    with saying_what_needs_no_hub():
        commit = pin(match["repository"], match["revision"] or LOCKED)
    identity = f"hub:{match['repository']}@{commit}"
    return identity if match["layers"] is None else f"{identity}@{match['layers']}"


def folders_called(name: str) -> list[str]:
    """The paths of the models `name` in the working directory and in `project().backbones`;
    one if both are the same folder. None for the folder there that keeps the weights of a
    published model: it is that model."""
    paths = []
    kept_path = str(project().backbones / name)
    found_near = model_at(name)
    found_kept = model_at(kept_path) if NAME.fullmatch(name) else None
    is_same = found_near and found_kept and found_near[0].samefile(found_kept[0])
    is_published = found_kept and comes_in_wheel(found_kept[0].name)
    if found_near and not (is_same and is_published):
        paths.append(os.path.join(os.curdir, name))
    if found_kept and not is_same and not is_published:
        paths.append(kept_path)
    return paths
