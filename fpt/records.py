"""The store of records: one small JSON file per finished run, named by the run's key.

Records are the truth; tables, figures and prose are derived from them. The store is shared by all
sections of a profile and by any number of processes. If a section asks for it, the trained
parameters of a run are kept beside its record, in KEY.safetensors.
"""

import hashlib
import json
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from .files import REPORTS, FptError, read_json, set_aside, write_atomic, write_json
from .spec import RunSpec, canonical, from_dict

Status = Literal["done", "diverged"]
METADATA = "bodies"  # subfolder of the records: pretraining metadata of backbones


@dataclass(frozen=True)
class Record:
    """The results of one run.

    `metrics` holds accuracies in [0, 1] and losses in nats; `curve` one mapping per evaluation on
    validation; `cost` seconds, tokens, FLOPs, bytes; `environment` what it ran on; `notes` what a
    reader of a table must know.
    """

    spec: RunSpec
    status: Status
    metrics: dict[str, float]
    curve: list[dict[str, float]] = field(repr=False)
    cost: dict[str, float] = field(repr=False)
    environment: dict[str, Any] = field(repr=False)
    pack: list[str] = field(repr=False)  # keys of the runs that were trained together
    notes: list[str] = field(default_factory=list)
    parameters: str | None = None  # SHA-256 of the file of parameters, None if none are kept

    @property
    def key(self) -> str:
        """The key of the run, which names its file."""
        return self.spec.key


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of a file without its own `digest`."""
    named = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(canonical(named).encode()).hexdigest()


def to_content(record: Record) -> dict[str, Any]:
    """A record as JSON values, with its key and its digest."""
    content = vars(record) | {"spec": record.spec.to_dict(), "key": record.key}
    if record.parameters is None:  # the field came later: records without it stay what they were
        del content["parameters"]
    return content | {"digest": digest(content)}


def to_file(content: Mapping[str, Any]) -> bytes:
    """The file of a record: its curve by column, which takes a third of the bytes."""
    points = content["curve"]
    names = dict.fromkeys(name for point in points for name in point)
    columns = {name: [point.get(name) for point in points] for name in names}
    whole = {**content, "curve": columns}
    return json.dumps(whole, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse(content: bytes, key: str) -> Record:
    """The record in a file that is named by `key`; ValueError if it is damaged or another's."""
    try:
        found = json.loads(content)
        columns = found["curve"]
        points = zip(*columns.values(), strict=True)
        rows = [zip(columns, point, strict=True) for point in points]
        found["curve"] = [{k: value for k, value in row if value is not None} for row in rows]
        if found.pop("digest") != digest(found):
            raise ValueError("its digest does not fit its content")
        named = found.pop("key")
        record = Record(**found | {"spec": from_dict(found["spec"])})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its fields are not those of a record ({error})") from error
    if not key == named == record.key:
        raise ValueError(f"it is the record of {named}")
    return record


@lru_cache(8192)  # more than a section has
def _parsed(path: Path, size: int, changed: int) -> Record:
    """The record in a file, which every table of a page asks for; parsed anew after a change."""
    return parse(path.read_bytes(), path.stem)


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
        return {path.stem for path in self.folder.glob("[0-9a-f]*.json")}

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
        if hashlib.sha256(content).hexdigest() != record.parameters:
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
            named = hashlib.sha256(parameters).hexdigest()
            write_atomic(self.parameters_path(record.key), parameters)
        record = replace(record, parameters=named)
        write_atomic(self.path(record.key), to_file(to_content(record)))
        return record

    def digests(self, keys: Collection[str], keep: Container[str] = ()) -> dict[str, str | None]:
        """Content digest of each key's record, None if it is missing."""
        found = self.read_all(keys, keep)
        return {key: digest(to_content(found[key])) if key in found else None for key in keys}

    def merge(self, folder: Path) -> tuple[int, int]:
        """Take over the records of another store, with kept parameters and pretraining metadata;
        returns how many files were (taken, already here).

        What is here already stays as it is: two machines may both have run a spec, and the first
        one has been shown in tables. Only a record that comes with parameters takes the place of
        one without. Damaged records are moved aside with a warning. FptError if `folder` holds
        no records, or damaged metadata.
        """
        other = Store(folder)
        found = other.read_all(other.keys())
        metadata = {path.name: read_json(path) for path in folder.glob(f"{METADATA}/*.json")}
        if not found and not metadata:
            raise FptError(f"There are no records in {folder}; name the folder that holds them.")
        taken = 0
        for name, content in metadata.items():
            copy = self.folder / METADATA / name
            if not copy.exists():
                write_json(copy, content)
                taken += 1
        for key, record in found.items():
            parameters, here = other.parameters(record), self.read(key)
            if here is None or (parameters is not None and self.parameters(here) is None):
                self.write(record, parameters)
                taken += 1
        return taken, len(found) + len(metadata) - taken


def store(profile: str) -> Store:
    """The store of a profile."""
    return Store(REPORTS / profile / "records")
