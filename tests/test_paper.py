"""The printed numbers: complete, unambiguous as YAML, and consistent where they should be."""

from refusals import refuses

from fpt.paper import reader

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
