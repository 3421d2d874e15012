"""Records of an experiment that come from another checkout."""

import json
import lzma
from dataclasses import replace

import pytest
from test_records import made

from fpt.records import ARCHIVE, INDEX, Store
from lab.land import land


def timed(seed, **changes):
    record = made(seed, **changes)
    return replace(record, cost=record.cost | {"process_seconds": 1200.0})


@pytest.fixture
def stores(project):
    """An experiment that has one record, of three in its index, and a folder with those and
    another one."""
    own, other = Store(project.records("mine")), Store(project.root / "elsewhere")
    records = [other.write(timed(seed)) for seed in range(4)]
    own.write(records[0])
    rows = [{"key": record.key, "role": "reported"} for record in records[:3]]
    (own.folder / INDEX).write_text(json.dumps(rows))
    return own, other, records


def test_what_the_index_does_not_name_is_not_taken_and_bytes_are_kept(stores):
    own, other, records = stores
    written = {record.key: other.path(record.key).read_bytes() for record in records}
    said = land("mine", other.folder)
    assert said.startswith("2 records taken over, 3 in all, 1.0 core-hours")
    assert own.keys() == {record.key for record in records[:3]}
    assert {path.name for path in own.folder.iterdir()} == {ARCHIVE, INDEX}
    lines = lzma.decompress((own.folder / ARCHIVE).read_bytes()).splitlines(keepends=True)
    assert lines == [written[key] for key in sorted(own.keys())]
    assert other.keys() == written.keys()  # nothing is changed there
    assert land("mine", other.folder).startswith("0 records taken over, 3 in all, 1.0 core-hours")


def test_a_damaged_record_is_not_taken(stores):
    own, other, records = stores
    path = other.path(records[1].key)
    path.write_bytes(path.read_bytes().replace(b"0.75", b"0.25"))
    with pytest.warns(UserWarning, match="is damaged"):
        land("mine", other.folder)
    assert own.keys() == {records[0].key, records[2].key}


def test_what_is_recorded_here_stays(stores):
    own, other, records = stores
    other.write(timed(0, accuracy=0.1))
    land("mine", other.folder)
    assert own.read(records[0].key) == records[0]
