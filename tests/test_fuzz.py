"""Files of any content: what reads them gives something valid or says what is wrong, no more."""

import json
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import one_sentence
from test_bad_params import BLOCK
from test_records import made

from fpt.checks import SETTINGS
from fpt.config import expand, load
from fpt.files import FptError
from fpt.records import Store, digest, from_content, parse, to_content
from fpt.training import checkpoint


def fuzz(examples: int) -> Callable[..., Any]:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


KNOWN = [
    *BLOCK, *SETTINGS, "profile", "smoke", "lab", "fpt", "random", "probe", "full", "bit-xor",
    "digits", "listops", "transfer", "options", "name", "n", "train", "max_length", "tasks", "arms",
    "seeds", "keep", "lrs", "search", "transformer", "language", "nano", "nano@2", "../../x", "",
]  # fmt: skip
TEXT = st.sampled_from(KNOWN) | st.text(max_size=8)
NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-2, 3) | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def places(content: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in nested lists and tables, as the names that lead there."""
    inside = (
        content.items() if type(content) is dict else enumerate(content)
        if type(content) is list else ()
    )  # fmt: skip
    return [above, *(place for name, part in inside for place in places(part, (*above, name)))]


@st.composite
def changed(draw: st.DrawFn, whole: Any) -> Any:
    """`whole` with some of its parts replaced, left out, renamed or added."""
    content = deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        if type(content) not in (dict, list) or not content:
            return content
        *above, last = draw(st.sampled_from(places(content)[1:]))
        there = content
        for name in above:
            there = there[name]
        how = draw(st.sampled_from(["replace", "leave out", "rename", "add"]))
        if how == "replace":
            there[last] = draw(VALUES)
        elif how == "leave out":
            del there[last]
        elif type(there) is list:
            there.append(draw(st.sampled_from(there) | VALUES))
        else:
            part = there.pop(last) if how == "rename" else draw(VALUES)
            there[draw(TEXT)] = part
    return content


@st.composite
def cut(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` with some of its bytes left out, replaced, or repeated."""
    content = whole
    for _ in range(draw(st.integers(1, 3))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        inside = draw(st.binary(max_size=4) | st.just(content[start:end] * 2))
        content = content[:start] + inside + content[end:]
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


# ------------------------------------------------------------------------------------- params.yaml

WHOLE = {"profile": "smoke", "smoke": BLOCK}


def read_params(path: Path) -> None:
    try:
        profile = load("smoke", path)
        runs = [run for section in profile.sections for run in expand(profile, section)]
    except FptError as error:
        one_sentence(str(error))
        return
    for run in runs:
        assert len(run.spec.key) == 16
        assert run.spec.task


@fuzz(200)
@given(content=changed(WHOLE) | changed(WHOLE) | VALUES | VALUES.map(lambda it: {"smoke": it}))
def test_any_table_of_parameters(content: Any, folder: Path) -> None:
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), errors="surrogatepass")
    read_params(path)


@fuzz(200)
@given(content=cut(yaml.safe_dump(WHOLE).encode()) | st.binary(max_size=40))
def test_any_text_for_parameters(content: bytes, folder: Path) -> None:
    path = folder / "text.yaml"
    path.write_bytes(content)
    read_params(path)


YAML = "{}[]-:?,&*!|>'\"%@`#~ \n\tab1.e<=0_"


@fuzz(200)
@given(content=st.text(YAML, max_size=30))
def test_any_text_in_the_letters_of_yaml(content: str, folder: Path) -> None:
    path = folder / "letters.yaml"
    path.write_text(content)
    read_params(path)


# ----------------------------------------------------------------------------------------- records

RECORD = to_content(made())
KEY = made().key


def read_record(content: bytes, folder: Path) -> None:
    record = None
    with suppress(ValueError):
        record = parse(content, KEY)
        assert record.key == KEY
        assert from_content(to_content(record)) == record
        numbers = [value for it in (record.metrics, *record.curve) for value in it.values()]
        assert all(map(math.isfinite, numbers))
    there = folder / "there"
    there.mkdir(exist_ok=True)
    (there / f"{KEY}.json").write_bytes(content)
    store = Store(folder / "store")
    try:
        store.merge(there)
    except FptError as error:
        one_sentence(str(error))
        refused = True
    else:
        refused = False
    assert refused == (record is None)
    if record is not None:
        assert store.read(KEY) == record
        store.path(KEY).unlink()


RESULT = {name: part for name, part in RECORD.items() if name not in ("spec", "key", "digest")}


@fuzz(300)
@given(content=changed(RECORD) | changed(RESULT) | changed(RESULT))
def test_any_values_for_a_record(content: Any, folder: Path) -> None:
    """Signed anew, so that the digest hides nothing."""
    if type(content) is dict:
        content = {"spec": RECORD["spec"], "key": KEY, **content}
        with suppress(ValueError):  # NaN has no digest
            content["digest"] = digest(content)
    read_record(json.dumps(content).encode(), folder)


@fuzz(200)
@given(content=cut(json.dumps(RECORD).encode()) | st.binary(max_size=40))
def test_any_bytes_for_a_record(content: bytes, folder: Path) -> None:
    read_record(content, folder)


# ------------------------------------------------------------------------------------- checkpoints

HISTORY = {"keys": [KEY], "step": 3, "progress": [{"curve": [], "seconds": 0.5}]}


@fuzz(200)
@given(data=st.data())
def test_any_bytes_for_a_checkpoint(data: st.DataObject, folder: Path) -> None:
    whole, path = folder / "whole.safetensors", folder / "c.safetensors"
    checkpoint.write(whole, {"values": torch.arange(6.0).view(2, 3)}, HISTORY)
    path.write_bytes(data.draw(cut(whole.read_bytes()) | st.binary(max_size=40)))
    assert all(type(key) is str for key in checkpoint.members(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checkpoint.read(path)
    if found is not None:
        assert found[0]["values"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert found[1] == HISTORY


@fuzz(100)
@given(history=changed(HISTORY) | VALUES)
def test_any_history_of_a_checkpoint(history: Any, folder: Path) -> None:
    path = folder / "h.safetensors"
    checkpoint.write(path, {"values": torch.ones(2)}, history)
    assert all(type(key) is str for key in checkpoint.members(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = checkpoint.read(path)
    assert (found is None) == (type(history) is not dict)
