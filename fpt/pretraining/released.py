"""Backbones that were pretrained for the records here and are published as one archive.

`data/backbones.json` lists the SHA-256 of the weights of each, and, once somebody has
uploaded the archive, its `url` and `sha256`. `python -m lab.backbones` packs it.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.request import urlretrieve

from ..backbones.published import METADATA, extract
from ..backbones.weights import WEIGHTS, file_digest, folder_of
from ..errors import FptError
from ..files import read_json, set_aside, write_folder
from ..project import project

FILES = ("config.json", WEIGHTS, METADATA)


def fetch_released(weights: Iterable[str]) -> None:
    """Download the archive if some of `weights` are in it and not here, and take these out
    of it. FptError if that fails, or if the archive is not the one of the list."""
    path = project().data / "backbones.json"
    released = read_json(path) if path.exists() else {}
    if not released.get("url"):
        return
    listed = [name for name in weights if name in released["weights"]]
    missing = [name for name in listed if not (folder_of(name) / WEIGHTS).exists()]
    if not missing:
        return
    project().backbones.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fpt-", dir=project().backbones) as folder:
        archive = Path(folder) / "backbones.zip"
        try:
            urlretrieve(released["url"], archive)
        except (OSError, ValueError) as error:
            raise FptError(
                f"The backbones at {released['url']} cannot be downloaded ({error})."
            ) from error
        if file_digest(archive) != released["sha256"]:
            raise FptError(
                f"{released['url']} is not the archive whose SHA-256 is in {path}."
            )
        for name in missing:
            target = project().backbones / name
            # A pretraining that was stopped leaves a checkpoint, and no weights.
            if target.exists() and not (target / WEIGHTS).exists():
                set_aside(target, "it holds no weights", "is fetched")
            with write_folder(target, Path.exists) as partial:
                if partial:
                    for file in FILES:
                        extract(archive, f"{name}/{file}", partial / file)
