"""The printed numbers of the paper and its companions, read from `tables.yaml`.

Every cell carries the tag of the source it was taken from, and a note if it is not what its row
and column say. Nothing here is a result of this project.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import pandas as pd

from ..files import PACKAGE, FptError, check_names, read_yaml

PATH = PACKAGE / "paper" / "tables.yaml"
OPTIONAL = ("called", "note", "error_is")


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

    title: str
    section: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: Mapping[tuple[str, str], PaperCell]
    called: str
    note: str = ""
    error_is: str = ""


@cache
def _document() -> dict[str, Any]:
    return read_yaml(PATH)


@cache
def tables() -> Mapping[str, PaperTable]:
    """All tables with at least one known number, by id (`T1`, `Rothermel1`, ...)."""
    return {name: _table(name, block) for name, block in _document()["tables"].items()}


def missing() -> Mapping[str, str]:
    """The tables that exist in the paper but not here, with the reason."""
    found: Mapping[str, str] = _document()["missing"]
    return found


def sources() -> Mapping[str, str]:
    """What each source tag stands for, and how far to trust it."""
    found: Mapping[str, str] = _document()["sources"]
    return found


def table(name: str) -> PaperTable:
    """The table with this id; FptError if there is none."""
    if name in missing():
        raise FptError(f"The paper's table {name} has no numbers here: {missing()[name]}.")
    check_names("table of the paper", [name], tables())
    return tables()[name]


def frame(name: str) -> pd.DataFrame:
    """Table `name` in tidy form: table, row, column, value, error, source, note; absent is NaN."""
    records = [
        (name, row, column, it.value, it.error, it.source, it.note)
        for (row, column), it in table(name).cells.items()
    ]
    names = ["table", "row", "column", "value", "error", "source", "note"]
    return pd.DataFrame(records, columns=names).astype({"value": float, "error": float})


def _table(name: str, block: dict[str, Any]) -> PaperTable:
    cells: dict[tuple[str, str], PaperCell] = {}
    for row, values in block["rows"].items():
        errors = block.get("errors", {}).get(row, [None] * len(values))
        for column, value, error in zip(block["columns"], values, errors, strict=True):
            special = block.get("cells", {}).get(row, {}).get(column, {})
            notes = [special["note"]] if "note" in special else []
            if key := special.get("conflict"):
                notes.append(f"conflict {key}: {_document()['conflicts'][key]}")
            number = None if value is None else float(value)
            source = special.get("source", block["source"])
            cells[row, column] = PaperCell(number, source, "; ".join(notes), error)
    named = {it: block[it] for it in ("title", "section", "unit", *OPTIONAL) if it in block}
    return PaperTable(
        columns=tuple(block["columns"]),
        rows=tuple(block["rows"]),
        cells=MappingProxyType(cells),
        **{"called": name, **named},
    )
