"""The exercises of the notebooks print what their answers say. nbval compares all other outputs."""

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from fpt import report
from fpt.analysis.study import Study

FOLDER = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
TRAINS = re.compile(r"study\.change\(|\blearn\(|\baccuracies\(|\bfit\(")
ANSWER = re.compile(r"<details>.*```text\n(.*?)```.*</details>", re.DOTALL)


def executed(source, variables):
    """What the cell prints. The training in "The idea" of 01_transfer is cut short."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(source.replace("steps=200", "steps=2"), variables)
    return printed.getvalue()


def without_numbers(text):
    return re.sub(r"\d+(\.\d+)?|nan", "#", text)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_exercises_print_their_answers(path, monkeypatch):
    """With a few training steps in place of hundreds, after which the numbers are others."""
    cells = nbformat.read(path, as_version=4).cells
    change = Study.change

    def shorter(study, arm, task, **settings):
        return change(study, arm, task, **(settings | {"steps": 4, "eval_every": 2}))

    monkeypatch.setattr(Study, "change", shorter)
    for name in ("dot_plot", "learning_curves", "line_plot"):
        monkeypatch.setattr(report, name, lambda *_, **__: None)
    variables = {}
    for cell, following in pairwise([*cells, None]):
        if cell.cell_type != "code":
            continue
        printed = executed(cell.source, variables)
        if following and "answer" in following.metadata.get("tags", ()):
            answer = ANSWER.search(following.source)[1]
            if TRAINS.search(cell.source):
                printed, answer = without_numbers(printed), without_numbers(answer)
            assert printed == answer
