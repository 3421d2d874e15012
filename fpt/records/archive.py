"""Many records in one compressed file, `records.jsonl.xz`.

A line is what the file of a single record holds. The lines stand in the order of their keys, and
all settings of the compression are fixed, so the same records give the same file.
"""

import lzma
import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

from ..files import write_atomic
from .content import Record, copied, parse

ARCHIVE = "records.jsonl.xz"
# Bytes of a line; a record has 3 to 22 kB, so no foreign file fills the memory.
LONGEST = 2**24
# How `to_file` ends a record. So the keys of an archive are known before any line is parsed.
LAST_FIELDS = re.compile(rb'"key":"([0-9a-f]{16})","digest":"[0-9a-f]{64}"\}\n')
LENGTH_OF_LAST = len(b'"key":"","digest":""}\n') + 16 + 64
# Every setting by its value: what a preset stands for may change with the library.
COMPRESSION = [
    {
        "id": lzma.FILTER_LZMA2, "dict_size": 2**23, "lc": 3, "lp": 0, "pb": 0,
        "mode": lzma.MODE_NORMAL, "nice_len": 273, "mf": lzma.MF_BT4, "depth": 512,
    }
]  # fmt: skip


class Archive:
    """The records in one file, each of which is parsed when it is first asked for.

    `lines` are the bytes of each record by key, and `damages` the sentences that say what of the
    file cannot be read. A line whose damage is only seen when it is parsed leaves `lines` then.
    """

    def __init__(self, lines: dict[str, bytes], damages: list[str]) -> None:
        self.lines = lines
        self.damages = damages
        self._records: dict[str, Record] = {}

    def read(self, key: str) -> Record | None:
        """The record of `key`, or None. ValueError, the first time, if its line is damaged."""
        if key not in self._records and key in self.lines:
            try:
                self._records[key] = parse(self.lines[key], key)
            except ValueError as error:
                del self.lines[key]
                self.damages.append(f"in the record {key}, {error}")
                raise
        record = self._records.get(key)
        return None if record is None else copied(record)

    def records(self) -> dict[str, Record]:
        """All whole records by key, in the order of the file."""
        records = {}
        for key in tuple(self.lines):
            with suppress(ValueError):
                # `damages` says which line cannot be read.
                records[key] = self.read(key)
        return {key: record for key, record in records.items() if record is not None}


def differ(single: Record, archived: Record) -> bool:
    """Whether a file and a line of the archive hold two results of one run. A record that comes
    with parameters may take the place of one in the archive, as in a merge."""
    return single != archived and single.parameters is None


def warn_that_two_differ(path: Path) -> None:
    """Warn that the record in a file and the one in the archive beside it `differ`."""
    warnings.warn(
        f"{path} and {ARCHIVE} beside it hold two results of one run; the file is read.",
        stacklevel=3,
    )


def open_archive(path: Path) -> Archive:
    """The archive in a file that another machine may have made: what can be read of it."""
    lines: dict[str, bytes] = {}
    damages: list[str] = []
    nameless = 0
    try:
        if not path.is_file():
            # Nothing else is read: a pipe would never end.
            raise OSError("it is no file")
        with lzma.open(path) as file:
            for line in iter(partial(file.readline, LONGEST), b""):
                last = LAST_FIELDS.fullmatch(line[-LENGTH_OF_LAST:])
                if last is None:
                    nameless += 1
                else:
                    # Of two lines with one key the first counts, as in a merge.
                    lines.setdefault(last[1].decode(), line)
    except (lzma.LZMAError, EOFError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        damages.append(f"after {len(lines)} records: {reason}")
    if nameless:
        damages.append(f"{nameless} of its lines do not end as a record does")
    return Archive(lines, damages)


# Without a bound, as for single records: each table of a page asks for the records again.
@lru_cache(None)
def _opened(path: Path, size: int, changed: int) -> Archive:
    """The archive in a file, opened anew after a change, with one warning if it is damaged."""
    archive = open_archive(path)
    if archive.damages:
        warnings.warn(
            f"{path.name} is damaged ({'; '.join(archive.damages)}). What can be read of it is "
            "used, and the rest counts as missing: take a whole copy, such as Git's.",
            stacklevel=4,
        )
    return archive


def read_archive(path: Path) -> Archive:
    """The archive in a file of this machine; one without records if there is no such file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return Archive({}, [])
    return _opened(path, stat.st_size, stat.st_mtime_ns)


def write_archive(path: Path, lines: Mapping[str, bytes]) -> None:
    """Replace an archive by these lines, in their order; durable before this returns. FptError if
    it cannot be written."""
    content = b"".join(lines.values())
    write_atomic(path, lzma.compress(content, check=lzma.CHECK_CRC64, filters=COMPRESSION))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # The new name too: else a power failure could undo the renaming alone.
        os.fsync(folder)
    finally:
        os.close(folder)
