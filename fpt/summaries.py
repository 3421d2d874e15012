"""What `fpt status` needs of each record, kept in the cache: a record is read again only when its
file has changed. Whatever enters a table is read, and checked, from the record itself."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from . import paths
from .errors import FptError
from .files import write_json
from .records import Store

CHOOSING = ("valid_accuracy", "best_step")


@dataclass(frozen=True)
class Summary:
    """`version`: of the files that it was read from; `kept`: the parameters are there, whole;
    `metrics`: those that choose a learning rate (`fpt.grid.Result`)."""

    version: list[int]
    backbone: str
    kind: str  # of device
    flops: float
    seconds: float
    kept: bool
    status: str
    metrics: dict[str, float]


def summaries(store: Store, keys: Iterable[str]) -> dict[str, Summary]:
    """The summaries of the records that are here, by key. What is damaged is moved aside, said,
    and missing, as `Store.read` has it."""
    path = paths.CACHE / "summaries" / f"{store.folder.parent.name}.json"
    known: dict[str, Summary] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):
        content = json.loads(path.read_bytes())
        known = {key: Summary(**values) for key, values in content.items()}
    found = {}
    for key in dict.fromkeys(keys):
        version = _version(store.path(key), store.parameters_path(key))
        if not version:
            continue
        summary = known.get(key)
        if summary is None or summary.version != version:
            summary = _read(store, key, version)
        if summary is not None:
            found[key] = summary
    if not found.items() <= known.items():
        with suppress(FptError):  # a cache that cannot be written costs time only
            content = {key: asdict(summary) for key, summary in (known | found).items()}
            write_json(path, content, indent=None)
    return found


def _version(record: Path, parameters: Path) -> list[int]:
    """What changes when a file is replaced; [] where there is no record."""
    version = []
    for path in (record, parameters):
        try:
            seen = path.stat()
        except FileNotFoundError:
            break
        version += [seen.st_ino, seen.st_size, seen.st_mtime_ns]
    return version


def _read(store: Store, key: str, version: list[int]) -> Summary | None:
    record = store.read(key)
    if record is None:
        return None
    return Summary(
        version,
        record.spec.backbone,
        record.environment["kind"],
        record.cost["flops"],
        record.cost["seconds"],
        store.parameters(record) is not None,
        record.status,
        {name: record.metrics[name] for name in CHOOSING if name in record.metrics},
    )
