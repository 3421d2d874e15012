"""Many records in one compressed file, `records.jsonl.xz`.

A line is what the file of a single record holds. The lines stand in the order of their
keys, and all settings of the compression are fixed, so the same records give the same file.
"""

import json
import lzma
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..files import write_atomic
from .content import Record, parse

ARCHIVE = "records.jsonl.xz"
# Bytes of a line; a record has 2 to 26 kB, so no foreign file fills the memory.
LONGEST = 2**24
# A sentence names so many damages or files at most.
MAX_NAMED = 5
# Every setting by its value: what a preset stands for may change with the library.
COMPRESSION = [
    {
        "id": lzma.FILTER_LZMA2, "dict_size": 2**23, "lc": 3, "lp": 0, "pb": 0,
        "mode": lzma.MODE_NORMAL, "nice_len": 273, "mf": lzma.MF_BT4, "depth": 512,
    }
]  # fmt: skip


@dataclass(frozen=True)
class Archive:
    """The records of one file by key, and a sentence for each part that is damaged."""

    records: Mapping[str, Record] = field(default_factory=dict)
    damages: Sequence[str] = ()


def listed(reasons: Sequence[str]) -> str:
    """The first MAX_NAMED of some reasons, on one line."""
    more = [f"and {len(reasons) - MAX_NAMED} more"] if len(reasons) > MAX_NAMED else []
    return " ".join("; ".join([*reasons[:MAX_NAMED], *more]).split())


def open_archive(path: Path) -> Archive:
    """The archive in a file that another machine may have made: what can be read of it."""
    records: dict[str, Record] = {}
    damages = []
    number = 0
    try:
        if not path.is_file():
            # Nothing else is read: a pipe would never end.
            raise OSError("it is not a file")
        with lzma.open(path) as file:
            while line := file.readline(LONGEST):
                number += 1
                try:
                    record = parse(line)
                except ValueError as error:
                    damages.append(f"in line {number}, {error}")
                else:
                    # Of two lines with one key the first counts.
                    first = records.setdefault(record.key, record)
                    if first != record:
                        damages.append(f"in line {number}, a second result of {record.key}")
    except (lzma.LZMAError, EOFError, OSError) as error:
        damages.append(f"after {number} records: {str(error).rstrip('.')}")
    return Archive(records, damages)


# Without a bound, as for single records: each table of a page asks for the records again.
@lru_cache(None)
def _opened(path: Path, size: int, changed: int) -> Archive:
    """The archive in a file, opened anew after a change, with one warning if it is
    damaged."""
    archive = open_archive(path)
    if archive.damages:
        warnings.warn(
            f"{path.name} is damaged ({listed(archive.damages)}). What can be read of it "
            "is used, and the rest counts as missing: take a whole copy, such as Git's.",
            stacklevel=4,
        )
    return archive


def read_archive(path: Path) -> Archive:
    """The archive in a file of this machine; one without records if there is no such
    file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return Archive()
    return _opened(path, stat.st_size, stat.st_mtime_ns)


def lines_in(path: Path) -> dict[str, bytes]:
    """The lines of a whole archive by key, as they are; none if there is no such file."""
    if not path.exists():
        return {}
    with lzma.open(path) as file:
        return {json.loads(line)["key"]: line for line in file}


def write_archive(path: Path, lines: Mapping[str, bytes]) -> None:
    """Replace an archive by these lines, by key; durable before this returns. FptError if
    it cannot be written."""
    content = b"".join(lines[key] for key in sorted(lines))
    write_atomic(path, lzma.compress(content, check=lzma.CHECK_CRC64, filters=COMPRESSION))
    if os.name != "posix":  # Windows opens no folder
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # The new name too: else a power failure could undo the renaming alone.
        os.fsync(folder)
    finally:
        os.close(folder)
