"""`fpt status`: what it keeps in the cache, and that it never shows what is no longer so."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from test_cli import enter
from test_records import made as recorded

from fpt import files as paths
from fpt import params
from fpt.__main__ import main
from fpt.files import PACKAGE
from fpt.records import Record, Store
from fpt.sections import expected
from fpt.sections.status import held_against
from fpt.sections.summaries import Summary, summaries


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "reports" / "smoke" / "records")


def made(seed: int, seconds: float = 2.0) -> Record:
    record = recorded(seed)
    return replace(record, cost=record.cost | {"seconds": seconds, "flops": 10.0})


# -------------------------------------------------------------------------------------- summaries


def test_a_record_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        store.write(made(seed))
    keys = [made(seed).key for seed in range(4)]
    found = summaries(store, keys)
    assert set(found) == set(keys[:3])
    assert found[keys[0]].seconds == 2.0
    monkeypatch.setattr(Store, "read", lambda *args: pytest.fail("read again"))
    assert summaries(store, keys) == found
    assert summaries(store, keys[:1]) == {keys[0]: found[keys[0]]}


def test_many_are_read_on_all_cores(store: Store, tmp_path: Path) -> None:
    for seed in range(3):
        store.write(made(seed))
    keys = [made(seed).key for seed in range(3)]
    content = store.path(keys[1]).read_bytes()
    store.path(keys[1]).write_bytes(content.replace(b"2.0", b"3.0"))
    code = (
        "import sys; from pathlib import Path; from fpt import paths, summaries as s; "
        "from fpt.records import Store; s.MANY = 2; paths.CACHE = Path(sys.argv[1]); "
        "found = s.summaries(Store(Path(sys.argv[2])), sys.argv[3:]); print(*found)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "other"), str(store.folder), *keys]
    done = subprocess.run(words, text=True, check=True, capture_output=True)
    assert done.stdout.split() == [keys[0], keys[2]]
    assert "damaged (its digest does not fit its content)" in done.stderr


def test_what_changed_is_seen(store: Store) -> None:
    keys = [made(seed).key for seed in range(4)]
    for seed in range(4):
        store.write(made(seed))
    summaries(store, keys)
    store.path(keys[0]).unlink()
    store.write(made(1, seconds=3.0))  # as long as before
    content = store.path(keys[2]).read_bytes()
    store.path(keys[2]).write_bytes(content[:-9] + b"x" + content[-8:])
    store.write(made(3), b"parameters")
    with pytest.warns(UserWarning, match=f"{keys[2]}.json is damaged"):
        found = summaries(store, keys)
    assert {key: (it.seconds, it.kept) for key, it in found.items()} == {
        keys[1]: (3.0, False),
        keys[3]: (2.0, True),
    }
    store.parameters_path(keys[3]).unlink()
    assert not summaries(store, keys)[keys[3]].kept
    store.write(made(0))
    assert keys[0] in summaries(store, keys)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', "[" * 100_000, "seal\n{}"])
def test_a_cache_that_is_damaged_or_cannot_be_written_costs_time_only(
    store: Store, cache: Path, content: str
) -> None:
    store.write(made(0))
    found = summaries(store, [made(0).key])
    (path,) = (cache / "summaries").iterdir()
    path.write_text(content)
    assert summaries(store, [made(0).key]) == found
    path.unlink()
    (cache / "summaries").rmdir()
    (cache / "summaries").write_text("a file where a folder should be")
    assert summaries(store, [made(0).key]) == found


# --------------------------------------------------------------------------------------- expected


def test_what_is_expected_is_worked_out_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = expected.expected("smoke")
    assert first.runs
    assert first.cells
    with monkeypatch.context() as patch:
        patch.setattr(expected, "expected_of", lambda *args: pytest.fail("worked out again"))
        assert expected.expected("smoke") == first


@pytest.mark.parametrize("text", [b'{"value": {}}', b"[" * 100_000, b'{"cells": "x"}'])
def test_what_is_expected_is_worked_out_anew_where_it_is_damaged(cache: Path, text: bytes) -> None:
    first, path = expected.expected("smoke"), cache / "expected" / "smoke"
    seal, _, _ = path.read_bytes().partition(b"\n")
    for content in (text, seal + b"\n" + text):
        path.write_bytes(content)
        assert expected.expected("smoke") == first
    path.unlink()
    path.mkdir()
    assert expected.expected("smoke") == first


def test_other_parameters_or_another_package_expect_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, package = tmp_path / "params.yaml", tmp_path / "package"
    package.mkdir()
    (package / "paper.yaml").write_text("")
    file.write_text("a: 1")
    monkeypatch.setattr(params, "PARAMS", file)
    monkeypatch.setattr(paths, "PACKAGE", package)
    worked_out: list[str] = []
    nothing = expected.Expected((), (), (), {})
    monkeypatch.setattr(expected, "_made", lambda name: worked_out.append(name) or asdict(nothing))

    def times() -> int:
        assert expected.expected("smoke") == nothing
        return len(worked_out)

    assert times() == times() == 1
    file.write_text("a: 2")
    assert times() == times() == 2
    (package / "sweep.py").write_text("")
    assert times() == times() == 3
    (package / "sweep.py").write_text("pass")
    assert times() == times() == 4


# ------------------------------------------------------------------------------------- the command

LIGHT = """
import sys
from fpt.__main__ import main
code = main(sys.argv[1:])
heavy = {"torch", "transformers", "pandas"} & set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


def test_status_and_merge_start_without_torch(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The status once what is expected is known."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "params.yaml").write_bytes((PACKAGE.parent / "params.yaml").read_bytes())
    env = os.environ | {"FPT_ROOT": str(root), "PYTHONPATH": str(PACKAGE.parent)}
    store.write(made(0))

    def fpt(*words: str) -> str:
        command = [sys.executable, "-c", LIGHT, *words, "--profile", "smoke"]
        return subprocess.run(command, env=env, text=True, check=True, stdout=-1).stdout

    assert fpt("merge", str(store.folder)) == "1 records taken, 0 were here already\n"
    enter(root, monkeypatch)
    monkeypatch.setattr(paths, "CACHE", root / ".cache")
    assert main(["status", "--profile", "smoke", "--json"]) == 0
    slow = capsys.readouterr().out
    assert json.loads(slow)["sections"]
    assert fpt("status", "--json") == slow


# ------------------------------------------------------------------------------------- cost model


@pytest.mark.parametrize("count", [2, 3, 6, 7])
def test_each_run_is_predicted_from_the_others(count: int) -> None:
    """From what was planned: half of the runs stopped after a third of it."""
    draw = np.random.default_rng(count)
    speeds, done = draw.uniform(1, 9, count), np.where(np.arange(count) % 2, 1 / 3, 1)
    runs = {
        str(i): Summary([], "tiny", "cpu", speed * 5, 5.0, False, "done", {})
        for i, speed in enumerate(speeds)
    }
    planned = {key: it.flops / done[int(key)] for key, it in runs.items()}
    ratios = [
        planned[str(i)] / 5 / np.median(np.delete(speeds, i)) for i, speed in enumerate(speeds)
    ]
    others = {
        "alone": replace(runs["0"], kind="cuda"),
        "untimed": replace(runs["0"], flops=0.0),
    }
    wanted = wanting(planned | dict.fromkeys(others, 1.0))
    unplanned = {"unplanned": replace(runs["0"], flops=1e9)}
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    found = held_against(wanted, runs | others | unplanned)
    assert found == pytest.approx({"runs": count, "low": low, "median": middle, "high": high})
    assert held_against(wanted, others | unplanned) is None


def wanting(flops: Mapping[str, float]) -> expected.Expected:
    """What expects runs by key, of so many FLOPs."""
    at = ("section", "arm", "task")
    runs = (
        expected.Wanted(*at, key, "tiny", value, False, 1.0, None, False, False)
        for key, value in flops.items()
    )
    return expected.Expected(("section",), tuple(runs), (), {})
