"""The printed numbers of the paper and its companions, read from `tables.yaml`.

Every cell carries the tag of the source it was taken from, and a note where it is not what its row
and column say. Nothing here is a result of this project.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from fpt.files import PACKAGE, FptError, read_yaml

PATH = PACKAGE / "paper" / "tables.yaml"
_REQUIRED = {"title", "section", "unit", "source", "columns", "rows"}
_OPTIONAL = {"note", "called", "error_is", "errors", "cells"}


@dataclass(frozen=True)
class PaperCell:
    """One printed number, in its table's unit; `value` is None where none was printed or found.

    `error` is in the sense of the table's `error_is`; `note` is empty for an ordinary cell.
    """

    value: float | None
    source: str
    note: str = ""
    error: float | None = None


@dataclass(frozen=True)
class PaperTable:
    """A printed table; `cells` maps (row, column) to a `PaperCell`, complete and in print order.

    `called`: its number in the paper, or those of which it has one if that is not known.
    """

    id: str
    title: str
    section: str
    unit: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Mapping[tuple[str, str], PaperCell]
    called: str
    note: str = ""
    error_is: str = ""


def tables() -> dict[str, PaperTable]:
    """All tables with at least one known number, by id (`T1`, `Rothermel1`, ...)."""
    return dict(_document()[0])


def missing() -> dict[str, str]:
    """The tables that exist in the paper but not here, with the reason."""
    return dict(_document()[1])


def sources() -> dict[str, str]:
    """What each source tag stands for, and how far to trust it."""
    return dict(_document()[2])


def table(name: str) -> PaperTable:
    """The table with this id; FptError if there is none."""
    known, absent, _ = _document()
    if name in absent:
        raise FptError(f"The paper's table {name} has no numbers here: {absent[name]}.")
    return known[_known(name, known, "table of the paper")]


def called(name: str) -> str:
    """`T9`, or `T15, T18 or T19` if it is not known which of these numbers table `name` bears."""
    return table(name).called


def cell(name: str, row: str, column: str) -> PaperCell:
    """One cell of table `name`; FptError for an unknown table, row or column."""
    found = table(name)
    _known(row, found.rows, f"row of table {name}")
    _known(column, found.columns, f"column of table {name}")
    return found.cells[row, column]


def frame(name: str) -> pd.DataFrame:
    """Table `name` in tidy form: table, row, column, value, error, source, note; absent is NaN."""
    found = table(name)
    records = [
        (name, row, column, it.value, it.error, it.source, it.note)
        for (row, column), it in found.cells.items()
    ]
    names = ["table", "row", "column", "value", "error", "source", "note"]
    return pd.DataFrame(records, columns=names).astype({"value": float, "error": float})


def read(path: Path) -> tuple[dict[str, PaperTable], dict[str, str], dict[str, str]]:
    """Tables, missing tables and sources of a file shaped like `tables.yaml`.

    FptError for a duplicate key, a wrong number of values, or a mention of an unknown name.
    """
    document = read_yaml(path)
    conflicts = {key: f"conflict {key}: {text}" for key, text in document["conflicts"].items()}
    known = {
        name: _table(name, block, document["sources"], conflicts)
        for name, block in document["tables"].items()
    }
    return known, document["missing"], document["sources"]


@cache
def _document() -> tuple[dict[str, PaperTable], dict[str, str], dict[str, str]]:
    return read(PATH)


def _table(
    name: str, block: dict[str, Any], tags: Mapping[str, str], conflicts: Mapping[str, str]
) -> PaperTable:
    for key in _REQUIRED - block.keys():
        raise FptError(f"Table {name} lacks {key!r}; add it.")
    for key in block:
        _known(key, _REQUIRED | _OPTIONAL, f"entry of table {name}")
    columns, rows = tuple(block["columns"]), block["rows"]
    errors, exceptions = block.get("errors", {}), block.get("cells", {})
    for part in (errors, exceptions):
        for row in part:
            _known(row, rows, f"row of table {name}")
    for column in (column for special in exceptions.values() for column in special):
        _known(column, columns, f"column of table {name}")

    cells: dict[tuple[str, str], PaperCell] = {}
    for row, values in rows.items():
        spread = errors.get(row, [None] * len(columns))
        if not len(values) == len(spread) == len(columns):
            raise FptError(f"Row {row!r} of table {name} must have {len(columns)} values.")
        for column, value, error in zip(columns, values, spread, strict=True):
            special = exceptions.get(row, {}).get(column, {})
            for key in special:
                _known(key, ("source", "note", "conflict"), f"entry of a cell of table {name}")
            source = special.get("source", block["source"])
            for tag in source.split(", "):
                _known(tag, tags, f"source tag in table {name}")
            notes = [special["note"]] if "note" in special else []
            if "conflict" in special:
                notes.append(conflicts[_known(special["conflict"], conflicts, "conflict")])
            number = None if value is None else float(value)
            cells[row, column] = PaperCell(number, source, "; ".join(notes), error)
    return PaperTable(
        id=name,
        title=block["title"],
        section=block["section"],
        unit=block["unit"],
        source=block["source"],
        columns=columns,
        rows=tuple(rows),
        cells=MappingProxyType(cells),
        called=block.get("called", name),
        note=block.get("note", ""),
        error_is=block.get("error_is", ""),
    )


def _known(name: str, allowed: Iterable[str], what: str) -> str:
    if name not in (names := list(allowed)):
        raise FptError(f"{name!r} is no {what}; allowed are {', '.join(sorted(names))}.")
    return name
