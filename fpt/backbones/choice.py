"""Which backbone and weights a person at work means, who also writes the name of a folder
beside the program, or `OWNER/REPO` of any repository.

A name of the package comes first, then a folder or a GGUF file at that path, then a folder
of the project's backbones and the hub: `./nano` is the folder. The commit at which the
first use finds a repository is written down, and later uses take that one
(`fpt.tasks.sources.pin`).
"""

import os
from dataclasses import replace

from ..project import SHIPPED, project
from ..tasks.sources import LOCKED, pin
from .base import Backbone
from .names import REPOSITORY, backbone, backbone_at, listed, split_layers
from .published import comes_in_wheel, pinned
from .weights import OWN_WEIGHTS, folder_of


def choose(
    name: str | os.PathLike[str], weights: str | None, reads_weights: bool = True
) -> tuple[Backbone, str]:
    """The backbone `name` and the identity of its weights: of `weights`, or else its own,
    whose commit is not asked for unless the user `reads_weights`.

    The backbone carries the absolute folder of weights that lie in one, so that it finds
    them wherever the program goes. FptError if there is no such backbone; whether the
    weights are there is not looked at.
    """
    architecture = choose_backbone(name)
    base, _ = split_layers(architecture.name)  # the first layers have the weights of all
    identity = pinned(weights or OWN_WEIGHTS.get(base) or architecture.hub or base)
    if weights or reads_weights:
        identity = at_commit(identity)
    if identity == base:
        return architecture, identity
    # Those of the hub, of a wheel and of the package are found everywhere by their
    # identity.
    if "/" in identity or comes_in_wheel(identity):
        return replace(architecture, folder=""), identity
    folder = folder_of(identity)
    is_own = folder.is_dir() and folder.parent != SHIPPED
    return replace(architecture, folder=str(folder.resolve()) if is_own else ""), identity


def choose_backbone(name: str | os.PathLike[str]) -> Backbone:
    """As `backbone`, and the folder or GGUF file of this name, whose path may be relative,
    or any repository at the commit that is pinned for it. FptError as `choose`."""
    if isinstance(name, os.PathLike):
        return backbone(os.path.abspath(name))
    if listed(split_layers(name)[0]):
        return backbone(name)
    near = backbone_at(name) or backbone_at(str(project().backbones / name))
    return near or backbone(at_commit(name))


def at_commit(name: str) -> str:
    """`hub:OWNER/REPO@COMMIT`, and `@L` if it is there, for the name of a repository, whose
    commit is pinned if the name does not say it; other names as they are. FptError as
    `pin`."""
    match = REPOSITORY.fullmatch(name)
    if match is None:
        return name
    commit = pin(match["repository"], match["revision"] or LOCKED)
    identity = f"hub:{match['repository']}@{commit}"
    return identity if match["layers"] is None else f"{identity}@{match['layers']}"
