"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

import re
from dataclasses import FrozenInstanceError

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
CELLS = [(name, cell) for name, table in reader.tables().items() for cell in table.cells.values()]
EVERY = "output+layernorm+input+positions"


def cell(table, row, column):
    return reader.table(table).cells[row, column]


def row(table, name, columns=TASKS):
    return {column: cell(table, name, column).value for column in columns}


FPT = row("T2", "fpt")
RANDOM = row("T2", "random")


def test_covers_every_known_table_and_says_why_others_are_missing():
    assert set(reader.missing()) == MISSING
    assert set(reader.tables()) == {f"T{i}" for i in range(1, 23)} - MISSING | OTHERS
    refuses(lambda: reader.table("T99"), "T1")
    refuses(lambda: reader.table("T4"), "T4 has no numbers here: ", "not found")


def test_every_cell_has_a_source_and_only_known_gaps_are_empty():
    for table in reader.tables().values():
        assert list(table.cells) == [(r, c) for r in table.rows for c in table.columns]
    tags = {tag for _, printed in CELLS for tag in printed.source.split(", ")}
    assert tags <= set(reader.sources())
    gaps = [name for name, printed in CELLS if printed.value is None]
    assert {name: gaps.count(name) for name in gaps} == {"T12": 4, "LRA": 1, "Forks": 8}


@pytest.mark.parametrize(
    ("table", "name", "column", "printed", "tasks"),
    [
        ("T9", "fpt", "", FPT, TASKS),
        ("T13", "fpt", "", FPT, TASKS),
        ("T8", "small", "fpt", FPT, ["cifar10"]),
        ("T16", "fpt", "trained-layernorm", FPT, ["cifar10"]),
        ("T17", "fpt", "", FPT, ["listops", "cifar10"]),
        ("T10", "fpt", "", FPT, ["listops", "cifar10-lra"]),
        ("T7", "fpt", "test", FPT, ["cifar10-lra"]),
        ("T14", "fpt", "", FPT, ["cifar10"]),
        ("T3", "random", "", RANDOM, TASKS),
        ("T9", "random", "", RANDOM, TASKS),
        ("T8", "small", "random", RANDOM, ["cifar10"]),
        ("T16", "random", "trained-layernorm", RANDOM, ["cifar10"]),
    ],
)
def test_frozen_rows_are_the_same_in_every_table(table, name, column, printed, tasks):
    for task in tasks:
        assert cell(table, name, column or task).value == printed[task]


def differing(table, name, expected):
    return [task for task, value in row(table, name).items() if value != expected[task]]


def test_known_conflicts_are_the_only_ones_between_rows():
    assert differing("T1", "fpt", FPT) == ["cifar10"]
    odd = cell("T1", "fpt", "cifar10")
    assert odd.value == cell("T8", "large", "fpt").value
    assert "36-layer" in odd.note
    assert cell("T2", "fpt", "cifar10").note == ""
    assert differing("T15", EVERY, {task: round(value) for task, value in FPT.items()}) == []
    rounded = {task: round(value) for task, value in RANDOM.items()}
    assert differing("T20", EVERY, rounded) == ["listops"]
    for parts in ("output", "output+layernorm"):
        assert row("T15", parts) == row("T18", parts)
        assert row("T20", parts) == row("T21", parts)
    images = round(cell("LRA", "vanilla-transformer", "cifar10-lra").value)
    assert cell("T7", "vanilla-transformer", "test").value == images
    assert cell("T1", "full", "cifar10-lra").value == cell("T10", "full", "cifar10-lra").value
    quoted = cell("T1", "full", "listops")
    assert quoted.value != cell("LRA", "vanilla-transformer", "listops").value
    for letter, printed in {"A": odd, "C": quoted, "F": cell("T20", EVERY, "listops")}.items():
        assert f"conflict {letter}" in printed.note
    notes = " ".join(printed.note for _, printed in CELLS)
    assert set(re.findall(r"conflict (\w):", notes)) == set("ABCDEF")


def test_speed_ups_are_ratios_of_the_printed_steps():
    random, fpt, ratios = (
        np.array([*row("T6", name).values()]) for name in ("random", "fpt", "speed-up")
    )
    assert list(random / fpt) == list(ratios)


def test_frame_is_tidy_and_keeps_gaps_as_nan():
    frame = reader.frame("T12")
    assert list(frame) == ["table", "row", "column", "value", "error", "source", "note"]
    assert (len(frame), frame["value"].isna().sum()) == (10, 4)
    assert frame["value"].dtype == float


def test_what_is_read_cannot_be_changed():
    with pytest.raises(TypeError):
        reader.table("T1").cells["fpt", "mnist"] = None
    with pytest.raises(FrozenInstanceError):
        cell("T1", "fpt", "mnist").value = 100.0
    reader.missing().clear()
    assert set(reader.missing()) == MISSING


def test_the_file_names_only_what_it_has():
    """The rows and columns of special cells and errors."""
    document = yaml.safe_load(reader.PATH.read_text(encoding="utf-8"))
    for name, block in document["tables"].items():
        table = reader.table(name)
        special = block.get("cells", {})
        assert {*special, *block.get("errors", {})} <= set(table.rows)
        for columns in special.values():
            assert set(columns) <= set(table.columns)
            assert set().union(*columns.values()) <= {"source", "note", "conflict"}
