"""What `fpt status` needs of each record, kept in the cache: a record is read again only when its
file has changed. Whatever enters a table is read, and checked, from the record itself."""

import json
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..files import content_of
from ..records import Store, check, version_of
from .remembered import recalled, remember

CHOOSING = ("valid_accuracy", "best_step")
MANY = 1000  # records to read, from where on all cores do


@dataclass(frozen=True)
class Summary:
    """`version`: of the files that it was read from; `kept`: the parameters are there, whole;
    `metrics`: those that choose a learning rate (`fpt.analysis.grid.Result`)."""

    version: list[int]
    backbone: str
    kind: str  # of device
    flops: float
    seconds: float  # of the processor, or of the clock in older records
    kept: bool
    status: str
    metrics: dict[str, float]


def summaries(store: Store, keys: Iterable[str]) -> dict[str, Summary]:
    """The summaries of the records that are here, by key. What is damaged is moved aside, said,
    and missing, as `Store.read` has it."""
    name, form = f"summaries/{store.folder.parent.name}", " ".join(f.name for f in fields(Summary))
    cached = recalled(name, form) or {}
    known = {key: Summary(**values) for key, values in cached.items()}
    found: dict[str, Summary] = {}
    changed: list[tuple[str, list[int]]] = []
    for key in dict.fromkeys(keys):
        version = _version(store.path(key), store.parameters_path(key))
        if key in known and known[key].version == version:
            found[key] = known[key]
        elif version:
            changed.append((key, version))
    read = partial(_read, store)
    if len(changed) < MANY:
        fresh = list(map(read, changed))
    else:
        with get_context("fork").Pool(initializer=_ended_with_pool) as pool:
            fresh = pool.map(read, changed)
    found |= {key: it for (key, _), it in zip(changed, fresh, strict=True) if it is not None}
    if not found.items() <= known.items():
        content = {key: asdict(summary) for key, summary in (known | found).items()}
        remember(name, form, content)
    return found


def _ended_with_pool() -> None:
    """In a process of the pool: signals are for the command, which ends it without a word."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _version(record: Path, parameters: Path) -> list[int]:
    """What changes when a file is replaced; [] where there is no record."""
    version: list[int] = []
    for path in (record, parameters):
        try:
            version += version_of(path)
        except FileNotFoundError:
            break
        except OSError:  # the store says what is wrong there
            return [0]
    return version


def _read(store: Store, changed: tuple[str, list[int]]) -> Summary | None:
    key, version = changed
    # Its spec is read, and its key worked out from that, where its numbers are shown; to count it,
    # the rest of the check is enough.
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        content = json.loads(content_of(store.path(key)))
        check(content)
        if content["key"] == key and content.get("parameters") is None:
            return _summary(version, content["spec"]["backbone"], content, False)
    record = store.read(key)
    if record is None:
        return None
    kept = store.parameters(record) is not None
    return _summary(version, record.spec.backbone, vars(record), kept)


def _summary(version: list[int], body: str, record: Mapping[str, Any], kept: bool) -> Summary:
    cost, metrics = record["cost"], record["metrics"]
    return Summary(
        version,
        body,
        record["environment"]["kind"],
        cost["flops"],
        cost.get("process_seconds", cost["seconds"]),
        kept,
        record["status"],
        {name: metrics[name] for name in CHOOSING if name in metrics},
    )
