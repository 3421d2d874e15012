"""What a record holds, how it is written as a file, and what a file must hold to be one.

Records come from other machines too (`fpt merge`), so a digest that fits is not enough: it
says that a file is whole, not that its values can be the results of a run. `parse`
therefore refuses whatever no run can give, and the rest of the package relies on it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..spec import RunSpec, canonical, from_dict

Status = Literal["done", "diverged"]

# The key of a run, which is the stem of its file.
KEY = re.compile("[0-9a-f]{16}")
SHA256 = re.compile("[0-9a-f]{64}")
# A number beyond it is no measurement, and overflows where it is summed.
LARGEST = 1e300
# What tables, pages and estimates of cost read of every record. A diverged run has it all
# too.
METRICS = ("test_accuracy", "valid_accuracy", "best_step", "steps")
COST = ("seconds", "tokens", "flops", "peak_bytes")
ENVIRONMENT = ("device", "kind")
POINT = ("step", "valid_accuracy")
# The range of a number follows from how its name ends.
SHARES = ("accuracy", "clipped")  # in [0, 1]
COUNTS = ("step", "steps", "items")  # integers that are not negative
AMOUNTS = ("loss", "gradient", "norm", "penalty")  # not negative


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


def copied(record: Record) -> Record:
    """The record with values of its own: who reads a cached record may change what was
    read, and the next reader still gets what the file says."""
    return replace(
        record,
        metrics=dict(record.metrics),
        curve=[dict(point) for point in record.curve],
        cost=dict(record.cost),
        environment=dict(record.environment),
        pack=list(record.pack),
        notes=list(record.notes),
    )


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
    """The values by name in a file of JSON, of whatever meaning; else ValueError."""
    try:
        values = json.loads(content)
        # Half of a surrogate pair, which no file and no page can hold, is a ValueError
        # here.
        json.dumps(values, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(values, dict):
        raise ValueError("it has no values by name")
    return values


def parse(content: bytes, key: str | None = None) -> Record:
    """The record in a file, or a line of the archive; a file is named by its `key`.
    ValueError if it is damaged, if it holds another record, or if its values cannot be
    those of a run."""
    values = load(content)
    try:
        values["curve"] = points_of(values["curve"])
        if values.pop("digest") != digest(values):
            raise ValueError("its digest does not fit its content")
        stated_key = values.pop("key")
        values["spec"] = from_dict(values["spec"])
        record = Record(**values)
        check_spec_types(record.spec)
        own_key = record.key
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its fields are not those of a record ({error})") from error
    if not (key or own_key) == stated_key == own_key:
        raise ValueError(f"it is the record of {stated_key!r}")
    check_record(record)
    return record


def points_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a curve that a file holds by column; null is a value that a point
    lacks."""
    rows = zip(*columns.values(), strict=True)
    points = [dict(zip(columns, row, strict=True)) for row in rows]
    return [
        {name: value for name, value in point.items() if value is not None}
        for point in points
    ]


# ----------------------------------------------------------------------------------- values

SPEC_TYPES = {
    name: get_args(hint) if isinstance(hint, UnionType) else (get_origin(hint) or hint,)
    for name, hint in get_type_hints(RunSpec).items()
}


def check_spec_types(spec: RunSpec) -> None:
    """ValueError unless every field of a spec has its type. (Its values are checked by the
    key: no other spec has it.)"""
    for name, kinds in SPEC_TYPES.items():
        value = getattr(spec, name)
        if type(value) not in kinds and not (kinds == (float,) and type(value) is int):
            raise ValueError(f"its spec has {name} {value!r}")
    check_texts("trainable", list(spec.trainable))
    data = json.loads(spec.data)
    if not isinstance(data["name"], str) or not isinstance(data["options"], dict):
        raise ValueError(f"its spec names no task but {spec.data}")


def check_record(record: Record) -> None:
    """ValueError unless the values of a record can be those of a run."""
    if record.status not in get_args(Status):
        raise ValueError(f"its status is {record.status!r}")
    check_numbers("metrics", record.metrics, METRICS)
    if record.metrics["best_step"] > record.metrics["steps"]:
        raise ValueError("its best step comes after its last one")
    check_numbers("cost", record.cost, COST, least=0)
    for point in record.curve:
        check_numbers("curve", point, POINT)
    steps = [point["step"] for point in record.curve]
    if steps != sorted(steps):
        raise ValueError("the steps of its curve do not rise")
    machine = check_names_of("environment", record.environment, ENVIRONMENT)
    check_texts("environment", [machine[name] for name in ENVIRONMENT])
    for name, value in machine.items():
        if type(value) not in (str, int, float, bool, type(None)):
            raise ValueError(f"its environment has {name} {value!r}")
    check_texts("notes", record.notes)
    check_texts("pack", record.pack)
    if not all(map(KEY.fullmatch, record.pack)):
        raise ValueError("its pack is not a list of keys")
    if record.parameters is not None and not SHA256.fullmatch(str(record.parameters)):
        raise ValueError("its parameters are not named by a SHA-256")


def parse_metadata(content: bytes) -> dict[str, Any]:
    """The pretraining metadata of a backbone in a file. ValueError if the file is damaged,
    or if its values cannot be such metadata."""
    values = load(content)
    if values.get("digest") != digest(values):
        raise ValueError("its digest does not fit its content")
    numbers = {name: value for name, value in values.items() if type(value) in (int, float)}
    # What claims compute from the losses of a corpus, if the metadata have it at all.
    learned = ("valid_loss", "unigram_entropy") if "unigram_entropy" in values else ()
    scale = ("weight_scale",) if "weight_scale" in values else ()
    check_numbers("metadata", numbers, (*learned, *scale), least=0)
    if numbers.get("weight_scale") == 0:
        raise ValueError("its weight scale is 0, which has no logarithm")
    return values


def check_names_of(where: str, values: object, needed: Iterable[str]) -> dict[str, Any]:
    """`values`, which must be values by name, all of those `needed` among them; else
    ValueError."""
    if not isinstance(values, dict):
        raise ValueError(f"its {where} are not values by name")
    absent = [name for name in needed if name not in values]
    if absent:
        raise ValueError(f"its {where} lack {', '.join(absent)}")
    return values


@cache
def allowed(name: str) -> tuple[tuple[type, ...], float, float]:
    """The types and the range, both ends included, of a number of this name."""
    kinds = (int,) if name.endswith(COUNTS) else (int, float)
    least = 0 if name.endswith(SHARES + COUNTS + AMOUNTS) else -LARGEST
    return kinds, least, 1 if name.endswith(SHARES) else LARGEST


def check_numbers(
    where: str, values: object, needed: Iterable[str], least: float = -LARGEST
) -> None:
    """ValueError unless `values` are numbers by name in the range that their name implies,
    `least` or more, all of those `needed` among them."""
    for name, value in check_names_of(where, values, needed).items():
        kinds, low, high = allowed(name)
        if type(value) not in kinds or not max(low, least) <= value <= high:
            raise ValueError(f"its {where} have {name} {value!r}")


def check_texts(where: str, values: object) -> None:
    """ValueError unless `values` are a list of texts."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"its {where} are not a list of texts")
