"""Records that were packed into one file: read like a folder of files, and never lost."""

import lzma
import os
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import check_said, refusal
from test_records import DAMAGED, damages, made, other, store, tree, write_metadata

from fpt.files import lock, write_atomic
from fpt.records import ARCHIVE, METADATA, Store, read_archive, to_content, to_file
from fpt.records.archive import LONGEST, write_archive

__all__ = ["other", "store"]  # fixtures
SEEDS = 6


def records(count=SEEDS):
    """Records by key, in the order of the keys."""
    return {record.key: record for record in sorted(map(made, range(count)), key=lambda r: r.key)}


def fill(store):
    for record in records().values():
        store.write(record)
    return records()


def lines_of(store):
    return lzma.decompress((store.folder / ARCHIVE).read_bytes()).splitlines(keepends=True)


def rewrite(store, lines):
    """Replaces the lines of an archive by others."""
    (store.folder / ARCHIVE).write_bytes(lzma.compress(b"".join(lines)))


def singles(store):
    return sorted(path.stem for path in store.folder.glob("*.json"))


# -------------------------------------------------------------------------------------------- read


def test_an_archive_is_read_like_a_folder(store):
    expected = fill(store)
    kept = store.write(replace(made(SEEDS), notes=[]), b"parameters")
    write_metadata(store.folder / METADATA / "nano.json", valid_loss=1.0)
    expected[kept.key] = kept
    digests = store.digests(sorted(expected))
    assert store.pack() == (SEEDS + 1, SEEDS + 1)
    names = {path.name for path in store.folder.iterdir()}
    assert names == {ARCHIVE, METADATA, store.parameters_path(kept.key).name}
    assert store.keys() == set(expected)
    assert store.read_all(sorted(expected), keep={kept.key}) == expected
    assert store.digests(sorted(expected)) == digests
    assert store.parameters(kept) == b"parameters"
    assert store.read("0" * 16) is None
    store.parameters_path(kept.key).unlink()
    assert kept.key not in store.read_all([kept.key], keep={kept.key})  # as with files


def test_a_line_is_what_the_file_was(store):
    fill(store)
    files = [path.read_bytes() for path in sorted(store.folder.glob("*.json"))]
    store.pack()
    assert lines_of(store) == files


def test_records_that_are_added_join_those_in_the_archive(store, other):
    """Whatever was packed in which order, the file is the same."""
    fill(store)
    store.pack()
    for record in reversed(records(3).values()):
        other.write(record)
    assert other.pack() == (3, 3)
    for record in reversed(records().values()):
        if other.read(record.key) is None:
            other.write(record)
    assert len(singles(other)) == SEEDS - 3
    assert other.read_all(records()) == records()
    assert other.pack() == (SEEDS - 3, SEEDS)
    assert (other.folder / ARCHIVE).read_bytes() == (store.folder / ARCHIVE).read_bytes()


def test_an_archive_that_has_everything_is_not_written_again(store):
    """So another version of the compressing library changes no file."""
    fill(store)
    store.pack()
    rewrite(store, lines_of(store))  # by other settings
    before = tree(store.folder)
    assert store.pack() == (0, SEEDS)
    assert tree(store.folder) == before
    store.write(made(0))
    assert store.pack() == (1, SEEDS)
    assert tree(store.folder) == before


def test_packing_nothing_writes_nothing(store):
    assert store.pack() == (0, 0)
    assert not store.folder.parent.exists()


def test_each_line_is_parsed_once_and_only_if_it_is_asked_for(store, monkeypatch):
    tail = b'{"key":"%s","digest":"' + b"0" * 64 + b'"}\n'
    keys = [f"{number:016x}" for number in range(10_000)]
    lines = {key: tail % key.encode() for key in keys}
    write_archive(store.folder / ARCHIVE, lines)
    parsed = []
    monkeypatch.setattr("fpt.records.archive.parse", lambda _, key: parsed.append(key) or key)
    opened = []
    real = lzma.open
    monkeypatch.setattr("lzma.open", lambda path: opened.append(path) or real(path))
    assert store.keys() == set(keys)
    assert parsed == []
    for _ in range(2):
        assert len(store.read_all(keys)) == len(keys)
    assert len(parsed) == len(keys)
    assert len(opened) == 1


def test_a_file_wins_over_the_same_record_in_the_archive(store):
    fill(store)
    store.pack()
    store.write(made(0))
    assert store.keys() == set(records())
    assert store.read_all(sorted(store.keys())) == records()


def test_two_results_of_one_run_are_named_and_none_is_lost(store, tmp_path):
    fill(store)
    store.pack()
    newer = store.write(made(0, accuracy=0.25))
    with pytest.warns(UserWarning, match=f"{newer.key}.json and {ARCHIVE} .* two results"):
        assert store.read(newer.key) == newer
    before = tree(store.folder)
    check_said(refusal(store.pack), [newer.key, "(1 in all)", ARCHIVE, "fpt merge"])
    assert tree(store.folder) == before
    # What the sentence says to do.
    apart = tmp_path / "apart"
    apart.mkdir()
    (store.folder / ARCHIVE).rename(apart / ARCHIVE)
    assert store.merge(apart) == (SEEDS - 1, 1)
    assert store.pack() == (SEEDS, SEEDS)
    assert store.read(newer.key) == newer


def test_a_record_with_parameters_takes_the_place_of_one_without(store, other):
    store.write(made(0))
    store.pack()
    kept = other.write(made(0), b"parameters")
    assert store.merge(other.folder) == (1, 0)
    assert store.read(kept.key) == kept  # without a warning
    assert store.pack() == (1, 1)
    assert store.read(kept.key) == kept
    assert store.parameters(kept) == b"parameters"


# ---------------------------------------------------------------------------------------- stopped


class Killed(BaseException):
    """Stands for the end of a process."""


def kill_at(number, monkeypatch, after):
    """End the process at the call of this number that changes the disk; returns the calls."""
    calls = []

    def counted(name, real):
        def call(*arguments, **more):
            if name == "unlink" and ".json" not in str(arguments[0]):
                return real(*arguments, **more)  # of a lock
            calls.append(name)
            if len(calls) == number and not after:
                raise Killed
            result = real(*arguments, **more)
            if len(calls) == number:
                raise Killed
            return result

        return call

    monkeypatch.setattr("os.fsync", counted("fsync", os.fsync))
    monkeypatch.setattr("os.replace", counted("replace", os.replace))
    monkeypatch.setattr("pathlib.Path.unlink", counted("unlink", Path.unlink))
    return calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("packed_before", [0, 3])
def test_whenever_packing_is_killed_no_record_is_lost(tmp_path, after, packed_before):
    whole = Store(tmp_path / "whole")
    fill(whole)
    whole.pack()
    ended = set()
    for number in range(1, 100):
        store = Store(tmp_path / str(number) / "records")
        for index, record in enumerate(records().values()):
            store.write(record)
            if index + 1 == packed_before:
                store.pack()
        with pytest.MonkeyPatch.context() as patch:
            calls = kill_at(number, patch, after)
            try:
                store.pack()
            except Killed:
                ended.add(calls[-1])
            else:
                break
        assert store.keys() == set(records())
        assert store.read_all(sorted(records())) == records()
        store.pack()
        assert singles(store) == []
        assert (store.folder / ARCHIVE).read_bytes() == (whole.folder / ARCHIVE).read_bytes()
    assert number == len(calls) + 1
    assert ended == {"fsync", "replace", "unlink"}


def test_the_archive_is_durable_before_a_file_is_removed(store, monkeypatch):
    fill(store)
    calls = kill_at(0, monkeypatch, after=False)
    store.pack()
    assert calls == ["fsync", "replace", "fsync", *["unlink"] * SEEDS]


def test_a_record_that_is_written_meanwhile_stays(store, monkeypatch):
    fill(store)
    late, changed = made(SEEDS), made(0, accuracy=0.25)

    def write(path, lines):
        write_archive(path, lines)
        store.write(late)
        store.write(changed)

    monkeypatch.setattr("fpt.records.write_archive", write)
    store.pack()
    assert singles(store) == sorted([late.key, changed.key])


def test_one_process_packs_at_a_time(store):
    fill(store)
    with lock(store.folder.parent / ".pack.lock", wait=False):
        check_said(refusal(store.pack), ["Another process packs"])
    assert store.pack() == (SEEDS, SEEDS)


def test_a_disk_that_is_full_is_one_sentence(store, monkeypatch):
    fill(store)
    before = tree(store.folder)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    check_said(refusal(store.pack), ["Cannot write", ARCHIVE, "No space left"])
    assert tree(store.folder) == before


# ----------------------------------------------------------------------------------------- damage


@damages
def test_a_damaged_line_is_named_and_the_others_are_read(store, how):
    fill(store)
    store.pack()
    lines = [DAMAGED[how] + b"\n" if made().key.encode() in it else it for it in lines_of(store)]
    rewrite(store, lines)
    damaged = (store.folder / ARCHIVE).read_bytes()
    rest = {key: record for key, record in records().items() if key != made().key}
    with pytest.warns(UserWarning, match="is damaged"):
        assert store.read_all(records()) == rest
    assert store.keys() == set(rest)
    assert (store.folder / ARCHIVE).read_bytes() == damaged
    store.write(made())  # trained again
    with pytest.warns(UserWarning, match=rf"was damaged .*copied to {ARCHIVE}\.corrupt"):
        assert store.pack() == (1, SEEDS)
    assert (store.folder / f"{ARCHIVE}.corrupt").read_bytes() == damaged
    assert store.read_all(records()) == records()  # without a warning


@pytest.mark.parametrize("damage", ["empty", "no xz", "truncated", "bits flipped", "a folder"])
def test_a_damaged_file_is_read_as_far_as_it_can_be(store, damage):
    fill(store)
    store.pack()
    path = store.folder / ARCHIVE
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        middle = len(content) // 2
        flipped = bytes(byte ^ 255 for byte in content[middle : middle + 8])
        path.write_bytes({
            "empty": b"", "no xz": b"records", "truncated": content[:-40],
            "bits flipped": content[:middle] + flipped + content[middle + 8 :],
        }[damage])  # fmt: skip
    with pytest.warns(UserWarning, match=f"{ARCHIVE} is damaged"):
        readable = store.read_all(records())
    assert readable.items() <= records().items()
    assert len(readable) < SEEDS or damage == "truncated"  # of its end
    assert readable.keys() == store.keys()


def test_of_a_truncated_archive_all_lines_before_the_end_are_read(store):
    lines = {key: to_file(to_content(record)) for key, record in records(200).items()}
    write_archive(store.folder / ARCHIVE, lines)
    content = (store.folder / ARCHIVE).read_bytes()
    write_atomic(store.folder / ARCHIVE, content[: len(content) // 2])
    with pytest.warns(UserWarning, match=f"{ARCHIVE} is damaged"):
        count = len(store.keys())
    assert 50 < count < 200
    with pytest.warns(UserWarning, match="was damaged"):
        assert store.pack() == (0, count)
    assert (store.folder / f"{ARCHIVE}.corrupt").read_bytes() == content[: len(content) // 2]


def test_a_damaged_file_gives_way_to_the_archive(store):
    fill(store)
    store.pack()
    store.path(made().key).write_bytes(DAMAGED["truncated"])
    with pytest.warns(UserWarning, match=rf"moved to .*corrupt and is read from {ARCHIVE}"):
        assert store.read(made().key) == made()


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    """A small compressed file may hold any number of bytes."""
    path = tmp_path / ARCHIVE
    path.write_bytes(lzma.compress(b" " * (2 * LONGEST + 1)))
    with pytest.warns(UserWarning, match="3 of its lines"):
        assert not read_archive(path).lines


# ------------------------------------------------------------------------------------------ merge


def test_archives_are_merged_like_files(store, other):
    mine = store.write(made(0, accuracy=0.25))
    store.pack()
    fill(other)
    kept = other.write(made(SEEDS), b"parameters")
    other.pack()
    other.write(made(SEEDS + 1))
    before = tree(other.folder)
    assert store.merge(other.folder) == (SEEDS + 1, 1)
    assert tree(other.folder) == before
    assert store.keys() == other.keys()
    assert store.read(mine.key) == mine
    assert store.parameters(kept) == b"parameters"
    assert store.merge(other.folder) == (0, SEEDS + 2)
    store.pack()
    assert store.merge(other.folder) == (0, SEEDS + 2)
    assert singles(store) == []


def test_what_is_damaged_in_an_archive_is_not_merged(store, other):
    fill(other)
    other.pack()
    rewrite(other, [line.replace(b"a note", b"no note") for line in lines_of(other)[:2]])
    wanted = ["no records", ARCHIVE, "digest"]
    check_said(refusal(lambda: store.merge(other.folder)), wanted)
    other.write(made(0))
    before = tree(other.folder)
    with pytest.warns(UserWarning, match=f"{ARCHIVE} is damaged"):
        assert store.merge(other.folder) == (1, 0)
    assert tree(other.folder) == before
    assert store.keys() == {made(0).key}


def test_a_merge_names_two_results_of_one_run(store, other):
    fill(other)
    other.pack()
    newer = other.write(made(0, accuracy=0.25))
    with pytest.warns(UserWarning, match="two results"):
        assert store.merge(other.folder) == (SEEDS, 0)
    assert store.read(newer.key) == newer


def test_what_is_no_archive_by_its_name_is_not_read(store, other):
    fill(other)
    other.pack()
    (other.folder / ARCHIVE).rename(other.folder / "exploratory.jsonl.xz")
    assert other.keys() == set()
    check_said(refusal(lambda: store.merge(other.folder)), ["There are no records in"])


def test_a_pipe_in_the_place_of_an_archive_is_named(store, other):
    other.write(made(0))
    os.mkfifo(other.folder / ARCHIVE)
    with pytest.warns(UserWarning, match=f"{ARCHIVE} is damaged"):
        assert store.merge(other.folder) == (1, 0)
