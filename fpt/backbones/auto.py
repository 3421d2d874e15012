"""Backbones beside the built-in ones, by name: any repository of the hub, any folder, and any GGUF
file.

`hub:OWNER/REPO@REVISION` is one state of a repository, and `OWNER/REPO` the one that the list of
published models pins (`fpt.backbones.published`). Of other repositories, config.json is fetched. A
folder, as `save_pretrained` writes it, is given by its path, or by its name in `local_folder()`. It
is identified by its content, as `folder:NAME@DIGEST`. A GGUF file is given by its path, and is
converted into such a folder. The name of the backbone of a repository or folder is the identity of
its weights too, and `@L` behind it means its first L layers, with the same weights.
"""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..files import NAME, FptError, read_json
from . import generic, vit
from .base import Backbone
from .gguf_files import SUFFIX, converted
from .published import entry_of
from .skeleton import FIRST_LAYERS, depth_of, text_of
from .weights import file_of, folder_of, identity_of, label_of, local_folder

MODEL_FILES = (".safetensors", ".bin", ".index.json")  # endings beside config.json
DIGEST = "[0-9a-f]{16}"
# What may stand before the @ of NAME@L. The first @ of a repository names its revision, and the
# last one of a folder's identity its digest.
WHOLE = re.compile(f"(hub:[^@]*@[^@]*|folder:.*@{DIGEST}|(?!hub:|folder:).*)@(?!{DIGEST}$)([^@/]*)")


def split_layers(name: str) -> tuple[str, str | None]:
    """NAME and L of `NAME@L`; L is None if the name says none."""
    parts = WHOLE.fullmatch(name)
    return (parts[1], parts[2]) if parts else (name, None)


def first_layers(whole: Backbone, layers: str) -> Backbone:
    """The backbone of the first `layers` of the layers of `whole`. FptError if it has not so
    many."""
    # Layers may share their weights, as ALBERT's do.
    shares = whole.family == "generic" and entry_of(whole.name) is None
    depth = depth_of(whole.config) if shares else whole.layers
    if layers not in map(str, range(1, depth + 1)):
        raise FptError(
            f"There is no backbone '{whole.name}@{layers}': {whole.name} has {depth} layers, so "
            f"write {whole.name}@L with L from 1 to {depth}."
        )
    count, name = int(layers), f"{whole.name}@{layers}"
    if whole.family != "generic":
        return replace(whole, name=name, layers=count)
    config = {**json.loads(whole.config), FIRST_LAYERS: count}
    if not shares:
        return replace(whole, name=name, layers=count, config=text_of(config))
    return replace(described(name, config), folder=whole.folder)


def resolve(name: str) -> Backbone | None:
    """The backbone that is called `name` on the hub, in a folder or in a GGUF file; None if there
    is none. FptError if its files cannot be read, or if its architecture does not fit.

    Only a path, which has a separator or begins with a dot, depends on the working directory.
    """
    if is_path(name) and not name.startswith("hub:"):
        return backbone_at(name)
    whole, layers = split_layers(name)
    # A folder's name may look like NAME@L, a repository's may not.
    exact = None if name.startswith("hub:") and layers is not None else stored(name)
    if exact or layers is None:
        return exact
    architecture = stored(whole)
    return first_layers(architecture, layers) if architecture else None


def stored(name: str) -> Backbone | None:
    """As `resolve`, of a whole model."""
    if name.startswith("hub:"):
        return described(name, read_json(file_of(name, "config.json")))
    if not NAME.fullmatch(name.removeprefix("folder:")):
        return None
    folder = folder_of(name)
    if not (folder / "config.json").is_file():
        return None
    if name.startswith("folder:") and identity_of(folder) != name:
        raise FptError(
            f"The folder {folder} holds another model than {name!r}: put that one back, or name "
            "the folder, which then is another backbone."
        )
    return described(identity_of(folder), read_json(folder / "config.json"))


def described(name: str, config: dict[str, Any]) -> Backbone:
    """The backbone of a configuration of transformers."""
    text = text_of(config)
    image = config.get("model_type") == "vit"
    facts = vit.facts(config) if image else generic.facts(text)
    return Backbone(name, config=text, **facts)


def model_at(path: str) -> tuple[Path, str | None] | None:
    """The folder or GGUF file at `path`, or at NAME if the path is NAME@L, and L; None if there is
    none."""
    whole, layers = split_layers(path)
    if holds_model(Path(path)):  # the name of a folder may look like NAME@L
        return Path(path), None
    # Nothing before the @ is no name of the working directory.
    return (Path(whole), layers) if whole and holds_model(Path(whole)) else None


def backbone_at(path: str) -> Backbone | None:
    """The backbone in the folder or GGUF file at `path`, which may be NAME@L; None if there is
    none."""
    place = model_at(path)
    if place is None:
        return None
    folder, layers = place
    whole = backbone_in(folder)
    return whole if layers is None else first_layers(whole, layers)


def is_path(name: str) -> bool:
    """Whether `name` can only be a path, such as ./mine, ../mine, /data/mine or models/mine."""
    written = os.path.normcase(name)
    return name.startswith(".") or os.path.isabs(name) or os.path.normcase("/") in written


def holds_model(path: Path) -> bool:
    """Whether there is a GGUF file, or a folder with a configuration or with weights, maybe not
    with both."""
    try:
        if is_gguf(path):
            return True
        names = os.listdir(path)
    except (OSError, ValueError):  # not there, not readable, or no path at all
        return False
    return any(name == "config.json" or name.endswith(MODEL_FILES) for name in names)


def is_gguf(path: Path) -> bool:
    """Whether there is a file of this name, which is that of a GGUF file."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def backbone_in(path: Path) -> Backbone:
    """The backbone that `save_pretrained` wrote into a folder, which it carries as an absolute path
    wherever the program goes, or the one in a GGUF file, which is converted into a folder in
    `local_folder()`. FptError if a file is missing or the architecture does not fit."""
    folder = converted(path, local_folder()) if is_gguf(path) else path
    folder = folder.resolve()
    config = read_json(file_of(f"folder:{label_of(folder)}", "config.json", str(folder)))
    return replace(described(identity_of(folder), config), folder=str(folder))
