"""Records and checkpoints that are not what they claim to be, though their digests fit: set aside
where they are read, refused where they are merged. Plain damage is in test_records.py."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import check_said, refusal
from safetensors.torch import save_file
from test_records import made
from tiny import spec, task_of

from fpt import files as paths
from fpt.records import Store, digest, to_content
from fpt.sections.summaries import summaries
from fpt.spec import from_dict
from fpt.training import checkpoint
from fpt.training.loop import Loop

KEY = made().key


def put(place: str, value: object) -> Callable[[dict[str, Any]], object]:
    """A record with `value` at a place such as `spec lr`, signed anew."""

    def change(content: dict[str, Any]) -> object:
        *above, last = place.split()
        there: Any = content
        for name in above:
            there = there[int(name) if name.isdecimal() else name]
        there[last] = value
        return content

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "status": (put("status", "great"), "its status is 'great'"),
    "metrics": (put("metrics", [0.5]), "its metrics is no dict"),
    "accuracy above 1": (put("metrics test_accuracy", 1.5), "its test_accuracy is 1.5"),
    "accuracy below 0": (put("curve 0 valid_accuracy", -0.1), "its valid_accuracy is -0.1"),
    "accuracy a word": (put("metrics test_accuracy", "0.5"), "its test_accuracy is '0.5'"),
    "accuracy yes": (put("metrics test_accuracy", True), "its test_accuracy is True"),
    "accuracy nothing": (put("metrics test_accuracy", None), "its test_accuracy is None"),
    "curve": (put("curve", {"step": 1}), "its curve is no list"),
    "curve of numbers": (put("curve", [0.1, 0.2]), "its curve holds something other"),
    "cost": (put("cost seconds", "long"), "its seconds is 'long'"),
    "cost negative": (put("cost seconds", -1), "its seconds is -1"),
    "cost past all bounds": (put("cost flops", 10**400), "its flops is 1000"),
    "cost nothing": (put("cost", {}), "its cost has no seconds"),
    "metrics nothing": (put("metrics", {}), "its metrics has no test_accuracy"),
    "a point of nothing": (put("curve", [{}]), "its curve has no step"),
    "environment nothing": (put("environment", {}), "does not name its device and kind"),
    "environment kind": (put("environment kind", ["cpu"]), "does not name its device and kind"),
    "environment": (put("environment", "a CPU"), "its environment is no dict"),
    "pack": (put("pack", [7]), "its pack holds something other than keys"),
    "pack a path": (put("pack", ["../../x"]), "its pack holds something other than keys"),
    "pack of others": (put("pack", ["0" * 16]), "its pack is one without it"),
    "notes": (put("notes", "a note"), "its notes is no list"),
    "parameters": (put("parameters", 7), "its parameters are no digest"),
    "key": (put("key", "../../x"), "its key does not fit its spec"),
    "another seed": (put("spec seed", 5), "its key does not fit its spec"),
    "semantics": (put("spec semantics", 99), "its key does not fit its spec"),
    "lr": (put("spec lr", "fast"), "lr is 'fast'"),
    "seed": (put("spec seed", 1.5), "seed is 1.5"),
    "batch": (put("spec batch", True), "batch is True"),
    "trainable": (put("spec trainable", "output"), "trainable is 'output'"),
    "trainable numbers": (put("spec trainable", [1]), "trainable is [1]"),
    "data": (put("spec data", "bit-xor"), "a field is missing or unknown"),
    "data without options": (put("spec data", {"name": "digits"}), "a field is missing"),
    "spec": (put("spec", None), "a field is missing or unknown"),
    "spec a list": (put("spec", []), "a field is missing or unknown"),
    "nothing": (lambda content: None, "its digest does not fit"),
    "a word": (lambda content: "record", "its digest does not fit"),
}


def forged(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = change(to_content(made()))
    if isinstance(content, dict):
        content["digest"] = digest(content)
    path = folder / f"{KEY}.json"
    path.write_text(json.dumps(content))
    return path


WHOLE = json.dumps(to_content(made()))
TEXTS: dict[str, tuple[bytes, str]] = {
    "a name twice": (WHOLE.replace('"notes"', '"notes": ["x"], "notes"').encode(), "stands twice"),
    "UTF-16": (WHOLE.encode("utf-16"), "damaged"),
    "a byte order mark": (b"\xef\xbb\xbf" + WHOLE.encode(), "damaged"),
    "no UTF-8": (WHOLE.replace("cpu", "c\xf6u").encode("latin-1"), "damaged"),
    "nested inside": (WHOLE.replace('"notes": ', f'"notes": {"[" * 10**4}').encode(), "nested"),
    "NaN": (WHOLE.replace("0.75", "NaN").encode(), "damaged"),
    "infinity": (WHOLE.replace("0.75", "1e999").encode(), "damaged"),
    "nested": (b"[" * 100_000, "nested too deep"),
    "a number of 5000 digits": (b"9" * 5000, "damaged"),
    "a NUL": (b"\0", "damaged"),
    "YAML": (b"status: done\n", "damaged"),
}


def refused_and_set_aside(path: Path, parts: list[str], store: Store) -> None:
    said = refusal(lambda: store.merge(path.parent))
    check_said(said, [f"{path} is not a record", *parts])
    assert store.keys() == set()
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged .*counts as missing") as warned:
        assert Store(path.parent).read(KEY) is None
    check_said(str(warned[0].message), parts)
    assert [each.name for each in path.parent.iterdir()] == [f"{path.name}.corrupt"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.mark.parametrize("what", CHANGES)
def test_a_record_of_another_form(what: str, folder: Path, store: Store) -> None:
    change, expected = CHANGES[what]
    refused_and_set_aside(forged(folder, change), [expected], store)


COUNTED = ["status", "metrics nothing", "cost nothing", "cost past all bounds", "environment kind"]


@pytest.mark.parametrize("what", COUNTED)
def test_a_record_of_another_form_is_not_counted(what: str, folder: Path) -> None:
    change, expected = CHANGES[what]
    forged(folder, change)
    with pytest.warns(UserWarning, match=f"is damaged .*{expected}"):
        assert summaries(Store(folder), [KEY]) == {}


@pytest.mark.parametrize("what", TEXTS)
def test_a_file_that_is_no_record(what: str, folder: Path, store: Store) -> None:
    content, expected = TEXTS[what]
    path = folder / f"{KEY}.json"
    path.write_bytes(content)
    refused_and_set_aside(path, [] if expected == "damaged" else [expected], store)


def test_a_folder_in_place_of_a_record(folder: Path, store: Store) -> None:
    (folder / f"{KEY}.json").mkdir()
    refused_and_set_aside(folder / f"{KEY}.json", ["it is a folder"], store)


def test_a_link_to_itself_or_a_pipe_in_place_of_a_record(folder: Path, store: Store) -> None:
    path = folder / f"{KEY}.json"
    path.symlink_to(path)
    refused_and_set_aside(path, ["a link that leads to itself"], store)
    path.with_name(f"{path.name}.corrupt").rename(path)
    with pytest.warns(UserWarning, match=r"a link that leads to itself"):
        assert summaries(Store(folder), [KEY]) == {}
    path.with_name(f"{path.name}.corrupt").unlink()
    os.mkfifo(path)
    refused_and_set_aside(path, ["it is no file"], store)


def test_a_folder_in_place_of_parameters(folder: Path, store: Store) -> None:
    mine = Store(folder)
    mine.write(made(), b"parameters")
    path = mine.parameters_path(KEY)
    path.unlink()
    path.mkdir()
    said = refusal(lambda: store.merge(folder))
    check_said(said, [f"{path} does not hold the parameters"])
    with pytest.warns(UserWarning, match=rf"{path.name} are damaged \(it is a folder\)"):
        assert not summaries(mine, [KEY])[KEY].kept
    assert mine.read(KEY, keep=True) is None


def test_a_record_under_the_name_of_another(folder: Path, store: Store) -> None:
    Store(folder).write(made(seed=1))
    (path,) = folder.iterdir()
    path.rename(folder / f"{KEY}.json")
    expected = [f"it is the record of {made(seed=1).key}"]
    refused_and_set_aside(folder / f"{KEY}.json", expected, store)


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    for read in (Store.read, lambda store, key: summaries(store, [key])):
        check_said(refusal(lambda r=read: r(Store(tmp_path / "store"), KEY)), ["Cannot read", KEY])


def test_a_number_that_json_wrote_without_a_point() -> None:
    assert from_dict(spec().to_dict() | {"lr": 1}).lr == 1


# ------------------------------------------------------------------------------------- checkpoints

PLACE = "c.safetensors"


def weights_in_place(path: Path) -> None:
    save_file({"weight": torch.ones(3, dtype=torch.bfloat16)}, path)


def no_digest(path: Path) -> None:
    save_file({"values": torch.ones(3)}, path, {"history": '{"keys": []}'})


def no_history(path: Path) -> None:
    save_file({"values": torch.ones(3)}, path, {"digest": checkpoint._digest({}, "")})


def history_a_list(path: Path) -> None:
    checkpoint.write(path, {"values": torch.ones(3)}, ["keys"])  # type: ignore[arg-type]


def history_a_number(path: Path) -> None:
    checkpoint.write(path, {}, 3)  # type: ignore[arg-type]


def history_nested(path: Path) -> None:
    save_file({}, path, {"history": "[" * 100_000})


def history_nested_and_signed(path: Path) -> None:
    text = "[" * 100_000
    save_file({}, path, {"history": text, "digest": checkpoint._digest({}, text)})


WRONG = (
    weights_in_place, no_digest, no_history, history_a_list, history_a_number, history_nested,
    history_nested_and_signed, Path.mkdir, os.mkfifo,
)  # fmt: skip


@pytest.mark.parametrize("write", WRONG, ids=[write.__name__ for write in WRONG])
def test_something_else_in_place_of_a_checkpoint(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / PLACE
    write(path)
    assert checkpoint.members(path) == []
    with pytest.warns(UserWarning, match=rf"{PLACE} is damaged .*starts again"):
        assert checkpoint.read(path) is None
    assert [each.name for each in tmp_path.iterdir()] == [f"{PLACE}.corrupt"]


def stored(place: str, value: object = None) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """A checkpoint's tensors and history with `value` at a place such as `history step`, or without
    it."""

    def change(tensors: dict[str, Any], history: dict[str, Any]) -> None:
        *above, last = place.split()
        there: Any = {"tensors": tensors, "history": history}
        for name in above:
            there = there[int(name) if name.isdecimal() else name]
        if value is None:
            del there[last]
        else:
            there[last] = value

    return change


UNFIT: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], None], str]] = {
    "no alive": (stored("history alive"), "'alive'"),
    "all alive": (stored("history alive", [0, 1]), "runs [0, 1] are alive"),
    "a word alive": (stored("history alive", "all"), "runs 'all' are alive"),
    "no best": (stored("tensors best"), "it has no 'best'"),
    "another shape": (stored("tensors first", torch.ones(2, 3)), "its 'first' is torch.float32"),
    "another type": (stored("tensors sums", torch.ones(3, 1).long()), "its 'sums' is torch.int64"),
    "a row of another": (stored("tensors chosen.0", torch.ones(2)), "its 'chosen.0'"),
    "a word for a step": (stored("history step", "x"), "its step is 'x' of 12"),
    "past the end": (stored("history step", 12), "its step is 12 of 12"),
    "summed": (stored("history summed", -1), "it sums -1 steps"),
    "progress": (stored("history progress", "x"), "argument after **"),
    "no progress": (stored("history progress", []), "alive"),
    "an unknown field": (stored("history progress 0 rank", 1), "'rank'"),
    "status": (stored("history progress 0 status", "lost"), "'lost'"),
    "seconds": (stored("history progress 0 seconds", "long"), "its time is 'long'"),
    "metrics": (stored("history progress 0 metrics", [1]), "items"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_checkpoint_that_does_not_fit_its_pack(what: str, tiny: Path) -> None:
    change, expected = UNFIT[what]
    path = tiny / PLACE

    def loop() -> Loop:
        return Loop([spec()], task_of(spec()), torch.device("cpu"), path)

    loop().run(deadline=0.0)
    found = checkpoint.read(path)
    assert found is not None
    change(*found)
    checkpoint.write(path, *found)
    again = loop()
    with pytest.warns(UserWarning, match=rf"{PLACE} is damaged .*starts again") as warned:
        again.resume()
    check_said(str(warned[0].message), [expected])
    assert (again.step, path.exists()) == (0, False)
    assert again.run()
