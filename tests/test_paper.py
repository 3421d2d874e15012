"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

import numpy as np
import pytest
from refusals import refuses

from fpt.paper import reader

TASKS = ["bit-memory", "bit-xor", "listops", "mnist", "cifar10", "cifar10-lra", "homology"]
MISSING = {"T4", "T5", "T19", "T22"}
OTHERS = {
    "Text", "Rates", "LRA", "Forks", "Rothermel1", "ChiangLee2020", "ChiangLee2022-1",
    "ChiangLee2022-2",
}  # fmt: skip
CELLS = [(name, cell) for name, table in reader.tables().items() for cell in table.cells.values()]


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
        ("T17", "fpt", "", FPT, ["listops", "cifar10"]),
        ("T3", "random", "", RANDOM, TASKS),
        ("T9", "random", "", RANDOM, TASKS),
    ],
)
def test_frozen_rows_are_the_same_in_every_table(table, name, column, printed, tasks):
    for task in tasks:
        assert cell(table, name, column or task).value == printed[task]


def test_speed_ups_are_ratios_of_the_printed_steps():
    random, fpt, ratios = (
        np.array([*row("T6", name).values()]) for name in ("random", "fpt", "speed-up")
    )
    assert list(random / fpt) == list(ratios)
