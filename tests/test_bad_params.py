"""Bad params.yaml: one sentence that says where and what, whatever the file holds.

Those that a reader of the file can make by a slip of the pen are in test_config.py.
"""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from refusals import check_said, refusal

from fpt.config import expand, load
from fpt.files import PARAMS
from fpt.params import current_profile
from fpt.sections.remembered import stamp_of

BLOCK: dict[str, Any] = {
    "train_on": ["cpu"],
    "bodies": {"transformer": "nano"},
    "weights": {"language": "nano-english-0"},
    "seeds": [0, 1],
    "defaults": yaml.safe_load(PARAMS.read_text())["smoke"]["defaults"],
    "tasks": {"bit-xor": {"options": {"n": 2}}, "digits": {}, "listops": {}},
    "arms": {"full": {"lr": 0.001}},
    "sections": {"transfer": [{"tasks": ["bit-xor", "digits"], "arms": ["fpt", "random"]}]},
}
MISSING = object()


def written(folder: Path, place: str = "", value: object = None) -> Path:
    """A file with one value changed (MISSING: left out), at a place such as `tasks digits name`."""
    block = deepcopy(BLOCK)
    *above, last = [int(word) if word.isdecimal() else word for word in place.split(" ")]
    there: Any = block
    for name in above:
        there = there[name]
    if value is MISSING:
        del there[last]
    elif place:
        there[last] = value
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump({"profile": "smoke", "smoke": block}))
    return path


def read(path: Path) -> Callable[[], object]:
    return lambda: load(current_profile(path), path)


def test_the_file_is_right_before_it_is_changed(tmp_path: Path) -> None:
    assert len(expand(load("smoke", written(tmp_path)), "transfer")) == 8


PART = "sections transfer 0"
IN_PART = "smoke.sections.transfer"
DEFAULTS = "smoke.defaults"
VALUES: list[tuple[str, object, list[str]]] = [
    # numbers
    ("defaults lr", 10**400, [f"{DEFAULTS}.lr: must be above zero and below 2^63", "10000"]),
    ("defaults lr", None, [f"{DEFAULTS}.lr: expected float, found None"]),
    ("defaults lr", [0.1], [f"{DEFAULTS}.lr: expected float, found [0.1]"]),
    ("defaults batch", True, [f"{DEFAULTS}.batch: expected int, found True"]),
    ("defaults batch", 0, [f"{DEFAULTS}.batch: must be above zero", "found 0"]),
    ("defaults batch", -8, [f"{DEFAULTS}.batch: must be above zero", "found -8"]),
    ("defaults batch", 8.0, [f"{DEFAULTS}.batch: expected int, found 8.0"]),
    ("defaults steps", 2**62, [f"{DEFAULTS}.steps: must be above zero and at most 1000000000"]),
    ("defaults batch", 2**62, [f"{DEFAULTS}.batch: must be above zero and at most 1000000,"]),
    ("defaults batch", "16", [f"{DEFAULTS}.batch: expected int, found '16' (remove the quotes)."]),
    ("defaults lr", "0.1", [f"{DEFAULTS}.lr: expected float, found '0.1' (remove the quotes)."]),
    ("defaults eval_every", 2**62, [f"{DEFAULTS}.eval_every: must be above zero and at most"]),
    ("defaults eval_every", 0, [f"{DEFAULTS}.eval_every: must be above zero", "found 0"]),
    ("defaults patience", -1, [f"{DEFAULTS}.patience: must be zero or more", "found -1"]),
    ("defaults clip", float("nan"), [f"{DEFAULTS}.clip: must be above zero", "found nan"]),
    ("defaults clip", 0, [f"{DEFAULTS}.clip: must be above zero", "found 0"]),
    ("defaults dropout", -0.1, [f"{DEFAULTS}.dropout: must be zero or more", "found -0.1"]),
    ("defaults dropout", 1 - 2**-53, [f"{DEFAULTS}.dropout: must be zero or more and at most 0.9"]),
    ("defaults augment", "true", [f"{DEFAULTS}.augment: expected bool, found 'true'"]),
    ("defaults", [], [f"{DEFAULTS}: expected settings by name, found []"]),
    # seeds
    ("seeds", [0, -1], ["smoke.seeds: expected different whole numbers from 0", "[0, -1]"]),
    ("seeds", [3, 3], ["smoke.seeds: expected different whole numbers", "[3, 3]"]),
    ("seeds", [2**63], ["smoke.seeds", "below 2^63"]),
    ("seeds", [True], ["smoke.seeds: expected a list of whole numbers", "[True]"]),
    ("seeds", {0: 1}, ["smoke.seeds: 0 is not known", "allowed are registered"]),
    ("seeds", {}, ["smoke.seeds.registered: expected a number from 1 to 1000", "found None"]),
    ("seeds", {"registered": 0}, ["smoke.seeds.registered: expected a number from 1", "found 0"]),
    ("seeds", {"registered": 1001}, ["smoke.seeds.registered: ", "to 1000", "found 1001"]),
    ("seeds", {"registered": True}, ["smoke.seeds.registered: expected a number", "found True"]),
    ("seeds", {"registered": [3]}, ["smoke.seeds.registered: expected a number", "found [3]"]),
    (f"{PART} seeds", [1, 1], [f"{IN_PART}.seeds: expected different whole numbers", "[1, 1]"]),
    (f"{PART} seeds", {"registered": -1}, [f"{IN_PART}.seeds.registered: expected", "found -1"]),
    # names that are paths, no names, or no text
    ("tasks ../../x", {"name": "digits"}, ["smoke.tasks: '../../x' is no name", "letters"]),
    ("tasks a\nb", {"name": "digits"}, ["smoke.tasks: 'a\\nb' is no name"]),
    ("tasks .hidden", {"name": "digits"}, ["smoke.tasks: '.hidden' is no name"]),
    ("sections ../../x", [], ["smoke.sections: '../../x' is no name"]),
    ("sections /tmp/x", [], ["smoke.sections: '/tmp/x' is no name"]),
    ("sections", {1: []}, ["smoke.sections: 1 is no name"]),
    ("sections", {"x" * 101: []}, ["smoke.sections: 'xxx", "at most 100"]),
    ("bodies transformer", "../../x", ["smoke.bodies.transformer: ", "no backbone '../../x'"]),
    ("bodies transformer", "nano@0", ["smoke.bodies.transformer: ", "L from 1 to 4"]),
    ("bodies transformer", "nano@02", ["smoke.bodies.transformer: ", "L from 1 to 4"]),
    ("bodies transformer", "nano@" + "9" * 5000, ["smoke.bodies.transformer: ", "from 1 to 4"]),
    ("bodies transformer", "nano@", ["smoke.bodies.transformer: ", "no backbone 'nano@'"]),
    # tasks and their options
    ("tasks digits name", ["digits"], ["smoke.tasks.digits: there is no task ['digits']"]),
    ("tasks digits", 0, ["smoke.tasks.digits: expected settings by name, found 0"]),
    ("tasks digits options", {"train": True}, ["option 'train'", "must be int, not True"]),
    ("tasks digits options", {"train": 5000}, ["option 'train'", "at most 4388, not 5000"]),
    ("tasks digits options", {3: 3}, ["smoke.tasks.digits: ", "no option '3'"]),
    ("tasks bit-xor options", {"n": 2**31}, ["option 'n'", "below 2^31"]),
    ("tasks bit-xor options", {"n": -1}, ["option 'n'", "at least 1, not -1"]),
    ("tasks listops options", {"max_length": "64"}, ["'max_length'", "must be int, not '64'"]),
    ("tasks listops options", {"max_length": None}, ["'max_length'", "must be int, not None"]),
    ("tasks listops options", {"min_length": True}, ["'min_length'", "must be int, not True"]),
    ("tasks listops options", {"variant": "new"}, ["'variant'", "'intended', 'released'"]),
    # sections
    (PART, None, [f"{IN_PART}: expected settings by name, found None"]),
    (f"{PART} tasks", MISSING, [f"{IN_PART}.tasks: expected a list such as [bit-xor]", "None"]),
    (f"{PART} arms", MISSING, [f"{IN_PART}.arms: expected a list such as [", "None"]),
    (f"{PART} arms", [], [f"{IN_PART}.arms: expected a list such as [", "[]"]),
    (f"{PART} arms", [["fpt"]], [f"{IN_PART}.arms: ['fpt'] is not known"]),
    (f"{PART} arms", ["fpt", "fpt"], [f"{IN_PART}.arms: 'fpt' stands twice"]),
    (f"{PART} tasks", ["digits", "digits"], [f"{IN_PART}.tasks: 'digits' stands twice"]),
    (f"{PART} lr", "fast", [f"{IN_PART}.lr: expected float, found 'fast'"]),
    ("tasks", {}, [f"{IN_PART}.tasks: 'bit-xor' is not known"]),
    ("train_on", [], ["smoke.train_on: expected a list such as [cpu]", "[]"]),
    ("train_on", ["cpu", "cpu"], ["smoke.train_on: 'cpu' stands twice"]),
]


@pytest.mark.parametrize(
    ("place", "value", "parts"), VALUES, ids=[f"{p} {str(v)[:20]}" for p, v, _ in VALUES]
)
def test_a_wrong_value(place: str, value: object, parts: list[str], tmp_path: Path) -> None:
    check_said(refusal(read(written(tmp_path, place, value))), parts)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
INVALID = "is not valid YAML"
TEXTS: dict[str, tuple[str | bytes, list[str]]] = {
    "only a comment": ("# nothing\n", ["expected `profile`"]),
    "one word": ("smoke\n", ["expected `profile`"]),
    "a key twice": ("profile: smoke\nprofile: lab\n", ["'profile' stands twice", "line 2"]),
    "a key twice inside": ("smoke: {seeds: [0], seeds: [1]}", ["'seeds' stands twice"]),
    "a list for a key": ("profile: smoke\n? [a, b]\n: 1\n", [INVALID]),
    "a table for a key": ("profile: smoke\n? {a: b}\n: 1\n", [INVALID]),
    "not UTF-8": (b"profile: sm\xf6ke\n", [INVALID, "utf-8"]),
    "UTF-16": ("profile: smoke\n".encode("utf-16"), [INVALID, "utf-8"]),
    "a NUL": ("profile: smo\0ke\n", [INVALID]),
    "tabs": ("smoke:\n\tseeds: [0]\n", [INVALID, "(line 2)"]),
    "an open quote": ('profile: "smoke\n', [INVALID, "(line 2)"]),
    "an open bracket": ("profile: smoke\nsmoke: {seeds: [0}\n", [INVALID, "(line 2)"]),
    "two documents": ("profile: smoke\n---\nprofile: lab\n", [INVALID]),
    "an alias of itself": ("profile: &p [*p]\n", ["line 1 has the alias *p inside"]),
    "aliases that grow": (BOMB, ["line 2 has the alias *a inside what has an anchor"]),
    "a merge": ("smoke: {<<: {seeds: [0]}}", [INVALID]),
    "nested": ("[" * 100_000 + "]" * 100_000, ["line 1 is nested more than 20 levels deep"]),
    "nested lists": ("- " * 50_000 + "x\n", ["nested more than 20 levels deep"]),
    "a date that is none": ("profile: 2001-99-99\n", [INVALID]),
    "a number of 5000 digits": (f"profile: {'9' * 5000}\n", [INVALID]),
    "a word for a number": ("profile: !!int smoke\n", [INVALID]),
    "nothing for a number": ('profile: !!float ""\n', [INVALID]),
    "a word for yes": ("profile: !!bool maybe\n", [INVALID]),
    "a word for a time": ("profile: !!timestamp soon\n", [INVALID]),
    "an unknown tag": ("profile: !model smoke\n", [INVALID]),
}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("batch: 010", "batch: expected int, found '010' (write a plain number"),
        ("batch: 0x10", "batch: expected int, found '0x10' (write a plain number"),
        ("steps: 1:30", "steps: expected int, found '1:30' (write a plain number"),
        ("steps: 1_000", "steps: expected int, found '1_000' (write a plain number"),
        ("augment: yes", "augment: expected bool, found 'yes' (write true or false)"),
        ("augment: off", "augment: expected bool, found 'off' (write true or false)"),
        ("lr: 1e-3", "lr: expected float, found '1e-3' (write 1.0e-3 or 0.001, not 1e-3)"),
        ("lr: 1:30.5", "lr: expected float, found '1:30.5' (write 1.0e-3"),
    ],
)
def test_what_readers_of_yaml_do_not_agree_on(line: str, said: str, tmp_path: Path) -> None:
    """Where one takes 010 for 8 and another for 10, it is neither."""
    path = written(tmp_path)
    name = line.split(":")[0]
    old = f"{name}: {yaml.safe_dump(BLOCK['defaults'][name]).split()[0]}"
    text = path.read_text()
    assert f"    {old}\n" in text
    path.write_text(text.replace(f"    {old}\n", f"    {line}\n"))
    check_said(refusal(read(path)), [f"smoke.defaults.{said}"])


@pytest.mark.parametrize("what", TEXTS)
def test_a_file_that_is_not_read(what: str, tmp_path: Path) -> None:
    text, parts = TEXTS[what]
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    check_said(refusal(read(path)), parts)


@pytest.mark.parametrize(
    "tag",
    ["!!python/object/apply:os.mkdir [{}]", "!!python/object/new:os.mkdir [{}]"],
)
def test_no_tag_runs_code(tag: str, tmp_path: Path) -> None:
    path, made = tmp_path / "params.yaml", tmp_path / "made"
    path.write_text("profile: " + tag.format(made))
    check_said(refusal(read(path)), [INVALID, "could not determine a constructor"])
    assert not made.exists()


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    check_said(refusal(read(tmp_path)), [f"{tmp_path}: it is a folder", "YAML"])


def test_a_link_to_itself_or_a_path_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.symlink_to(path)
    check_said(refusal(read(path)), [f"Cannot read {path}: it is a link that leads to itself"])
    path.unlink()
    path.write_text("")
    for action in (read(path / "params.yaml"), lambda: stamp_of([path / "params.yaml"])):
        check_said(refusal(action), [str(path / "params.yaml"), "set FPT_ROOT"])


@pytest.mark.parametrize("cut", range(1, 10))
def test_half_a_file(cut: int, tmp_path: Path) -> None:
    """The project's own, cut before its first section, is never taken for a whole one."""
    text = PARAMS.read_text()
    path = tmp_path / "params.yaml"
    path.write_text(text[: text.index("  sections:") * cut // 10])
    refusal(read(path))
