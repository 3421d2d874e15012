"""The store of records: one small JSON file per finished run, named by the run's key.

Records are the truth; tables, figures and prose are derived from them. The store is shared by all
sections of a profile and by any number of processes. Where a section asks for it, the trained
parameters of a run are kept beside its record, in KEY.safetensors.
"""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Container, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from .files import (
    CACHE,
    NAME,
    REPORTS,
    FptError,
    content_of,
    lock,
    set_aside,
    write_all,
    write_atomic,
)
from .spec import RunSpec, from_dict

Status = Literal["done", "diverged", "failed"]
BESIDE = ("bodies", "english")  # folders that lie in that of the records
MERGED = 1 << 26  # bytes that a merge writes at once
KNOWN = 4096  # records that are kept as parsed, more than a section has
LARGEST = 1e100  # no loss, cost or step comes near
KEY = re.compile("[0-9a-f]{16}")

KINDS: Mapping[str, type] = {
    "metrics": dict, "curve": list, "cost": dict, "environment": dict, "pack": list, "notes": list,
}  # fmt: skip
# What every run has; a table may ask for it.
MEASURED = ("test_accuracy", "valid_accuracy", "best_step", "steps")  # of one that is done
SPENT = ("seconds", "tokens", "flops", "peak_bytes")
MACHINE = ("device", "kind")
POINT = ("step", "valid_accuracy")


@dataclass(frozen=True)
class Record:
    """What one run gave.

    `metrics` holds accuracies in [0, 1] and losses in nats; `curve` one mapping per evaluation on
    validation; `cost` seconds, tokens, FLOPs, bytes; `environment` what it ran on; `notes` what a
    reader of a table must know.
    """

    spec: RunSpec
    status: Status
    metrics: dict[str, float]
    curve: list[dict[str, float]]
    cost: dict[str, float]
    environment: dict[str, Any]
    pack: list[str]  # keys of the runs that were trained together
    notes: list[str] = field(default_factory=list)
    parameters: str | None = None  # SHA-256 of the file of parameters, None where none are kept

    @property
    def key(self) -> str:
        return self.spec.key

    def measured(self) -> dict[str, Any]:
        """The part that two trainings of one spec in one packing share to the bit."""
        return {"status": self.status, "metrics": self.metrics, "curve": self.curve}


def digest(content: dict[str, Any]) -> str:
    """SHA-256 of a record's content without its `digest`."""
    body = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def to_content(record: Record) -> dict[str, Any]:
    content = asdict(record) | {"spec": record.spec.to_dict(), "key": record.key}
    if record.parameters is None:  # the field came later: records without it stay what they were
        del content["parameters"]
    content = json.loads(json.dumps(content, allow_nan=False))
    return content | {"digest": digest(content)}


def to_file(record: Record) -> bytes:
    """The file of a record: its curve by column, which takes a third of the bytes."""
    content = to_content(record)
    points = content["curve"]
    names = dict.fromkeys(name for point in points for name in point)
    content["curve"] = {name: [point.get(name) for point in points] for name in names}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def by_point(curve: Any) -> Any:
    """A curve by column as one mapping per evaluation; anything else as it is."""
    if type(curve) is not dict or not all(type(values) is list for values in curve.values()):
        return curve
    points = zip(*curve.values(), strict=True)
    rows = [zip(curve, point, strict=True) for point in points]
    return [{name: value for name, value in row if value is not None} for row in rows]


def from_content(content: dict[str, Any]) -> Record:
    """The record in `content`; ValueError where it is not one, or not the one it claims to be."""
    try:
        check(content)
        spec = from_dict(content["spec"])
        names = [f.name for f in fields(Record) if f.name not in ("spec", "parameters")]
        values = {name: content[name] for name in names}
        record = Record(spec, **values, parameters=content.get("parameters"))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a field is missing or unknown ({error})") from error
    if record.key != content.get("key"):
        raise ValueError("its key does not fit its spec")
    if record.key not in record.pack:
        raise ValueError("its pack is one without it")
    return record


def check(content: Any) -> None:
    """ValueError, or KeyError for a field, where `content` is not a record's but for its spec."""
    if not isinstance(content, dict) or content.get("digest") != digest(content):
        raise ValueError("its digest does not fit its content")
    for name, kind in KINDS.items():
        if type(content[name]) is not kind:
            raise ValueError(f"its {name} is no {kind.__name__}")
    metrics, curve, cost = content["metrics"], content["curve"], content["cost"]
    environment, pack = content["environment"], content["pack"]
    if content["status"] not in get_args(Status):
        raise ValueError(f"its status is {content['status']!r}")
    if not all(type(text) is str for text in content["notes"]):
        raise ValueError("its notes hold something other than text")
    if not all(type(key) is str and KEY.fullmatch(key) for key in pack):
        raise ValueError("its pack holds something other than keys of runs")
    if not isinstance(content.get("parameters"), str | None):
        raise ValueError("its parameters are no digest")
    if not all(type(environment.get(name)) is str for name in MACHINE):
        raise ValueError(f"its environment does not name its {' and '.join(MACHINE)}")
    if not all(type(point) is dict for point in curve):
        raise ValueError("its curve holds something other than numbers by name")
    check_numbers("metrics", metrics, MEASURED if content["status"] == "done" else ())
    check_numbers("cost", cost, SPENT)
    for point in curve:
        check_numbers("curve", point, POINT)
    for name, value in cost.items():
        if value < 0:
            raise ValueError(f"its {name} is {value!r}")


def check_numbers(what: str, numbers: Mapping[str, Any], needed: Iterable[str]) -> None:
    """ValueError where one is no number, not finite, or an accuracy outside [0, 1], or where one of
    the `needed` is missing."""
    for name, value in numbers.items():
        least, most = (0, 1) if "accuracy" in name else (-LARGEST, LARGEST)
        if type(value) not in (int, float) or not least <= value <= most:
            raise ValueError(f"its {name} is {value!r:.40}")
    for name in needed:
        if name not in numbers:
            raise ValueError(f"its {what} has no {name}")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for a name that stands twice, of which one would be hidden."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in it")
    return found


def parse(content: bytes, key: str) -> Record:
    """The record in a file that is named by `key`; ValueError where it is none, or another's."""
    try:
        found = json.loads(content.decode(), object_pairs_hook=unique)
        if type(found) is dict and "curve" in found:
            found["curve"] = by_point(found["curve"])
        record = from_content(found)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if record.key != key:
        raise ValueError(f"it is the record of {record.key}")
    return record


def version_of(path: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced."""
    try:
        seen = path.stat()
    except OSError:  # a link that leads nowhere or to itself: what that means is said by who reads
        seen = path.lstat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


@lru_cache(KNOWN)
def _parsed(path: Path, version: tuple[int, ...]) -> Record:
    """The record in a file, which every table of a page asks for: parsed and checked once."""
    return parse(content_of(path), path.stem)


class Store:
    """The records of one profile, `reports/<profile>/records`."""

    def __init__(self, folder: Path, cache: Path = CACHE) -> None:
        """`cache`: where the lock of who writes lies."""
        self.folder, self.cache = folder, cache

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def parameters_path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def keys(self) -> set[str]:
        """Keys that have a file; the files are not read."""
        return {path.stem for path in self.folder.glob("[0-9a-f]*.json")}

    def read(self, key: str, keep: bool = False) -> Record | None:
        """The record of `key`, or None. A damaged one is moved aside, and that is said.

        `keep`: without its parameters, whole, a record counts as missing.
        """
        path = self.path(key)
        try:
            record = _parsed(path, version_of(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            aside = set_aside(path)
            warnings.warn(
                f"The record {path.name} is damaged ({error}); it was moved to {aside.name} "
                "and its run counts as missing.",
                stacklevel=2,
            )
            return None
        except OSError as error:
            raise FptError(f"Cannot read the record {path}: {error.strerror}.") from error
        return None if keep and self.parameters(record) is None else record

    def parameters(self, record: Record) -> bytes | None:
        """The safetensors file of a record's parameters, or None. A damaged one is moved aside,
        and that is said."""
        path = self.parameters_path(record.key)
        if record.parameters is None:
            return None
        try:
            content = content_of(path)
            if hashlib.sha256(content).hexdigest() != record.parameters:
                raise ValueError("their digest is not the one in their record")
        except FileNotFoundError:
            return None
        except ValueError as error:
            aside = set_aside(path)
            warnings.warn(
                f"The parameters {path.name} are damaged ({error}); they were moved to "
                f"{aside.name}, and their run counts as missing where they are asked for.",
                stacklevel=2,
            )
            return None
        except OSError as error:
            raise FptError(f"Cannot read the parameters {path}: {error.strerror}.") from error
        return content

    def read_all(self, keys: Iterable[str], keep: Container[str] = ()) -> dict[str, Record]:
        """The records that are here; those of `keep` only with their parameters."""
        found = {key: self.read(key, key in keep) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def write(self, record: Record, parameters: bytes | None = None) -> Record:
        """Write the record, and before it the file of the parameters that it then names; returns
        what was written. Waits for a merge, which would not see it."""
        named = None
        with self._written():
            if parameters is not None:
                named = hashlib.sha256(parameters).hexdigest()
                write_atomic(self.parameters_path(record.key), parameters)
            record = replace(record, parameters=named)
            write_atomic(self.path(record.key), to_file(record))
        return record

    def _written(self) -> AbstractContextManager[bool]:
        """Held by who writes to the store."""
        return lock(self.cache / "locks" / self.folder.parent.name / "records", wait=True)

    def digests(self, keys: Iterable[str], keep: Container[str] = ()) -> dict[str, str | None]:
        """Content digest of each key's record, None where it is missing."""
        keys = list(keys)
        found = self.read_all(keys, keep)
        return {key: digest(to_content(found[key])) if key in found else None for key in keys}

    def _holds(self, key: str, content: bytes) -> bool:
        """Whether the file of `key` is `content`, so that it need not be read as a record."""
        try:
            return self.path(key).read_bytes() == content
        except OSError:
            return False

    def merge(self, folder: Path) -> tuple[int, int]:
        """Take over the records of another store; returns (taken, already here).

        A record that is here already stays as it is: two machines may both have run a spec, and
        the first one has been shown in tables. Only one that comes with parameters takes the place
        of one without. Damaged files in `folder` raise FptError.
        """
        if not os.path.isdir(folder):  # False, too, for a name that is too long for one
            raise FptError(f"There is no folder {folder} to merge; name one that holds records.")
        if os.path.realpath(folder) == os.path.realpath(self.folder):
            raise FptError(f"{folder} is the store itself; name a folder with records of another.")
        incoming: dict[Path, tuple[bytes, str | None]] = {}  # with the digest of its parameters
        for path in sorted(folder.glob("[0-9a-f]*.json")):
            try:
                content = content_of(path)
                record = parse(content, path.stem)
            except (ValueError, OSError) as error:
                raise FptError(
                    f"{path} is not a record ({error}); remove it and merge again."
                ) from error
            _parameters_beside(path, record.parameters)
            incoming[path] = content, record.parameters
        if not incoming:
            raise FptError(f"There are no records in {folder}; name the folder that holds them.")
        batch: dict[Path, bytes] = {}
        taken = size = 0
        with self._written():
            for path, (content, named) in incoming.items():
                if named is None and self._holds(path.stem, content):
                    continue
                if self.read(path.stem, keep=named is not None) is not None:
                    continue
                parameters = _parameters_beside(path, named)
                if parameters is not None:
                    batch[self.parameters_path(path.stem)] = parameters
                batch[self.path(path.stem)] = content
                taken, size = taken + 1, size + len(content) + len(parameters or b"")
                if size > MERGED:
                    write_all(batch)
                    batch, size = {}, 0
            write_all(batch)
        return taken, len(incoming) - taken


def _parameters_beside(path: Path, named: str | None) -> bytes | None:
    """The parameters whose digest a record of another store names; FptError where they are not
    whole."""
    if named is None:
        return None
    file = path.with_suffix(".safetensors")
    try:
        content = content_of(file)
    except (ValueError, OSError):
        content = b""
    if hashlib.sha256(content).hexdigest() != named:
        raise FptError(
            f"{file} does not hold the parameters that {path.name} names; copy it again, or remove "
            "both and merge again."
        )
    return content


def merge_beside(records: Path, other: Path) -> int:
    """Copy from another store what lies beside its records and is missing here: pretraining
    metadata (`fpt.pretraining.metadata`), and what earlier versions measured on English as a
    language. Returns how many files were copied; a damaged one raises FptError.
    """
    taken: dict[Path, bytes] = {}
    folders = [other / kind for kind in BESIDE if os.path.isdir(other / kind)]
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        if not NAME.fullmatch(path.name):
            continue
        try:
            content = content_of(path)
            found = json.loads(content)
            whole = found["digest"] == digest(found)
        except (ValueError, KeyError, TypeError, OSError, RecursionError):
            whole = False
        if not whole:
            raise FptError(f"{path} is not what was written there; remove it and merge again.")
        here = records / path.relative_to(other)
        if not here.exists():
            taken[here] = content
    write_all(taken)
    return len(taken)


def store(profile: str) -> Store:
    return Store(REPORTS / profile / "records")
