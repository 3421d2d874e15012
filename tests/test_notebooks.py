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

PATHS = sorted((PACKAGE.parent / "notebooks").glob("*.ipynb"))
MOST_CELLS, MOST_IDEA = 25, 15
each = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path: Path, tag: str = "") -> list[Any]:
    found = nbformat.read(path, as_version=4).cells
    return [it for it in found if not tag or tag in it.metadata.get("tags", ())]


@each
def test_a_notebook_is_short_and_begins_with_its_question(path: Path) -> None:
    assert re.match(r"# \w.*\n\n\*\*[^*]+\?\*\*", cells(path)[0].source)
    assert len(cells(path)) <= MOST_CELLS
    for idea in cells(path, "idea"):
        code = [
            line for line in idea.source.splitlines() if line.strip() and line.strip()[0] != "#"
        ]
        assert len(code) <= MOST_IDEA


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
def test_scores_say_which_tasks_are_fitting(path: Path) -> None:
    for cell in cells(path):
        if 'values="score"' in cell.source or "ttest_ind" in cell.source:
            text = "".join(it.get("text", "") or it.data["text/plain"] for it in cell.outputs)
            assert not re.search(r"\bbit-xor(-2)?\b(?! \(fitting\)|-2)", text), text


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
