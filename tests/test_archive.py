"""Records that were packed into one file: read like a folder of files, and never lost."""

import lzma
import os
from dataclasses import replace
from pathlib import Path

import pytest
from made import tree
from refusals import refuses
from test_records import DAMAGED, KEY, made

from fpt.files import lock
from fpt.records import ARCHIVE, Store, parse, read_archive, to_content, to_file
from fpt.records.archive import LONGEST, write_archive

SEEDS = 6
RECORDS = {record.key: record for record in map(made, range(SEEDS))}


def fill(store):
    for record in RECORDS.values():
        store.write(record)


@pytest.fixture
def packed(store):
    """A store of which all records are in the archive."""
    fill(store)
    assert store.pack() == (SEEDS, SEEDS)
    return store


def archive_of(store):
    return store.folder / ARCHIVE


def lines_of(store):
    return lzma.decompress(archive_of(store).read_bytes()).splitlines(keepends=True)


def rewrite(store, lines):
    """Replaces the lines of an archive by others, with other settings of the compression."""
    archive_of(store).write_bytes(lzma.compress(b"".join(lines)))


def singles(store):
    return {path.stem for path in store.folder.glob("*.json")}


# -------------------------------------------------------------------------------------------- read


def test_an_archive_is_read_like_a_folder(store):
    fill(store)
    kept = store.write(replace(made(SEEDS), notes=[]), b"parameters")
    expected = RECORDS | {kept.key: kept}
    files = [store.path(key).read_bytes() for key in sorted(expected)]
    digests = store.digests(expected)
    assert store.pack() == (SEEDS + 1, SEEDS + 1)
    assert lines_of(store) == files
    names = {path.name for path in store.folder.iterdir()}
    assert names == {ARCHIVE, store.parameters_path(kept.key).name}
    assert store.keys() == set(expected)
    assert store.read_all(expected, keep={kept.key}) == expected
    assert store.digests(expected) == digests
    assert store.parameters(kept) == b"parameters"
    assert store.read("0" * 16) is None
    store.parameters_path(kept.key).unlink()
    assert kept.key not in store.read_all([kept.key], keep={kept.key})  # as with files


def test_records_that_are_added_join_those_in_the_archive(packed, tmp_path):
    """Whatever was packed in which order, the file is the same."""
    other = Store(tmp_path / "other")
    for number, record in enumerate(reversed(RECORDS.values()), start=1):
        other.write(record)
        assert other.read_all(RECORDS) == dict([*reversed(RECORDS.items())][:number])
        if number in (3, SEEDS):
            assert other.pack() == (3, number)
    assert archive_of(other).read_bytes() == archive_of(packed).read_bytes()


def test_an_archive_that_has_everything_is_not_written_again(packed):
    """So another version of the compressing library changes no file."""
    rewrite(packed, lines_of(packed))
    before = tree(packed.folder)
    assert packed.pack() == (0, SEEDS)
    packed.write(made(0))
    assert packed.pack() == (1, SEEDS)
    assert tree(packed.folder) == before


def test_two_results_of_one_run_are_named_and_none_is_lost(packed):
    newer = packed.write(made(0, accuracy=0.25))
    with pytest.warns(UserWarning, match=f"{KEY}.json and {ARCHIVE} .* two results"):
        assert packed.read(KEY) == newer
    before = tree(packed.folder)
    refuses(packed.pack, KEY, ARCHIVE, "pack again")
    assert tree(packed.folder) == before


# ---------------------------------------------------------------------------------------- stopped


class Killed(BaseException):
    """Stands for the end of a process."""


def kill_at(number, monkeypatch, after):
    """End the process at the call of this number that changes the disk; returns the calls."""
    calls = []

    def counted(name, real):
        def call(*arguments, **options):
            if name == "unlink" and ".json" not in str(arguments[0]):
                return real(*arguments, **options)  # of a lock
            calls.append(name)
            is_last = len(calls) == number
            if is_last and not after:
                raise Killed
            result = real(*arguments, **options)
            if is_last:
                raise Killed
            return result

        return call

    monkeypatch.setattr("os.fsync", counted("fsync", os.fsync))
    monkeypatch.setattr("os.replace", counted("replace", os.replace))
    monkeypatch.setattr("pathlib.Path.unlink", counted("unlink", Path.unlink))
    return calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("packed_before", [0, 3])
def test_whenever_packing_is_killed_no_record_is_lost(packed, tmp_path, after, packed_before):
    ended = set()
    for number in range(1, 100):
        store = Store(tmp_path / str(number) / "records")
        for index, record in enumerate(RECORDS.values()):
            store.write(record)
            if index + 1 == packed_before:
                store.pack()
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(number, patch, after)
            try:
                store.pack()
            except Killed:
                ended.add(calls[number - 1])
            else:
                break
        assert store.keys() == set(RECORDS)
        assert store.read_all(RECORDS) == RECORDS
        store.pack()
        assert not singles(store)
        assert archive_of(store).read_bytes() == archive_of(packed).read_bytes()
    # The archive is durable, under its name too, before a file is removed.
    assert calls == ["fsync", "replace", "fsync", *["unlink"] * (SEEDS - packed_before)]
    assert ended == {"fsync", "replace", "unlink"}


def test_a_record_that_is_written_meanwhile_stays(store, monkeypatch):
    fill(store)

    def write(path, records):
        write_archive(path, records)
        store.write(made(SEEDS))
        store.write(made(0, accuracy=0.25))

    monkeypatch.setattr("fpt.records.write_archive", write)
    store.pack()
    assert singles(store) == {KEY, made(SEEDS).key}


def test_one_process_packs_at_a_time(store):
    fill(store)
    with lock(store.folder.parent / ".pack.lock", wait=False):
        refuses(store.pack, "Another process packs")
    assert store.pack() == (SEEDS, SEEDS)


# ----------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("how", ["a digit changed", "nested too deep"])
def test_a_damaged_line_is_named_and_the_others_are_read(packed, how):
    whole = archive_of(packed).read_bytes()
    bad = DAMAGED[how] + b"\n"
    rewrite(packed, [bad if KEY.encode() in line else line for line in lines_of(packed)])
    damaged = archive_of(packed).read_bytes()
    rest = {key: record for key, record in RECORDS.items() if key != KEY}
    with pytest.warns(UserWarning, match=r"is damaged \(in line \d, "):
        assert packed.read_all(RECORDS) == rest
    assert packed.keys() == set(rest)
    assert archive_of(packed).read_bytes() == damaged
    packed.write(made())  # trained again
    refuses(packed.pack, "in line", ARCHIVE, "Restore it")
    archive_of(packed).write_bytes(whole)  # what the sentence says to do
    assert packed.pack() == (1, SEEDS)
    assert packed.read_all(RECORDS) == RECORDS  # without a warning


def test_a_damaged_file_gives_way_to_the_archive(packed):
    packed.path(KEY).write_bytes(DAMAGED["truncated"])
    with pytest.warns(UserWarning, match=rf"moved to .*corrupt and is read from {ARCHIVE}"):
        assert packed.read(KEY) == made()


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    """A small compressed file may hold any number of bytes."""
    path = tmp_path / ARCHIVE
    path.write_bytes(lzma.compress(b" " * (2 * LONGEST + 1)))
    with pytest.warns(UserWarning, match="in line 3"):
        assert not read_archive(path).records


def test_a_second_result_of_one_run_is_named(packed):
    first, *_ = lines_of(packed)
    other = replace(parse(first), metrics=parse(first).metrics | {"test_accuracy": 0.0})
    rewrite(packed, [*lines_of(packed), to_file(to_content(other))])
    with pytest.warns(UserWarning, match=f"a second result of {other.key}"):
        assert packed.read_all(RECORDS) == RECORDS
