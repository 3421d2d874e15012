"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

import re

import numpy as np
import pytest
import yaml

from fpt.files import FptError
from fpt.paper import reader as paper

TASKS = ["bit-memory", "bit-xor", "listops", "mnist", "cifar10", "cifar10-lra", "homology"]
LU = ["T1", "T2", "T3", *(f"T{i}" for i in range(6, 19)), "T20", "T21"]
OTHERS = ["Text", "Rates", "LRA", "Forks", "Rothermel1", "ChiangLee2020", "ChiangLee2022-1"]
OTHERS += ["ChiangLee2022-2"]


def cell(table, row, column):
    return paper.table(table).cells[row, column]


def row(table, name, columns=TASKS):
    values = [cell(table, name, column).value for column in columns]
    assert None not in values
    return [value for value in values if value is not None]


def test_covers_every_known_table_and_says_why_others_are_missing():
    assert set(paper.tables()) == {*LU, *OTHERS}
    assert set(paper.missing()) == {"T4", "T5", "T19", "T22"}
    assert {*LU, *paper.missing()} == {f"T{i}" for i in range(1, 23)}


def test_every_cell_has_a_source_and_only_known_gaps_are_empty():
    gaps = {}
    for name, table in paper.tables().items():
        assert list(table.cells) == [(r, c) for r in table.rows for c in table.columns]
        assert all(cell.source for cell in table.cells.values())
        if empty := sum(cell.value is None for cell in table.cells.values()):
            gaps[name] = empty
    assert gaps == {"T12": 4, "LRA": 1, "Forks": 8}


def test_accuracies_are_percentages_and_errors_are_small():
    for name, table in paper.tables().items():
        for (_, column), cell in table.cells.items():
            if cell.value is None:
                continue
            if table.unit == "test accuracy, %" or (name == "T7" and column != "layers"):
                assert 1 < cell.value <= 100, (name, column)
            if cell.error is not None:
                assert 0 <= cell.error < 12
                assert table.error_is
    steps = paper.frame("T6").query("row != 'speed-up'")["value"]
    assert steps.between(500, 600_000).all()
    assert paper.frame("ChiangLee2020")["value"].between(0, 1).all()


def test_full_tables_have_all_seven_tasks_in_order():
    for name in ["T1", "T2", "T3", "T6", "T9", "T13", "T15", "T18", "T20", "T21"]:
        assert list(paper.table(name).columns) == TASKS


def test_the_frozen_pretrained_row_is_the_same_everywhere_but_for_conflict_a():
    base = row("T2", "fpt")
    assert row("T9", "fpt") == row("T13", "fpt") == base
    differing = [t for t, x, y in zip(TASKS, row("T1", "fpt"), base, strict=True) if x != y]
    assert differing == ["cifar10"]
    odd = cell("T1", "fpt", "cifar10")
    assert odd.value == cell("T8", "large", "fpt").value
    assert "36-layer" in odd.note
    assert "conflict A" in odd.note
    assert cell("T2", "fpt", "cifar10").note == ""
    for table, name, column in [("T8", "small", "fpt"), ("T16", "fpt", "trained-layernorm")]:
        assert cell(table, name, column).value == base[4]
    assert row("T17", "fpt", ["listops", "cifar10"]) == [base[2], base[4]]
    assert row("T10", "fpt", ["listops", "cifar10-lra"]) == [base[2], base[5]]
    assert row("T7", "fpt", ["test"]) == [base[5]]
    assert row("T14", "fpt", ["cifar10"]) == [base[4]]


def test_the_frozen_random_row_is_the_same_everywhere():
    base = row("T2", "random")
    assert row("T3", "random") == row("T9", "random") == base
    assert cell("T8", "small", "random").value == base[4]
    assert cell("T16", "random", "trained-layernorm").value == base[4]


def test_ablations_end_at_the_full_recipe_but_for_conflict_f():
    every = "output+layernorm+input+positions"
    assert row("T15", every) == [round(value) for value in row("T9", "fpt")]
    rounded = [round(value) for value in row("T9", "random")]
    differing = [t for t, x, y in zip(TASKS, row("T20", every), rounded, strict=True) if x != y]
    assert differing == ["listops"]
    assert "conflict F" in cell("T20", every, "listops").note
    for successive, individual in [("T15", "T18"), ("T20", "T21")]:
        for parts in ["output", "output+layernorm"]:
            assert row(successive, parts) == row(individual, parts)


def test_rows_quoted_from_elsewhere_agree_but_for_conflict_c():
    for table, column in [("T7", "test"), ("T10", "cifar10-lra"), ("T1", "cifar10-lra")]:
        arm = "vanilla-transformer" if table == "T7" else "full"
        printed = cell("LRA", "vanilla-transformer", "cifar10-lra").value
        assert printed is not None
        assert cell(table, arm, column).value == round(printed)
    quoted = cell("T1", "full", "listops")
    assert quoted.value != cell("LRA", "vanilla-transformer", "listops").value
    assert "conflict C" in quoted.note
    assert row("T14", "fpt+feedforward", ["cifar10"]) == row("T13", "fpt+feedforward", ["cifar10"])


def test_every_conflict_is_attached_to_a_cell():
    notes = " ".join(c.note for t in paper.tables().values() for c in t.cells.values())
    assert set(re.findall(r"conflict (\w):", notes)) == set("ABCDEF")


def test_trained_counts_follow_the_papers_own_counting():
    # output without bias, input of 16 values with bias, two norms per layer, 64 positions
    for size in paper.table("T8").rows:
        layers, width, _, _, trained, *_ = row("T8", size, list(paper.table("T8").columns))
        exact = width * 10 + width * (16 + 1) + layers * 4 * width + 64 * width
        assert trained == pytest.approx(exact, rel=0.01)
    assert row("T8", "small", ["trained"]) == [106_000]
    assert row("T8", "medium", ["trained"]) == [190_000]
    assert row("T8", "large", ["trained"]) == [300_000]


def test_speed_ups_are_ratios_of_the_printed_steps():
    ratios = np.array(row("T6", "random")) / row("T6", "fpt")
    assert list(ratios) == row("T6", "speed-up")


def test_printed_averages_are_means_of_their_rows_but_for_one():
    wrong = []  # scores and average are each rounded, by half a unit of the last place
    for name, slack in [("ChiangLee2020", 0.0101), ("ChiangLee2022-1", 0.101)]:
        table = paper.table(name)
        for arm in table.rows:
            *scores, average = row(name, arm, list(table.columns))
            if abs(np.mean(scores) - average) > slack:
                wrong.append((name, arm))
                assert table.cells[arm, "average"].note
    assert wrong == [("ChiangLee2022-1", "scratch")]


def test_frozen_pretrained_beats_frozen_random_in_rothermel_by_the_printed_gaps():
    columns = list(paper.table("Rothermel1").columns)
    gaps = np.subtract(row("Rothermel1", "fpt", columns), row("Rothermel1", "random", columns))
    assert gaps == pytest.approx([7.2, 0.5, 4.5, 10.5])
    assert cell("Rothermel1", "fpt", "cifar10-lra").error == 1.4


def test_frame_is_tidy_and_keeps_gaps_as_nan():
    frame = paper.frame("T12")
    assert list(frame) == ["table", "row", "column", "value", "error", "source", "note"]
    assert len(frame) == 10
    assert frame["value"].isna().sum() == 4
    assert frame["value"].dtype == float


def test_unknown_names_list_the_allowed_ones_and_missing_tables_say_why():
    with pytest.raises(FptError, match="T1"):
        paper.table("T99")
    with pytest.raises(FptError, match="T4 has no numbers here: .* not found"):
        paper.table("T4")


def test_the_file_names_only_what_it_has():
    """Tags of sources, conflicts, and the rows and columns of special cells and errors."""
    document = yaml.safe_load(paper.PATH.read_text(encoding="utf-8"))
    for name, block in document["tables"].items():
        table = paper.table(name)
        special = block.get("cells", {})
        assert {*special, *block.get("errors", {})} <= set(table.rows)
        for cells in special.values():
            assert set(cells) <= set(table.columns)
            for cell in cells.values():
                assert set(cell) <= {"source", "note", "conflict"}
        tags = {tag for it in table.cells.values() for tag in it.source.split(", ")}
        assert tags <= set(paper.sources())


def test_a_yaml_1_2_parser_reads_the_same_document():
    ruamel = pytest.importorskip("ruamel.yaml")
    text = paper.PATH.read_text(encoding="utf-8")
    assert ruamel.YAML(typ="safe", pure=True).load(text) == yaml.safe_load(text)
