"""Data of the reader's own: the task of docs/own-task.md, known by the content of its files."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from refusals import check_said, refusal
from tiny import spec, task_of

from fpt import tasks
from fpt.files import PACKAGE
from fpt.spec import RunSpec
from fpt.tasks import datasets as data
from fpt.tasks.datasets import data_note, own_data, prepared_path
from fpt.tasks.sequences import end_to_end
from fpt.training.loop import Loop

SPLITS = {"train": 12, "valid": 4, "test": 4}


@pytest.fixture
def folder(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's module and its data; prepared data go to the folder of the test."""
    monkeypatch.setattr(data, "PREPARED", tiny / "prepared")
    text = (PACKAGE.parent / "docs/own-task.md").read_text(encoding="utf-8")
    (module,) = re.findall(r'```python\n("""fpt/tasks/reviews\.py.*?)```', text, re.DOTALL)
    (tiny / "reviews.py").write_text(module)
    for split, count in SPLITS.items():
        lines = (f"{n % 2}\t{'bad' if n % 2 else 'good'} number {n}\n" for n in range(count))
        (tiny / f"reviews-{split}.tsv").write_text("".join(lines))
    return tiny


def registered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as another process imports it, and its task by name."""
    name = "fpt.tasks.reviews"
    found = importlib.util.spec_from_file_location(name, folder / "reviews.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(tasks.REGISTRY, "reviews", module.reviews)
    monkeypatch.setattr(tasks, "TASKS", (*tasks.REGISTRY,))
    return module


def test_the_readmes_task_trains_and_is_keyed_by_its_content(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(folder, monkeypatch)

    def run_of_today() -> RunSpec:
        lstm = {"backbone": "lstm-tiny", "trainable": ("input", "output", "recurrent")}
        return spec("reviews", {}, steps=2, eval_every=1, batch=4, **lstm)

    run = run_of_today()
    loop = Loop([run], task_of(run), torch.device("cpu"))
    assert loop.run()
    assert loop.progress[0].metrics["test_items"] == SPLITS["test"]
    before = task_of(run)
    assert before.example("train", 1).text == "bad number 1"
    assert before.floors() == {"majority": 0.5}
    assert data_note(before) is None
    assert before.needs is None

    registered(folder, monkeypatch)
    assert run_of_today().key == run.key

    with (folder / "reviews-train.tsv").open("a") as file:
        file.write("1\tone more\n")
    registered(folder, monkeypatch)
    edited = run_of_today()
    after = task_of(edited)
    assert edited.key != run.key
    assert after.digest() != before.digest()
    assert after.sizes["train"] == 13
    assert len({prepared_path(task.dataset) for task in (before, after)}) == 2
    assert len(list((folder / "prepared").glob("reviews-*.safetensors"))) == 2


def test_data_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = registered(folder, monkeypatch)
    (folder / "reviews-test.tsv").write_text("a line without a tab\n")
    check_said(refusal(module.reviews), ["The data of 'reviews' cannot be read"])
    (folder / "reviews-test.tsv").unlink()
    check_said(refusal(module.reviews), ["'reviews' cannot be read", "reviews-test.tsv"])


def test_own_data_are_read_once_in_a_process() -> None:
    built = iter([{"a": np.arange(3)}])

    def build() -> data.Arrays:
        return next(built)

    one, two = own_data("mine", build), own_data("mine", build)
    assert one is two
    assert one.build()["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("token", "found"), [(256, "0 to 256"), (-1, "-1 to 3")])
def test_tokens_that_do_not_fit_into_a_byte(token: int, found: str) -> None:
    sequences = [np.array([0, 3]), np.array([token])]
    said = refusal(lambda: end_to_end("train", sequences, np.zeros(2, np.uint8)))
    check_said(said, ["split 'train'", f"from {found}", "have tokens from 0 to 255"])
