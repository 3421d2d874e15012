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


def outputs_of(some: list[Any]) -> str:
    """All that some cells print or show."""
    shown = (it for cell in some for it in cell.get("outputs", ()))
    return "\n".join(it.get("text", "") or it.data["text/plain"] for it in shown)


def results(path: Path) -> str:
    """The outputs of the cells after the heading `Results`."""
    every = cells(path)
    heads = [at for at, cell in enumerate(every) if cell.source.startswith("## Results")]
    return outputs_of(every[heads[0] :]) if heads else ""


@each
def test_results_say_which_tasks_are_fitting(path: Path) -> None:
    if path.stem[3:] in ("tasks", "verdict"):
        return  # they name tasks as the profile and the registration do
    text = results(path)
    assert not re.search(r"\bbit-xor(-2)?\b(?! \(fitting\)|-2)", text), text


@each
def test_a_notebook_shows_steps_and_no_interval_of_two_runs(path: Path) -> None:
    """The profile under test has two seeds; the paper's tables have intervals of their own."""
    text = results(path)
    assert "ln(steps)" not in text
    assert "logarithm" not in text
    assert not re.search(r"\d ± \d|\[[+-]?\d[\d.,]*, [+-]?\d", text), text


def test_the_verdict_has_no_table_without_records() -> None:
    """The project under test holds no records of the lab: a table of dashes would look as if the
    lab had none."""
    (path,) = [path for path in PATHS if path.stem == "12_verdict"]
    assert "holds no records" in results(path) + outputs_of(cells(path))
    assert "| undecided" not in outputs_of(cells(path))
    assert "0 of 12" not in outputs_of(cells(path))


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
