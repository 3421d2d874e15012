"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

from refusals import refuses

from fpt.paper import reader
from fpt.report.table import NONE, paper_table

MISSING = {"T4", "T5", "T19", "T22"}
OTHERS = {
    "Text", "Rates", "LRA", "Forks", "Rothermel1", "ChiangLee2020", "ChiangLee2022-1",
    "ChiangLee2022-2",
}  # fmt: skip


def test_covers_every_known_table_and_says_why_others_are_missing():
    assert set(reader.missing()) == MISSING
    assert set(reader.tables()) == {f"T{i}" for i in range(1, 23)} - MISSING | OTHERS
    refuses(lambda: reader.table("T99"), "T1")
    refuses(lambda: reader.table("T4"), "T4 has no numbers here: ", "not found")


def test_what_is_not_known_of_a_printed_table_is_a_dash():
    texts = paper_table("T12").texts
    absent = {place for place, cell in reader.table("T12").cells.items() if cell.value is None}
    assert absent
    assert {place for place, text in texts.stack().items() if text == NONE} == absent
