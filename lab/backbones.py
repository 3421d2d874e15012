"""The backbones that the records of `lab` need, as one archive for a release.

`python -m lab.backbones` writes their names and digests into data/backbones.json.
`python -m lab.backbones ARCHIVE` also packs them into the zip file ARCHIVE; each has to be in
data/backbones, with the weights that the records name. Upload the archive anywhere, and write its
address as `url` into the list: from then on `fpt pretrain` fetches those that a tier needs.
"""

import argparse
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fpt.backbones.weights import WEIGHTS, file_digest, folder_of
from fpt.errors import FptError
from fpt.files import write_json
from fpt.pretraining.metadata import copy_of, read
from fpt.pretraining.released import FILES
from fpt.project import SHIPPED, project
from fpt.records import Store

LAB = "lab"


def wanted() -> dict[str, str]:
    """The SHA-256 of the weights of each backbone that runs of `lab` read, by its name; those that
    ship are left out."""
    records = project().records(LAB)
    store = Store(records)
    read_by_runs = {record.spec.weights for record in store.read_all(store.keys()).values()}
    names = {name for name in read_by_runs if name}
    unshipped = sorted(name for name in names if not (SHIPPED / name).exists())
    made_here = [name for name in unshipped if copy_of(records, name).exists()]
    return {name: read(records, name)["weights_digest"] for name in made_here}


def pack(archive: Path, digests: dict[str, str]) -> None:
    """Write the backbones into the zip file `archive`, the same bytes for the same backbones.
    FptError if weights are missing or others."""
    folders = {name: folder_of(name) for name in digests}
    problems = [name for name, folder in folders.items() if problem(folder, digests[name])]
    if problems:
        raise FptError(
            f"{len(problems)} of {len(digests)} backbones are not here as the records name them: "
            f"{', '.join(problems)}."
        )
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, folder in folders.items():
            for file in FILES:
                # A ZipInfo has a fixed date, unlike what `write` would store.
                entry = zipfile.ZipInfo(f"{name}/{file}")
                packed.writestr(entry, (folder / file).read_bytes(), zipfile.ZIP_DEFLATED)


def problem(folder: Path, digest: str) -> bool:
    """Whether `folder` lacks a file or has other weights than those of this digest."""
    is_whole = all((folder / file).is_file() for file in FILES)
    return not is_whole or file_digest(folder / WEIGHTS) != digest


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.backbones", description=__doc__)
    parser.add_argument("archive", nargs="?", type=Path, metavar="ARCHIVE")
    archive = parser.parse_args(argv).archive
    weights = wanted()
    released: dict[str, Any] = {"url": None, "sha256": None, "weights": weights}
    if archive:
        pack(archive, weights)
        released["sha256"] = file_digest(archive)
    write_json(project().data / "backbones.json", released)


if __name__ == "__main__":
    main()
