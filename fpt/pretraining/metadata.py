"""Pretraining metadata, kept with the records of the runs on a backbone.

Weights are too large for Git and can be made again; what they were trained on and how well they
learned are a few kilobytes (`pretraining.json`). They lie beside the weights, and a copy in the
folder `bodies` of the records, so that a report can be rendered, and its held-out losses checked,
without weights. Backbones that ship with the package have theirs there.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..backbones.weights import find, local_folder
from ..files import NAME, FptError, read_json, write_json
from ..records import digest

log = logging.getLogger("fpt")


def copy_of(records: Path, weights: str) -> Path:
    """The path of the copy in a folder of records."""
    return records / "bodies" / f"{weights}.json"


def beside(weights: str) -> Path | None:
    """The metadata beside local weights; None if they are not here."""
    try:
        found = find(weights).with_name("pretraining.json")
    except FptError:
        return None
    return found if found.is_file() else None


def keep(records: Path, weights: Iterable[str]) -> dict[str, str]:
    """Copy the metadata of those `weights` that were made here; returns the digests of all copies.

    A copy stays as it is: the recorded runs are of that backbone. A warning names weights here that
    are others than those of the copy.
    """
    digests: dict[str, str] = {}
    for name in filter(NAME.fullmatch, weights):
        path, here = copy_of(records, name), beside(name)
        if here is not None and local_folder() in here.parents:
            content = read_json(here)
            if not path.exists():
                write_json(path, content | {"digest": digest(content)})
            elif content.get("weights_digest") != read(records, name).get("weights_digest"):
                log.warning(f"The weights {name} here are others than those of runs; see {path}.")
        if path.exists():
            digests[name] = read(records, name)["digest"]
    return digests


def read(records: Path, weights: str) -> dict[str, Any]:
    """The copy with the records, or else the metadata beside the weights; empty if there is
    neither. FptError if the copy was damaged or edited."""
    if not NAME.fullmatch(weights):
        return {}
    path = copy_of(records, weights)
    if not path.exists():
        there = beside(weights)
        return read_json(there) if there is not None else {}
    found = read_json(path)
    if found.get("digest") != digest(found):
        raise FptError(
            f"{path} is not what was written when {weights} was pretrained (its digest does not "
            "fit); restore it, or remove it if the weights are here."
        )
    return found
