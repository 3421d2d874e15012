"""The printed numbers of the paper and its companions, read from `tables.yaml`.

Every cell carries the tag of the source it was taken from, and a note if it is not what its
row and column say. Nothing here is a result of this project.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import pandas as pd

from ..errors import FptError, check_names
from ..files import read_yaml
from ..project import PACKAGE

PATH = PACKAGE / "paper" / "tables.yaml"


@dataclass(frozen=True)
class PaperCell:
    """One printed number, in its table's unit; `value` is None where none was printed or
    found.

    `error` is in the sense of the table's `error_is`; `note` is empty for an ordinary cell.
    """

    value: float | None
    source: str
    note: str = ""
    error: float | None = None


@dataclass(frozen=True)
class PaperTable:
    """A printed table; `cells` maps (row, column) to a `PaperCell`, complete and in print
    order.

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
    blocks = _document()["tables"]
    # Read-only, since all callers get the same tables.
    return MappingProxyType({name: _table(name, block) for name, block in blocks.items()})


def missing() -> Mapping[str, str]:
    """The tables that exist in the paper but not here, with the reason."""
    return dict(_document()["missing"])


def sources() -> Mapping[str, str]:
    """What each source tag stands for, and how far to trust it."""
    return dict(_document()["sources"])


def table(name: str) -> PaperTable:
    """The table with this id; FptError if there is none."""
    if name in missing():
        raise FptError(f"The paper's table {name} has no numbers here: {missing()[name]}.")
    check_names("table of the paper", [name], tables())
    return tables()[name]


def frame(name: str) -> pd.DataFrame:
    """Table `name` in tidy form: table, row, column, value, error, source, note; absent is
    NaN."""
    rows = [
        {"table": name, "row": row, "column": column, **asdict(cell)}
        for (row, column), cell in table(name).cells.items()
    ]
    columns = ["table", "row", "column", "value", "error", "source", "note"]
    return pd.DataFrame(rows, columns=columns).astype({"value": float, "error": float})


def wide(name: str) -> pd.DataFrame:
    """A table of the paper, such as T9: a row for each arm under its name here, a column
    for each of the paper's tasks, NaN for what was not printed. `attrs` has its `title`,
    `unit`, `section` and number (`called`). FptError if there is no such table."""
    printed_table = table(name)
    names = read_yaml(PACKAGE / "paper" / "arms.yaml")
    called = {**names["rows"], **names["tables"].get(name, {})}
    rows = {
        called.get(row, row): {
            column: printed_table.cells[row, column].value
            for column in printed_table.columns
        }
        for row in printed_table.rows
    }
    frame = pd.DataFrame(rows).T.astype(float)
    frame.index.name = "arm"
    frame.attrs = {
        "title": printed_table.title,
        "unit": printed_table.unit,
        "called": printed_table.called,
        "section": printed_table.section,
    }
    return frame


def _table(name: str, block: dict[str, Any]) -> PaperTable:
    cells: dict[tuple[str, str], PaperCell] = {}
    for row, values in block["rows"].items():
        errors = block.get("errors", {}).get(row, [None] * len(values))
        for column, value, error in zip(block["columns"], values, errors, strict=True):
            # A cell may have another source than its table, or need a note.
            special = block.get("cells", {}).get(row, {}).get(column, {})
            notes = [special["note"]] if "note" in special else []
            if "conflict" in special:
                key = special["conflict"]
                notes.append(_document()["conflicts"][key])
            cells[row, column] = PaperCell(
                value=None if value is None else float(value),
                source=special.get("source", block["source"]),
                note="; ".join(notes),
                error=error,
            )
    return PaperTable(
        title=block["title"],
        section=block["section"],
        unit=block["unit"],
        columns=tuple(block["columns"]),
        rows=tuple(block["rows"]),
        cells=MappingProxyType(cells),
        called=block.get("called", name),
        note=block.get("note", ""),
        error_is=block.get("error_is", ""),
    )


@cache
def printed() -> Mapping[str, str]:
    """Every number of the tables by table/row/column, a dash for one that is not there."""
    return {
        f"{name}/{row}/{column}": "–" if cell.value is None else f"{cell.value:g}"
        for name, table in tables().items()
        for (row, column), cell in table.cells.items()
    }
