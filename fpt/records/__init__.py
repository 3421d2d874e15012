"""The store of records: one small JSON file per finished run, named by the run's key.

Records are the truth; tables, figures and prose are derived from them. The store is shared by all
sections of a profile and by any number of processes. If a section asks for it, the trained
parameters of a run are kept beside its record, in KEY.safetensors.
"""

import hashlib
import warnings
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..files import (
    NAME,
    REPORTS,
    FptError,
    set_aside,
    write_atomic,
    write_json,
)
from .content import KEY, Record, Status, digest, parse, parse_metadata, to_content, to_file

__all__ = [
    "METADATA",
    "Record",
    "Status",
    "Store",
    "digest",
    "parse",
    "parse_metadata",
    "store",
    "to_content",
    "to_file",
]

METADATA = "bodies"  # subfolder of the records: pretraining metadata of backbones
SHOWN = 5  # files that a merge names at most, of those that it could not take


# Without a bound: of a cache that is smaller than a profile, each pass over all records would drop
# what the next pass reads first, so that every table of a page would parse every file again.
@lru_cache(None)
def _parsed(path: Path, size: int, changed: int) -> Record:
    """The record in a file, which every table of a page asks for; parsed anew after a change."""
    return parse(path.read_bytes(), path.stem)


def _names(folder: Path) -> Iterator[str]:
    """The names in a folder, in their order; none if it is no folder. FptError if it cannot be
    listed."""
    try:
        yield from sorted(path.name for path in folder.iterdir()) if folder.is_dir() else ()
    except OSError as error:
        raise FptError(f"Cannot read {folder}: {error.strerror}.") from error


def _content(path: Path) -> bytes:
    """The bytes of a file that another machine made; ValueError if it cannot be read."""
    try:
        if path.is_file():  # to read a pipe would wait for ever
            return path.read_bytes()
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    raise ValueError("it is no file")


@dataclass(frozen=True)
class Store:
    """The records of one profile, `reports/<profile>/records`."""

    folder: Path

    def path(self, key: str) -> Path:
        """The file of the record `key`, whether it is there or not."""
        return self.folder / f"{key}.json"

    def parameters_path(self, key: str) -> Path:
        """The file of the trained parameters of the run `key`, whether they are kept or not."""
        return self.folder / f"{key}.safetensors"

    def keys(self) -> set[str]:
        """Keys that have a file; the files are not read."""
        files = (path for path in self.folder.glob("*.json") if KEY.fullmatch(path.stem))
        return {path.stem for path in files}

    def read(self, key: str) -> Record | None:
        """The record of `key`, or None. A damaged one is moved aside with a warning."""
        path = self.path(key)
        try:
            seen = path.stat()
            return _parsed(path, seen.st_size, seen.st_mtime_ns)
        except FileNotFoundError:
            return None
        except ValueError as error:
            set_aside(path, error, "counts as missing")
            return None

    def parameters(self, record: Record) -> bytes | None:
        """The safetensors file of a record's parameters, or None. A damaged one is moved aside
        with a warning."""
        path = self.parameters_path(record.key)
        if record.parameters is None or not path.exists():
            return None
        content = path.read_bytes()
        if _sha256(content) != record.parameters:
            set_aside(path, "its digest is not the one in its record", "counts as missing")
            return None
        return content

    def read_all(self, keys: Iterable[str], keep: Container[str] = ()) -> dict[str, Record]:
        """The records that are here; those of `keep` only with their parameters."""
        found = {key: record for key in keys if (record := self.read(key)) is not None}
        return {
            key: record
            for key, record in found.items()
            if key not in keep or self.parameters(record) is not None
        }

    def write(self, record: Record, parameters: bytes | None = None) -> Record:
        """Write the record, and before it the file of the parameters that it then names; returns
        what was written."""
        named = None
        if parameters is not None:
            named = _sha256(parameters)
            write_atomic(self.parameters_path(record.key), parameters)
        record = replace(record, parameters=named)
        write_atomic(self.path(record.key), to_file(to_content(record)))
        return record

    def digests(self, keys: Collection[str], keep: Container[str] = ()) -> dict[str, str | None]:
        """Content digest of each key's record, None if it is missing."""
        found = self.read_all(keys, keep)
        return {key: digest(to_content(found[key])) if key in found else None for key in keys}

    def merge(self, folder: Path) -> tuple[int, int]:
        """Take over the records in another folder, with kept parameters and pretraining metadata;
        returns how many files were (taken, already here).

        Reads files alone that are named as a record or as metadata, and changes nothing in
        `folder`. What is here already stays as it is: two machines may both have run a spec, and
        the first one has been shown in tables. Only a record that comes with parameters takes the
        place of one without. What is damaged, or cannot be the result of a run, is left out with
        one warning. FptError if there is nothing that can be taken.
        """
        refused: dict[str, object] = {}  # why, by file
        taken = [
            *self._merge_metadata(folder / METADATA, refused),
            *self._merge_records(folder, refused),
        ]
        reasons = [f"{name} is damaged ({reason})" for name, reason in refused.items()]
        more = [f"and {len(refused) - SHOWN} more"] if len(refused) > SHOWN else []
        listed = " ".join("; ".join([*reasons[:SHOWN], *more]).split())
        if not taken and refused:
            raise FptError(f"There are no records in {folder} that can be taken: {listed}.")
        if not taken:
            raise FptError(f"There are no records in {folder}; name the folder that holds them.")
        if refused:
            files = "1 file" if len(refused) == 1 else f"{len(refused)} files"
            warnings.warn(f"{files} of {folder} could not be taken: {listed}.", stacklevel=2)
        return taken.count(True), taken.count(False)

    def _merge_metadata(self, folder: Path, refused: dict[str, object]) -> Iterator[bool]:
        """Take over pretraining metadata; yields for each whole file whether it was missing here,
        and adds those that are not whole to `refused`."""
        for path in (folder / name for name in _names(folder)):
            if path.suffix != ".json" or not NAME.fullmatch(path.stem):
                continue
            copy = self.folder / METADATA / path.name
            try:
                content = parse_metadata(_content(path))
            except ValueError as error:
                refused[f"{METADATA}/{path.name}"] = error
                continue
            missing = not copy.exists()
            if missing:
                write_json(copy, content)
            yield missing

    def _merge_records(self, folder: Path, refused: dict[str, object]) -> Iterator[bool]:
        """Take over records with their parameters; yields for each whole file whether it was taken,
        and adds those that are not whole to `refused`."""
        for path in (folder / name for name in _names(folder)):
            if path.suffix != ".json" or not KEY.fullmatch(path.stem):
                continue
            try:
                record = parse(_content(path), path.stem)
            except ValueError as error:
                refused[path.name] = error
                continue
            here, parameters = self.read(record.key), None
            if record.parameters is not None and (here is None or self.parameters(here) is None):
                beside = path.with_suffix(".safetensors")
                try:
                    parameters = _content(beside) if beside.exists() else None
                    if parameters is not None and _sha256(parameters) != record.parameters:
                        raise ValueError("its digest is not the one in its record")
                except ValueError as error:
                    refused[beside.name] = error
                    parameters = None
            wanted = here is None or parameters is not None
            if wanted:
                self.write(record, parameters)
            yield wanted


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def store(profile: str) -> Store:
    """The store of a profile."""
    return Store(REPORTS / profile / "records")
