"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

import re

import numpy as np
import pytest
import yaml
from refusals import refuses

from fpt.paper import reader

TASKS = ["bit-memory", "bit-xor", "listops", "mnist", "cifar10", "cifar10-lra", "homology"]
MISSING = {"T4", "T5", "T19", "T22"}
OTHERS = {
    "Text", "Rates", "LRA", "Forks", "Rothermel1", "ChiangLee2020", "ChiangLee2022-1",
    "ChiangLee2022-2",
}  # fmt: skip


def cell(table, row, column):
    return reader.table(table).cells[row, column]


def row(table, name, columns=None):
    columns = columns or reader.table(table).columns
    return [cell(table, name, column).value for column in columns]


def cells():
    for name, table in reader.tables().items():
        for (_, column), printed in table.cells.items():
            yield name, column, printed


def test_covers_every_known_table_and_says_why_others_are_missing():
    assert set(reader.missing()) == MISSING
    assert set(reader.tables()) == {f"T{i}" for i in range(1, 23)} - MISSING | OTHERS
    for name in ("T1", "T2", "T3", "T6", "T9", "T13", "T15", "T18", "T20", "T21"):
        assert list(reader.table(name).columns) == TASKS


def test_every_cell_has_a_source_and_only_known_gaps_are_empty():
    for table in reader.tables().values():
        assert list(table.cells) == [(r, c) for r in table.rows for c in table.columns]
    assert all(printed.source for _, _, printed in cells())
    sources = {cell("Forks", "fpt", task).source for task in ("bit-xor", "mnist")}
    assert sources == {"F:alex-kj-chin", "F:panpiort8"}  # of single cells
    gaps = [name for name, _, printed in cells() if printed.value is None]
    assert {name: gaps.count(name) for name in gaps} == {"T12": 4, "LRA": 1, "Forks": 8}


FPT = dict(zip(TASKS, row("T2", "fpt"), strict=True))
RANDOM = dict(zip(TASKS, row("T2", "random"), strict=True))
EVERY = "output+layernorm+input+positions"


@pytest.mark.parametrize(
    ("table", "name", "columns", "printed", "tasks"),
    [
        ("T9", "fpt", TASKS, FPT, TASKS),
        ("T13", "fpt", TASKS, FPT, TASKS),
        ("T8", "small", ["fpt"], FPT, ["cifar10"]),
        ("T16", "fpt", ["trained-layernorm"], FPT, ["cifar10"]),
        ("T17", "fpt", ["listops", "cifar10"], FPT, ["listops", "cifar10"]),
        ("T10", "fpt", ["listops", "cifar10-lra"], FPT, ["listops", "cifar10-lra"]),
        ("T7", "fpt", ["test"], FPT, ["cifar10-lra"]),
        ("T14", "fpt", ["cifar10"], FPT, ["cifar10"]),
        ("T3", "random", TASKS, RANDOM, TASKS),
        ("T9", "random", TASKS, RANDOM, TASKS),
        ("T8", "small", ["random"], RANDOM, ["cifar10"]),
        ("T16", "random", ["trained-layernorm"], RANDOM, ["cifar10"]),
    ],
)
def test_frozen_rows_are_the_same_in_every_table(table, name, columns, printed, tasks):
    assert row(table, name, columns) == [printed[task] for task in tasks]


def differing(table, name, expected):
    values = zip(TASKS, row(table, name), expected, strict=True)
    return [task for task, value, base in values if value != base]


def test_conflicts_a_c_and_f_are_the_only_ones_between_rows():
    assert differing("T1", "fpt", FPT.values()) == ["cifar10"]
    odd = cell("T1", "fpt", "cifar10")
    assert odd.value == cell("T8", "large", "fpt").value
    assert "36-layer" in odd.note
    assert "conflict A" in odd.note
    assert cell("T2", "fpt", "cifar10").note == ""

    assert differing("T15", EVERY, map(round, FPT.values())) == []
    assert differing("T20", EVERY, map(round, RANDOM.values())) == ["listops"]
    assert "conflict F" in cell("T20", EVERY, "listops").note
    for parts in ("output", "output+layernorm"):
        assert row("T15", parts) == row("T18", parts)
        assert row("T20", parts) == row("T21", parts)

    images = round(cell("LRA", "vanilla-transformer", "cifar10-lra").value)
    assert row("T7", "vanilla-transformer", ["test"]) == [images]
    assert row("T10", "full", ["cifar10-lra"]) == row("T1", "full", ["cifar10-lra"]) == [images]
    quoted = cell("T1", "full", "listops")
    assert quoted.value != cell("LRA", "vanilla-transformer", "listops").value
    assert "conflict C" in quoted.note
    assert row("T14", "fpt+feedforward", ["cifar10"]) == row("T13", "fpt+feedforward", ["cifar10"])


def test_every_conflict_is_attached_to_a_cell():
    notes = " ".join(printed.note for _, _, printed in cells())
    assert set(re.findall(r"conflict (\w):", notes)) == set("ABCDEF")


def test_speed_ups_are_ratios_of_the_printed_steps():
    assert list(np.array(row("T6", "random")) / row("T6", "fpt")) == row("T6", "speed-up")


def test_frame_is_tidy_and_keeps_gaps_as_nan():
    frame = reader.frame("T12")
    assert list(frame) == ["table", "row", "column", "value", "error", "source", "note"]
    assert (len(frame), frame["value"].isna().sum()) == (10, 4)
    assert frame["value"].dtype == float


def test_unknown_names_list_the_allowed_ones_and_missing_tables_say_why():
    refuses(lambda: reader.table("T99"), "T1")
    refuses(lambda: reader.table("T4"), "T4 has no numbers here: ", "not found")


def test_what_is_read_cannot_be_changed():
    with pytest.raises(TypeError):
        reader.tables()["T1"] = reader.table("T2")
    with pytest.raises(TypeError):
        reader.table("T1").cells["fpt", "mnist"] = None
    reader.missing().clear()
    assert set(reader.missing()) == MISSING


def test_the_file_names_only_what_it_has():
    """Tags of sources, conflicts, and the rows and columns of special cells and errors."""
    document = yaml.safe_load(reader.PATH.read_text(encoding="utf-8"))
    for name, block in document["tables"].items():
        table = reader.table(name)
        special = block.get("cells", {})
        assert {*special, *block.get("errors", {})} <= set(table.rows)
        for columns in special.values():
            assert set(columns) <= set(table.columns)
            assert set().union(*columns.values()) <= {"source", "note", "conflict"}
    tags = {tag for _, _, printed in cells() for tag in printed.source.split(", ")}
    assert tags <= set(reader.sources())
