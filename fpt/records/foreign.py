"""What a folder of records holds that another machine made: read with care, never changed.

Files that are not whole are added to `refused`, the reason by file, and the others are read on.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..files import NAME, FptError
from .archive import ARCHIVE, differ, open_archive, warn_that_two_differ
from .content import KEY, Record, parse, parse_metadata

# The subfolder of records that holds the pretraining metadata of backbones.
METADATA = "bodies"


def _names(folder: Path) -> Iterator[str]:
    """The names in a folder, in their order; none if it is no folder. FptError if it cannot be
    listed."""
    try:
        yield from (sorted(path.name for path in folder.iterdir()) if folder.is_dir() else ())
    except OSError as error:
        raise FptError(f"Cannot read {folder}: {error.strerror}.") from error


def content_of(path: Path) -> bytes:
    """The bytes of a file that another machine made; ValueError if it cannot be read."""
    try:
        if path.is_file():
            # Nothing else is read: a pipe would never end.
            return path.read_bytes()
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    raise ValueError("it is no file")


def records_in(folder: Path, refused: dict[str, object]) -> Iterator[Record]:
    """The whole records in a folder that another machine made, each once, those with files first;
    adds the files that are not whole to `refused`."""
    single = {}
    for path in (folder / name for name in _names(folder)):
        if path.suffix != ".json" or not KEY.fullmatch(path.stem):
            continue
        try:
            record = parse(content_of(path), path.stem)
        except ValueError as error:
            if path.exists():
                # If it is gone, it was packed after the folder was listed.
                refused[path.name] = error
            continue
        single[record.key] = record
        yield record
    path = folder / ARCHIVE
    if not path.exists():
        return
    archive = open_archive(path)
    for key, record in archive.records().items():
        if key not in single:
            yield record
        elif differ(single[key], record):
            warn_that_two_differ(folder / f"{key}.json")
    if archive.damages:
        refused[ARCHIVE] = "; ".join(archive.damages)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parameters_in(folder: Path, record: Record, refused: dict[str, object]) -> bytes | None:
    """The file of the parameters that a record of the folder names; None if it names none, or if
    the file is missing or added to `refused`."""
    path = folder / f"{record.key}.safetensors"
    if record.parameters is None or not path.exists():
        return None
    try:
        content = content_of(path)
        if sha256(content) != record.parameters:
            raise ValueError("its digest is not the one in its record")
    except ValueError as error:
        refused[path.name] = error
        return None
    return content


def metadata_in(folder: Path, refused: dict[str, object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The whole pretraining metadata beside records, with the names of their files."""
    for path in (folder / METADATA / name for name in _names(folder / METADATA)):
        if path.suffix != ".json" or not NAME.fullmatch(path.stem):
            continue
        try:
            content = parse_metadata(content_of(path))
        except ValueError as error:
            refused[f"{METADATA}/{path.name}"] = error
            continue
        yield path.name, content
