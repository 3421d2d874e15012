"""The notebooks as literature: short, plain, and with exercises that run.

Their other outputs are compared by nbval, which leaves the exercises out.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from fpt import report
from fpt.analysis.study import Study
from fpt.files import PACKAGE
from fpt.report.index import opening

PATHS = sorted((PACKAGE.parent / "notebooks").glob("*.ipynb"))
MOST_CELLS, MOST_IDEA = 25, 15
each = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path: Path, tag: str = "") -> list[Any]:
    found = nbformat.read(path, as_version=4).cells
    return [it for it in found if not tag or tag in it.metadata.get("tags", ())]


@each
def test_a_notebook_is_short_and_begins_with_its_question(path: Path) -> None:
    title, question = opening(path)
    assert title
    assert question.endswith("?")
    assert len(cells(path)) <= MOST_CELLS
    for idea in cells(path, "idea"):
        code = [line for line in idea.source.splitlines() if line.strip() and line[0] != "#"]
        assert len(code) <= MOST_IDEA + 3  # with what it prints


@each
def test_a_notebook_has_its_parts(path: Path) -> None:
    text = "\n".join(cell.source for cell in cells(path) if cell.cell_type == "markdown")
    parts = re.findall(r"^## (.+)", text, re.MULTILINE)
    if path.stem[3:] not in ("tasks", "verdict"):
        assert parts[-2:] == ["What to conclude", "Change one thing"]
        assert len(cells(path, "idea")) == 1
        assert 2 <= len(cells(path, "change")) <= 3
        assert cells(path, "result")


@each
def test_tables_say_which_tasks_are_fitting(path: Path) -> None:
    shown = [cell for cell in cells(path) if "study.title" in cell.source]
    texts = [str(it) for cell in shown for it in cell.get("outputs", ())]
    assert shown or path.stem in ("00_tasks", "12_verdict")  # these have a column, or a caption
    assert not re.search(r"bit-xor(-2)?(?!-2| \(fitting)", "".join(texts))


@each
def test_exercises_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a few steps in place of hundreds."""
    change = Study.change

    def shorter(self: Study, arm: str, task: str, **settings: Any) -> object:
        return change(self, arm, task, **(settings | {"steps": 4, "eval_every": 2}))

    monkeypatch.setattr(Study, "change", shorter)
    for name in ("dot_plot", "learning_curves", "line_plot"):
        monkeypatch.setattr(report, name, lambda *_, **__: None)
    seen: dict[str, Any] = {}
    for cell in cells(path) if cells(path, "change") else ():
        if cell.cell_type == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(cell.source, seen)
