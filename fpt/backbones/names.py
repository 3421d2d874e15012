"""Which backbone a name means: a built-in or published one, one of the hub, a folder, a
GGUF file.

`hub:OWNER/REPO@REVISION` is one state of a repository, and `OWNER/REPO` the one that the
list of published models pins (`fpt.backbones.published`). Of other repositories,
config.json is fetched. A folder, as `save_pretrained` writes it, is given by its path, or
by its name in the folder of the project's backbones. It is identified by its content, as
`folder:NAME@DIGEST`. A GGUF file is given by its path, and is converted into such a folder.
The name of the backbone of a repository or folder is the identity of its weights too, and
`@L` behind it means its first L layers, with the same weights.

A name means the same in every process, so that runs can be known by it.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import FptError, instead
from ..files import NAME, read_json
from ..project import project
from . import generic
from .base import AS_WIDE_AS_SMOLLM2, LOCAL, TABLE_7, Backbone
from .encoders import vit_facts
from .generic.gguf import GGUF, converted
from .generic.skeleton import FIRST_LAYERS, class_of, text_of
from .published import MODELS, PUBLISHED
from .weights import (
    file_of,
    folder_of,
    identity_of,
    label_of,
    saying_what_needs_no_hub,
)

PUBLISHED_HERE = [model.backbone for model in PUBLISHED.values() if not model.config]
BACKBONES: Mapping[str, Backbone] = {
    architecture.name: architecture
    for architecture in (*LOCAL, *PUBLISHED_HERE, *TABLE_7, *AS_WIDE_AS_SMOLLM2)
}
MODEL_FILES = (".safetensors", ".bin", ".index.json")  # endings beside config.json
DIGEST = "[0-9a-f]{16}"
# Of a repository: OWNER/REPO, OWNER/REPO@REVISION or hub:OWNER/REPO@REVISION, and maybe @L.
# Up to four digits behind OWNER/REPO alone are layers.
REPOSITORY = re.compile(
    r"(?P<base>(?P<hub>hub:)?(?P<repository>\w[\w.-]*/\w[\w.-]*)"
    r"(@(?P<revision>(?(hub)|(?!\d{1,4}$))[^@/]+))?)(@(?P<layers>[^@/]*))?",
    re.ASCII,
)
# NAME@L; the last @ of a folder's identity is before its digest.
WITH_LAYERS = re.compile(
    f"(?P<base>folder:.*@{DIGEST}|(?!hub:|folder:).*)@(?!{DIGEST}$)(?P<layers>[^@/]*)"
)


def split_layers(name: str) -> tuple[str, str | None]:
    """NAME and L of `NAME@L`; L is None if the name says none."""
    match = REPOSITORY.fullmatch(name) or WITH_LAYERS.fullmatch(name)
    return (match["base"], match["layers"]) if match else (name, None)


def backbone(name: str) -> Backbone:
    """The backbone `name`: built in, of the list of published models, a repository of the
    hub, a folder or a GGUF file. `NAME@L` is the first L layers of any of them, with its
    weights. A name means the same in every working directory, unless it is a relative path.
    FptError if there is none, if its files cannot be read, or if its architecture does not
    fit."""
    base, layers = split_layers(name)
    architecture = listed(base)
    if architecture:
        return first_layers(architecture, layers)
    architecture = backbone_at(name) if is_path(name) else stored(name)
    if architecture:
        return architecture
    raise FptError(
        f"There is no backbone or folder {name!r} with a config.json, and no such GGUF "
        "file; a repository is named as "
        f"hub:OWNER/REPO@COMMIT{instead(base, {**BACKBONES, **PUBLISHED})}."
    )


def listed(name: str) -> Backbone | None:
    """The backbone that is built in or in the list as `name`; None if there is none."""
    if name in BACKBONES:
        return BACKBONES[name]
    return MODELS[name].backbone if name in MODELS else None


def first_layers(architecture: Backbone, layers: str | None) -> Backbone:
    """The backbone of the first `layers` layers; None: of all. FptError if it has not so
    many."""
    if layers is None:
        return architecture
    name = f"{architecture.name}@{layers}"
    config = json.loads(architecture.config or "{}")
    depth = architecture.layers
    # Layers may share their weights, as ALBERT's do: then a token passes more of them than
    # there are, and a cut model has to be looked at again.
    may_share = architecture.family == "generic" and architecture.name not in MODELS
    if may_share:
        depth = class_of(config)[0].num_hidden_layers
    if depth == 0:
        raise FptError(f"{architecture.name} has no layers, so it cannot be cut.")
    if layers not in map(str, range(1, depth + 1)):
        raise FptError(
            f"There is no backbone '{name}': {architecture.name} has {depth} layers, so "
            f"write {architecture.name}@L with L from 1 to {depth}."
        )
    count = int(layers)
    if architecture.family != "generic":
        return replace(architecture, name=name, layers=count)
    config[FIRST_LAYERS] = count
    if may_share:
        return replace(described(name, config), folder=architecture.folder)
    return replace(architecture, name=name, layers=count, config=text_of(config))


def described(name: str, config: dict[str, Any]) -> Backbone:
    """The backbone of a configuration of transformers."""
    # As `fpt pretrain` writes it for the families that are not transformers'.
    if "family" in config and "model_type" not in config:
        raise FptError(
            f"{name} has the weights of the built-in backbone {config.get('name')}: give "
            "that as the backbone, and these as its weights."
        )
    text = text_of(config)
    facts = vit_facts(config) if config.get("model_type") == "vit" else generic.facts(text)
    return Backbone(name, config=text, **facts)


# ------------------------------------------------------------------------ by their identity


def spellings(name: str) -> tuple[tuple[str, str | None], ...]:
    """The readings (NAME, L) of a folder's name, which may itself look like NAME@L."""
    return (name, None), split_layers(name)


def stored(name: str) -> Backbone | None:
    """The backbone that is called `name`, maybe NAME@L, on the hub or among the folders of
    this project; None if there is none."""
    base, layers = split_layers(name)
    if name.startswith("hub:"):
        with saying_what_needs_no_hub():
            return first_layers(
                described(base, read_json(file_of(base, "config.json"))), layers
            )
    for spelling, count in spellings(name):
        if not NAME.fullmatch(spelling.removeprefix("folder:")):
            continue
        folder = folder_of(spelling)
        if not (folder / "config.json").is_file():
            continue
        # Its identity finds it on every machine, so it carries no path.
        architecture = replace(backbone_in(folder), folder="")
        if spelling.startswith("folder:") and architecture.name != spelling:
            raise FptError(
                f"The folder {folder} holds another model than {name!r}: put that one "
                "back, or name the folder, which then is another backbone."
            )
        return first_layers(architecture, count)
    return None


# ---------------------------------------------------------------------------- by their path


def is_path(name: str) -> bool:
    """Whether `name` can only be a path, such as ./mine, ../mine, /data/mine or
    models/mine."""
    if name.startswith("hub:"):
        return False
    has_separator = os.path.normcase("/") in os.path.normcase(name)
    return name.startswith(".") or os.path.isabs(name) or has_separator


def is_gguf(path: Path) -> bool:
    return path.suffix.lower() == GGUF and path.is_file()


def holds_model(path: str) -> bool:
    """Whether there is a GGUF file, or a folder with a configuration or with weights, not
    necessarily both."""
    try:
        if is_gguf(Path(path)):
            return True
        names = os.listdir(path)
    except (OSError, ValueError):  # not there, not readable, or no path at all
        return False
    return any(name == "config.json" or name.endswith(MODEL_FILES) for name in names)


def model_at(path: str) -> tuple[Path, str | None] | None:
    """The folder or GGUF file at `path`, or at NAME if the path is NAME@L, and L; None if
    there is none."""
    for base, layers in spellings(path):
        if base and holds_model(base):  # an empty one is not the working directory
            return Path(base), layers
    return None


def backbone_at(path: str) -> Backbone | None:
    """The backbone in the folder or GGUF file at `path`, which may be NAME@L; None if there
    is none."""
    place = model_at(path)
    return first_layers(backbone_in(place[0]), place[1]) if place else None


def backbone_in(path: Path) -> Backbone:
    """The backbone that `save_pretrained` wrote into a folder, which it carries as an
    absolute path wherever the program goes, or the one in a GGUF file, which is converted
    into a folder in `project().backbones`. FptError if a file is missing or the
    architecture does not fit."""
    folder = converted(path, project().backbones) if is_gguf(path) else path
    # Not resolved: a link is looked up by its own name.
    folder = Path(os.path.abspath(folder))
    config = read_json(file_of(f"folder:{label_of(folder)}", "config.json", str(folder)))
    return replace(described(identity_of(folder), config), folder=str(folder.resolve()))
