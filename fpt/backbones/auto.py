"""Backbones beside the built-in ones, by name: any repository of the hub, and any folder.

`hub:OWNER/REPO@REVISION` is one state of a repository, and `OWNER/REPO` the one that hub.json pins.
Of most repositories pinned there, size and configuration are known without a download; of others,
config.json is fetched. A folder, as `save_pretrained` writes it, is given by its path, or by its
name in `local_folder()`. It is identified by its content, as `folder:NAME@DIGEST`. The name of the
backbone of a repository or folder is the identity of its weights too.
"""

from functools import cache
from pathlib import Path
from typing import Any

from ..files import read_json
from . import generic, vit
from .base import Backbone
from .skeleton import text_of
from .weights import FOLDERS, digest, file_of, files, folder_of


@cache
def pins() -> dict[str, Any]:
    """By identity: `config` and `facts` of a backbone, empty for those that are built in."""
    return read_json(Path(__file__).with_name("hub.json"))


def pinned(name: str) -> str:
    """OWNER/REPO as `hub:OWNER/REPO@REVISION` if a revision is pinned; other names as they are."""
    return next((pin for pin in pins() if pin.startswith(f"hub:{name}@")), name)


def resolve(name: str) -> Backbone | None:
    """The backbone that is called `name` on the hub or in a folder; None if there is none. FptError
    if its files cannot be read, or if its architecture does not fit."""
    name = pinned(name)
    folders = (Path(name), folder_of(name))
    found = next((identity_of(it) for it in folders if (it / "config.json").is_file()), name)
    changed = name.startswith("folder:") and found != name
    if changed or not found.startswith(("folder:", "hub:")):
        return None
    pin = pins().get(found) or {"config": read_json(file_of(found, "config.json"))}
    given, text = pin["config"], text_of(pin["config"])
    image = given.get("model_type") == "vit"
    known = pin.get("facts") or (vit.facts(given) if image else generic.facts(text))
    return Backbone(found, config=text, **known)


def identity_of(folder: Path) -> str:
    """`folder:NAME@DIGEST`, by which the folder is found from now on."""
    name = f"folder:{folder.resolve().name}"
    FOLDERS[name] = folder
    content = digest([folder / "config.json", *files(name)])
    identity = f"{name}@{content[:16]}"
    FOLDERS[identity] = folder
    return identity
