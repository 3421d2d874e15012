"""What a record holds, how it is written as a file, and what a file must hold to be one.

Records come from other machines too, so a digest that fits is not enough: it
says that a file is whole, not that its values can be the results of a run. `parse`
therefore refuses whatever no run can give, by schemas.yaml.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ..files import read_yaml
from ..spec import RunSpec, canonical, from_dict

Status = Literal["done", "diverged"]

# The key of a run, which is the stem of its file.
KEY = re.compile("[0-9a-f]{16}")
SCHEMAS = read_yaml(Path(__file__).with_name("schemas.yaml"))


@dataclass(frozen=True)
class Record:
    """The results of one run.

    `metrics` holds accuracies in [0, 1] and losses in nats; `curve` one mapping per
    evaluation on validation; `cost` seconds, tokens, FLOPs, bytes; `environment` what it
    ran on; `notes` what a reader of a table must know.
    """

    spec: RunSpec
    status: Status
    metrics: dict[str, float]
    curve: list[dict[str, float]] = field(repr=False)
    cost: dict[str, float] = field(repr=False)
    environment: dict[str, Any] = field(repr=False)
    pack: list[str] = field(repr=False)  # keys of the runs that were trained together
    notes: list[str] = field(default_factory=list)
    parameters: str | None = None  # SHA-256 of the file of kept parameters, if any

    @property
    def key(self) -> str:
        """The key of the run, which names its file."""
        return self.spec.key


@cache
def validator(kind: str) -> Callable[[Any], Any]:
    """A function that raises ValueError for content that the schema of a kind refuses."""
    try:
        import fastjsonschema  # late: it writes and compiles code
    except ImportError:
        # A machine that only trains has no more packages than it needs. It reads what it
        # wrote, and its records are checked where they are merged.
        return lambda content: None
    return fastjsonschema.compile(SCHEMAS[kind])


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of a file without its own `digest`."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def to_content(record: Record) -> dict[str, Any]:
    """A record as JSON values, with its key and its digest."""
    content = vars(record) | {"spec": record.spec.to_dict(), "key": record.key}
    if record.parameters is None:
        # The field came later: records without it stay what they were.
        del content["parameters"]
    return content | {"digest": digest(content)}


def to_file(content: Mapping[str, Any]) -> bytes:
    """The file of a record: its curve by column, which takes a third of the bytes."""
    points = content["curve"]
    names = dict.fromkeys(name for point in points for name in point)
    columns = {name: [point.get(name) for point in points] for name in names}
    text = json.dumps({**content, "curve": columns}, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def load(content: bytes) -> dict[str, Any]:
    """The values by name in a file of JSON, whatever they mean. ValueError for other
    content."""
    try:
        values = json.loads(content)
        # Half of a surrogate pair, which no file and no page can hold, fails to encode,
        # and UnicodeEncodeError is a ValueError.
        json.dumps(values, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return values


def parse(content: bytes, key: str | None = None) -> Record:
    """The record in a file, or a line of the archive; a file is named by its `key`.
    ValueError if it is damaged, if it holds another record, or if its values cannot be
    those of a run."""
    values = load(content)
    validator("record")(values)
    values["curve"] = points_of(values["curve"])
    check_digest(values)
    stated_key = values["key"]
    spec = from_dict(values["spec"])
    if spec.key != stated_key:
        raise ValueError(f"its specification has the key {spec.key!r}")
    if key not in (None, stated_key):
        raise ValueError(f"it is the record of {stated_key!r}")
    fields = {name: values[name] for name in values.keys() - {"key", "digest"}}
    record = Record(**{**fields, "spec": spec})
    if record.metrics["best_step"] > record.metrics["steps"]:
        raise ValueError("its best step comes after its last one")
    steps = [point["step"] for point in record.curve]
    if steps != sorted(steps):
        raise ValueError("the steps of its curve do not rise")
    return record


def parse_metadata(content: bytes) -> dict[str, Any]:
    """The pretraining metadata of a backbone in a file. ValueError if the file is damaged,
    or if its values cannot be such metadata."""
    values = load(content)
    validator("metadata")(values)
    check_digest(values)
    return values


def check_digest(content: Mapping[str, Any]) -> None:
    """ValueError unless the content of a file has its own digest."""
    if content.get("digest") != digest(content):
        raise ValueError("its digest does not fit its content")


def points_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a curve that a file holds by column; null is a value that a point
    lacks."""
    rows = zip(*columns.values(), strict=True)
    points = [dict(zip(columns, row, strict=True)) for row in rows]
    return [
        {name: value for name, value in point.items() if value is not None}
        for point in points
    ]
