"""Records in files: complete, or moved aside with a warning."""

import errno
import json
import multiprocessing
from copy import deepcopy
from dataclasses import replace

import pytest
from refusals import refuses
from tiny import spec

from fpt.files import lock
from fpt.records import Record, digest, parse, to_content, to_file


def made(seed=0, accuracy=0.75):
    run = spec(seed=seed)
    return Record(
        spec=run,
        status="done",
        metrics={"test_accuracy": accuracy, "valid_accuracy": 0.5, "best_step": 3, "steps": 12},
        curve=[{"step": 3, "valid_accuracy": 0.1 + 0.2}],
        cost={"seconds": 1.0, "tokens": 10, "flops": 1e6, "peak_bytes": 1e8},
        environment={"device": "CPU", "kind": "cpu"},
        pack=[run.key],
        notes=["a note"],
    )


KEY = made().key


def test_a_record_is_read_as_it_was_written(store):
    points = [
        {"step": 3, "valid_accuracy": 0.5, "valid_loss": 0.5},
        {"step": 6, "valid_accuracy": 1},  # lacks a value of the other
    ]
    record = replace(made(), curve=points)
    assert store.read(KEY) is None
    store.write(record)
    assert store.read(KEY) == record
    assert json.loads(store.path(KEY).read_text())["curve"]["valid_loss"] == [0.5, None]
    assert store.keys() == {KEY}
    missing = made(1).key
    assert store.read_all([KEY, missing]) == {KEY: record}
    assert store.digests([KEY, missing]) == {KEY: digest(to_content(record)), missing: None}
    store.write(made(accuracy=0.25))  # a file that changed is read anew
    assert store.read(KEY) == made(accuracy=0.25)


# Records are cached: a reader must not change what the next one sees.
@pytest.mark.parametrize("packed", [False, True])
def test_who_changes_what_was_read_changes_nothing_for_others(store, packed):
    store.write(made())
    if packed:
        store.pack()
    record = store.read(KEY)
    record.curve[0]["valid_accuracy"] = 9.9
    for values in (record.metrics, record.cost, record.environment, record.pack, record.notes):
        values.clear()
    assert store.read(KEY) == made()


def test_a_value_that_is_not_finite_is_never_written(store):
    with pytest.raises(ValueError, match="JSON"):
        store.write(made(accuracy=float("nan")))
    assert store.keys() == set()


SOUND = to_file(to_content(made()))
POINT = {"step": 3, "valid_accuracy": 0.5}
DAMAGED = {
    "truncated": SOUND[:200],
    "a note changed": SOUND.replace(b"a note", b"no note"),
    "a digit changed": SOUND.replace(b"0.75", b"0.25"),
    "nested too deep": b"[" * 100_000,
    "not a number": SOUND.replace(b"0.75", b"NaN"),
    "another's": to_file(to_content(made(seed=1))),
    "without a curve": SOUND.replace(b"curve", b"bend"),
}
# Values that no run can give, by the field that has them.
IMPOSSIBLE = {
    "key": [made(seed=1).key],
    "spec.momentum": [0.9],
    "status": ["finished"],
    "metrics": [{}, [0.5]],
    "metrics.test_accuracy": ["0.75", True, 7.5],
    "metrics.test_loss": [-0.1],
    "metrics.steps": [12.5],
    "metrics.best_step": [13],
    "cost": [{}],
    "cost.flops": [10**400],
    "cost.seconds": [-1.0],
    "environment": [{"kind": "cpu"}],
    "environment.device": [["a", "b"], "\ud800"],
    "curve": [[{"step": 3}], [POINT | {"valid_accuracy": 1.5}], [POINT | {"step": 6}, POINT]],
    "notes": ["a note", [1]],
    "pack": [["../../etc"]],
    "parameters": ["x"],
}


def signed(field, value):
    """The file of a record with another value, under a digest that fits."""
    content = deepcopy(to_content(made()))
    block, _, name = field.rpartition(".")
    (content[block] if block else content)[name] = value
    return to_file(content | {"digest": digest(content)})


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_file_is_no_record(how):
    assert parse(SOUND, KEY) == made()
    with pytest.raises(ValueError, match=r"\w"):
        parse(DAMAGED[how], KEY)


# A digest shows that a file is whole, not that its values can be: empty metrics once ended in a
# traceback far away.
@pytest.mark.parametrize("field", IMPOSSIBLE)
def test_nothing_that_no_run_can_give_is_a_record(field):
    for value in IMPOSSIBLE[field]:
        with pytest.raises(ValueError, match=r"\w"):
            parse(signed(field, value), KEY)


def test_a_damaged_record_is_moved_aside_and_missing(store):
    path = store.path(KEY)
    store.write(made())
    path.write_bytes(DAMAGED["truncated"])
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*moved to {path.name}.corrupt"):
        assert store.read(KEY) is None
    assert path.with_name(f"{path.name}.corrupt").read_bytes() == DAMAGED["truncated"]
    assert store.keys() == set()
    assert store.read(KEY) is None  # without another warning
    store.write(made())
    assert store.read(KEY) == made()


# One damaged record on a read-only disk once stopped `fpt status` altogether.
def test_a_damaged_record_on_a_disk_that_cannot_be_written_is_missing(store, monkeypatch):
    for seed in range(2):
        store.write(made(seed))
    path = store.path(KEY)
    path.write_bytes(DAMAGED["truncated"])

    def refuse(*names):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("fpt.files.os.replace", refuse)
    with pytest.warns(UserWarning, match=f"{path.name} is damaged .*cannot be moved"):
        assert store.read_all(sorted(store.keys())) == {made(1).key: made(1)}
    assert path.read_bytes() == DAMAGED["truncated"]


# A record that is written first would be taken for whole after a kill, and its parameters never be
# made.
def test_a_record_is_never_there_without_its_parameters(store):
    """Whatever ends a process between two files: the parameters are written first."""
    store.parameters_path(KEY).mkdir(parents=True)  # so that writing them fails
    refuses(lambda: store.write(made(), b"parameters"), "Cannot write")
    assert store.keys() == set()


# A cache that is smaller than the store would parse it anew for every table.
def test_however_many_records_there_are_each_is_parsed_once(store, monkeypatch):
    store.folder.mkdir(parents=True)
    keys = [f"{number:016x}" for number in range(10_000)]
    for key in keys:
        store.path(key).touch()
    parsed = []
    monkeypatch.setattr("fpt.records.parse", lambda _, key: parsed.append(key) or made())
    for _ in range(2):
        assert len(store.read_all(keys)) == len(keys)
    assert len(parsed) == len(keys)


# ------------------------------------------------------------------------------------------ files


def hold(path, ready):
    with lock(path, wait=True):
        ready.send(True)
        ready.recv()  # until it is killed


def test_a_lock_is_held_by_one_and_freed_by_its_death(tmp_path):
    path = tmp_path / "locks" / "one"
    for _ in range(2):
        with lock(path, wait=False) as is_first, lock(path, wait=False) as is_second:
            assert (is_first, is_second) == (True, False)
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    holder = context.Process(target=hold, args=(path, child))
    holder.start()
    assert parent.recv()
    with lock(path, wait=False) as is_mine:
        assert not is_mine
    holder.kill()
    with lock(path, wait=True) as is_mine:
        assert is_mine
    holder.join()


def test_a_folder_in_the_place_of_a_record_is_moved_aside(store):
    store.path(KEY).mkdir(parents=True)
    with pytest.warns(UserWarning, match="moved to"):
        assert store.read(KEY) is None


def test_an_edited_specification_is_said(store):
    content = to_content(made())
    content["spec"] = content["spec"] | {"seed": 7}
    content["digest"] = digest(content)
    with pytest.raises(ValueError, match=f"its specification has the key '{made(7).key}'"):
        parse(to_file(content), KEY)
