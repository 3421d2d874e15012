"""The store of records: one small JSON file per finished run, named by the run's key, or a
line of the archive of an experiment.

Records are the truth; tables, figures and prose are derived from them. The store is shared
by all sections of a tier and by any number of processes. If a section asks for it, the
trained parameters of a run are kept beside its record, in KEY.safetensors.
"""

import hashlib
import warnings
from collections.abc import Collection, Container, Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..errors import FptError
from ..files import lock, set_aside, write_atomic
from .archive import ARCHIVE, Archive, lines_in, listed, read_archive, write_archive
from .content import KEY, Record, digest, parse, to_content, to_file

INDEX = "index.json"  # of an experiment: what each of its records is


# Without a bound: of a cache that is smaller than a tier, each pass over all records
# would drop what the next pass reads first, so that every table of a page would parse every
# file again.
@lru_cache(None)
def _parsed(path: Path, size: int, changed: int) -> Record:
    """The record in a file, which every table of a page asks for; parsed anew after a
    change."""
    return parse(path.read_bytes(), path.stem)


def copied(record: Record) -> Record:
    """A copy of a cached record: a caller who changes it changes nothing for the next
    one."""
    values = {name: copy(value) for name, value in vars(record).items()}
    return Record(**values | {"curve": [dict(point) for point in record.curve]})


def sha256(content: bytes) -> str:
    """The digest of a file, as records name it."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Store:
    """The records of one tier or experiment: a file each, or in the archive.

    Every record is written as a file. One that is in the archive too is read from its file.
    """

    folder: Path

    def path(self, key: str) -> Path:
        """The file of its own of the record `key`, whether it is there or not."""
        return self.folder / f"{key}.json"

    def archive(self) -> Archive:
        """The records that were packed."""
        return read_archive(self.folder / ARCHIVE)

    def parameters_path(self, key: str) -> Path:
        """The file of the trained parameters of the run `key`, whether they are kept or
        not."""
        return self.folder / f"{key}.safetensors"

    def keys(self) -> set[str]:
        """Keys that have a file or a whole record in the archive; files are not parsed."""
        files = (path for path in self.folder.glob("*.json") if KEY.fullmatch(path.stem))
        single = {path.stem for path in files}
        # The archive comes second: a record that another process packs meanwhile is in
        # either.
        return single | self.archive().records.keys()

    def read(self, key: str) -> Record | None:
        """The record of `key`, or None. A damaged file is moved aside with a warning."""
        single = self._single(key)
        archived = self.archive().records.get(key)
        if single is None:
            return archived and copied(archived)
        if archived is not None and differ(single, archived):
            warnings.warn(
                f"{self.path(key)} and {ARCHIVE} beside it hold two results of one run; "
                "the file is read.",
                stacklevel=2,
            )
        return single

    def _single(self, key: str) -> Record | None:
        """The record in the file of `key`, or None."""
        path = self.path(key)
        try:
            stat = path.stat()
            return copied(_parsed(path, stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            return None
        except (ValueError, IsADirectoryError) as error:
            packed = key in self.archive().records
            set_aside(
                path, error, f"is read from {ARCHIVE}" if packed else "counts as missing"
            )
            return None

    def parameters(self, record: Record) -> bytes | None:
        """The safetensors file of a record's parameters, or None. A damaged one is moved
        aside with a warning."""
        path = self.parameters_path(record.key)
        if record.parameters is None or not path.exists():
            return None
        content = path.read_bytes()
        if sha256(content) != record.parameters:
            set_aside(path, "its digest is not the one in its record", "counts as missing")
            return None
        return content

    def read_all(self, keys: Iterable[str], keep: Container[str] = ()) -> dict[str, Record]:
        """The records that are here; those of `keep` only with their parameters."""
        records = {}
        for key in keys:
            record = self.read(key)
            if record is None or (key in keep and self.parameters(record) is None):
                continue
            records[key] = record
        return records

    def write(self, record: Record, parameters: bytes | None = None) -> Record:
        """Write the record, and before it the file of the parameters that it then names;
        returns what was written."""
        name = None
        if parameters is not None:
            name = sha256(parameters)
            # First, so that no record is ever seen without the parameters that it names.
            write_atomic(self.parameters_path(record.key), parameters)
        record = replace(record, parameters=name)
        write_atomic(self.path(record.key), to_file(to_content(record)))
        return record

    def digests(
        self, keys: Collection[str], keep: Container[str] = ()
    ) -> dict[str, str | None]:
        """Content digest of each key's record, None if it is missing."""
        digests: dict[str, str | None] = dict.fromkeys(keys)
        for key, record in self.read_all(keys, keep).items():
            digests[key] = digest(to_content(record))
        return digests

    def pack(self) -> tuple[int, int]:
        """Put all records that have files into the archive and remove these files; returns
        how many files were packed, and how many records the archive has.

        The archive is durable before the first file is removed, so whenever this is
        stopped, each record is in one of them, and the next call goes on. Nothing is
        written if the archive has the records already. FptError if the archive is damaged,
        if a file and the archive hold different results of one run, or if another process
        packs.
        """
        if not self.keys():
            return 0, 0
        with lock(self.folder.parent / ".pack.lock", wait=False) as is_mine:
            if not is_mine:
                raise FptError(
                    f"Another process packs {self.folder}; call again when it is done."
                )
            archive = self.archive()
            singles = {}
            for key in self.keys():
                record = self._single(key)
                if record is not None:
                    singles[key] = record
            different = [
                f"{key} differs from its file"
                for key in sorted(singles.keys() & archive.records.keys())
                if differ(singles[key], archive.records[key])
            ]
            problems = [*archive.damages, *different]
            if problems:
                raise FptError(
                    f"{ARCHIVE} in {self.folder} cannot be added to ({listed(problems)}). "
                    "Restore it from Git, and pack again."
                )
            if {**archive.records, **singles} != archive.records:
                # As they were written: a record keeps its bytes, whatever this version
                # would write for it.
                lines = lines_in(self.folder / ARCHIVE)
                lines |= {key: self.path(key).read_bytes() for key in singles}
                write_archive(self.folder / ARCHIVE, lines)
            # Read from the disk, with every digest compared.
            packed = self.archive().records
            for key in singles:
                # A file that has changed meanwhile is packed by the next call.
                if self._single(key) == packed.get(key):
                    self.path(key).unlink(missing_ok=True)
            return len(singles), len(packed)


def differ(single: Record, archived: Record) -> bool:
    """Whether a file and the archive hold two results of one run. A record that comes with
    parameters may take the place of one in the archive."""
    return single != archived and single.parameters is None
