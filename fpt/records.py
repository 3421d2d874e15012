"""The store of records: one small JSON file per finished run, named by the run's key.

Records are the truth; tables, figures and prose are derived from them. The store is shared by all
sections of a profile and by any number of processes.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from .errors import FptError
from .files import set_aside, write_json
from .paths import REPORTS
from .spec import RunSpec, from_dict

Status = Literal["done", "diverged", "failed"]


@dataclass(frozen=True)
class Record:
    """What one run gave.

    `metrics` holds accuracies in [0, 1] and losses in nats; `curve` one mapping per look at the
    validation set; `cost` seconds, tokens, FLOPs, bytes; `environment` what it ran on; `notes`
    what a reader of a table must know.
    """

    spec: RunSpec
    status: Status
    metrics: dict[str, float]
    curve: list[dict[str, float]]
    cost: dict[str, float]
    environment: dict[str, Any]
    pack: list[str]  # keys of the runs that were trained together
    notes: list[str] = field(default_factory=list)

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
    content = json.loads(json.dumps(content, allow_nan=False))
    return content | {"digest": digest(content)}


def from_content(content: dict[str, Any]) -> Record:
    """The record in `content`; ValueError where it is not one, or not the one it claims to be."""
    if not isinstance(content, dict) or content.get("digest") != digest(content):
        raise ValueError("its digest does not fit its content")
    try:
        spec = from_dict(content["spec"])
        names = [f.name for f in fields(Record) if f.name != "spec"]
        record = Record(spec, **{name: content[name] for name in names})
    except (KeyError, TypeError) as error:
        raise ValueError(f"a field is missing or unknown ({error})") from error
    if record.key != content.get("key"):
        raise ValueError("its key does not fit its spec")
    return record


class Store:
    """The records of one profile, `reports/<profile>/records`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def keys(self) -> set[str]:
        """Keys that have a file; the files are not read."""
        return {path.stem for path in self.folder.glob("[0-9a-f]*.json")}

    def read(self, key: str) -> Record | None:
        """The record of `key`, or None. A damaged one is moved aside, and that is said."""
        path = self.path(key)
        try:
            record = from_content(json.loads(path.read_bytes()))
            if record.key != key:
                raise ValueError(f"it is the record of {record.key}")
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
        return record

    def read_all(self, keys: Iterable[str]) -> dict[str, Record]:
        found = {key: self.read(key) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def write(self, record: Record) -> None:
        write_json(self.path(record.key), to_content(record))

    def digests(self, keys: Iterable[str]) -> dict[str, str | None]:
        """Content digest of each key's record, None where it is missing."""
        return {
            key: digest(to_content(record)) if (record := self.read(key)) else None for key in keys
        }

    def merge(self, folder: Path) -> tuple[int, int]:
        """Take over the records of another store; returns (taken, already here).

        A record that is here already stays as it is: two machines may both have run a spec, and
        the first one has been shown in tables. Damaged files in `folder` raise FptError.
        """
        if not folder.is_dir():
            raise FptError(f"There is no folder {folder} to merge; name one that holds records.")
        taken = present = 0
        incoming = []
        for path in sorted(folder.glob("[0-9a-f]*.json")):
            try:
                incoming.append(from_content(json.loads(path.read_bytes())))
            except ValueError as error:
                raise FptError(
                    f"{path} is not a record ({error}); remove it and merge again."
                ) from error
        for record in incoming:
            if self.read(record.key) is not None:
                present += 1
                continue
            self.write(record)
            taken += 1
        return taken, present


def store(profile: str) -> Store:
    return Store(REPORTS / profile / "records")
