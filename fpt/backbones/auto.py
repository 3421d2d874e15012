"""Backbones beside the built-in ones, by name: any repository of the hub, and any folder.

`hub:OWNER/REPO@REVISION` is one state of a repository, and `OWNER/REPO` the one that hub.json pins.
Of most repositories pinned there, size and configuration are known without a download; of others,
config.json is fetched. A folder, as `save_pretrained` writes it, is given by its path, or by its
name in `local_folder()`. It is identified by its content, as `folder:NAME@DIGEST`. The name of the
backbone of a repository or folder is the identity of its weights too.
"""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..files import NAME, FptError, read_json
from . import generic, vit
from .base import Backbone
from .skeleton import text_of
from .weights import file_of, folder_of, identity_of, label_of

MODEL_FILES = (".safetensors", ".bin", ".index.json")  # endings beside config.json


@cache
def pins() -> dict[str, Any]:
    """By identity: `config` and `facts` of a backbone, empty for those that are built in."""
    return read_json(Path(__file__).with_name("hub.json"))


def pinned(name: str) -> str:
    """OWNER/REPO as `hub:OWNER/REPO@REVISION` if a revision is pinned; other names as they are."""
    return next((pin for pin in pins() if pin.startswith(f"hub:{name}@")), name)


def resolve(name: str) -> Backbone | None:
    """The backbone that is called `name` on the hub or in a folder; None if there is none. FptError
    if its files cannot be read, or if its architecture does not fit.

    Only a path, which has a separator or begins with a dot, depends on the working directory.
    """
    name = pinned(name)
    if name.startswith("hub:"):
        pin = pins().get(name) or {"config": read_json(file_of(name, "config.json"))}
        return described(name, **pin)
    if is_path(name):
        return backbone_in(Path(name)) if holds_model(Path(name)) else None
    if not NAME.fullmatch(name.removeprefix("folder:")):
        return None
    folder = folder_of(name)
    if not (folder / "config.json").is_file():
        return None
    if name.startswith("folder:") and identity_of(folder) != name:
        raise FptError(
            f"The folder {folder} holds another model than {name}: put that one back, or name the "
            "folder, which then is another backbone."
        )
    return described(identity_of(folder), read_json(folder / "config.json"))


def described(name: str, config: dict[str, Any], facts: dict[str, Any] | None = None) -> Backbone:
    """The backbone of a configuration of transformers; `facts` are computed if they are not
    known."""
    text = text_of(config)
    if facts is None:
        image = config.get("model_type") == "vit"
        facts = {**(vit.facts(config) if image else generic.facts(text))}
    return Backbone(name, config=text, **facts)


def is_path(name: str) -> bool:
    """Whether `name` can only be a path, such as ./mine, ../mine, /data/mine or models/mine."""
    written = os.path.normcase(name)
    return name.startswith(".") or os.path.isabs(name) or os.path.normcase("/") in written


def holds_model(folder: Path) -> bool:
    """Whether there is a folder with a configuration or with weights, maybe not with both."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):  # not there, not readable, or no path at all
        return False
    return any(name == "config.json" or name.endswith(MODEL_FILES) for name in names)


def backbone_in(folder: Path) -> Backbone:
    """The backbone that `save_pretrained` wrote into `folder`, which it carries as an absolute path
    wherever the program goes. FptError if a file is missing or the architecture does not fit."""
    folder = folder.resolve()
    config = read_json(file_of(f"folder:{label_of(folder)}", "config.json", str(folder)))
    return replace(described(identity_of(folder), config), folder=str(folder))
