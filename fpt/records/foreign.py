"""What a folder of records holds that another machine made: read with care, never changed.

Damaged files are added to `refused`, which has the reason by file, and reading goes on.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..errors import FptError
from ..files import NAME
from ..project import PROFILES, project
from .archive import ARCHIVE, listed, open_archive
from .content import KEY, Record, parse, parse_metadata

# The subfolder of records that holds the pretraining metadata of backbones.
METADATA = "bodies"
Refused = dict[str, object]
Content = TypeVar("Content")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_foreign(
    path: Path, parse: Callable[[bytes], Content], refused: Refused
) -> Content | None:
    """What `parse` makes of a file; None if it is gone or, with the reason in `refused`, if
    it is not whole."""
    try:
        # Nothing but a file is read: a pipe would never end.
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        return parse(path.read_bytes())
    except FileNotFoundError:
        pass  # it was packed after the folder was listed
    except OSError as error:
        refused[path.name] = f"it cannot be read: {error.strerror}"
    except ValueError as error:
        refused[path.name] = error
    return None


def files_in(folder: Path) -> list[Path]:
    """The JSON files in a folder, in the order of their names; none if it is no folder.
    FptError if it cannot be listed."""
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise FptError(f"Cannot read {folder}: {error.strerror}.") from error
    return [path for path in paths if path.suffix == ".json"]


def records_in(folder: Path, refused: Refused) -> Iterator[Record]:
    """The whole records in a folder, each once, those with files first."""
    single = set()
    for path in files_in(folder):
        if KEY.fullmatch(path.stem):
            record = read_foreign(path, partial(parse, key=path.stem), refused)
            if record is not None:
                single.add(record.key)
                yield record
    if (folder / ARCHIVE).exists():
        archive = open_archive(folder / ARCHIVE)
        yield from (record for key, record in archive.records.items() if key not in single)
        if archive.damages:
            refused[ARCHIVE] = listed(archive.damages)


def parameters_in(folder: Path, record: Record, refused: Refused) -> bytes | None:
    """The file of the parameters that a record of the folder names, or None."""

    def checked(content: bytes) -> bytes:
        if sha256(content) != record.parameters:
            raise ValueError("its digest is not the one in its record")
        return content

    if record.parameters is None:
        return None
    return read_foreign(folder / f"{record.key}.safetensors", checked, refused)


def metadata_in(folder: Path, refused: Refused) -> Iterator[tuple[str, dict[str, Any]]]:
    """The whole pretraining metadata beside records, with the names of their files."""
    for path in files_in(folder / METADATA):
        if NAME.fullmatch(path.stem):
            content = read_foreign(path, parse_metadata, refused)
            if content is not None:
                yield path.name, content


def check_profile_of(folder: Path, profile: str) -> None:
    """FptError for a folder whose records are those of another profile:
    reports/OTHER/records, or the experiment in which they are sealed."""
    # By its path: only code that needs torch knows which runs a profile plans.
    path = folder.resolve()
    owner = path.parent.name if path.name == "records" else ""
    if path.parent.name == project().experiments.name:
        owners = {name: other for other, name in project().sealed_in().items()}
        owner = owners.get(path.name, "")
    if owner in PROFILES and owner != profile:
        raise FptError(
            f"{folder} has the records of profile {owner!r}: fpt merge --profile {owner} "
            f"{folder}."
        )
