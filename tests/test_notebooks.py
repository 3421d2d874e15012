"""What the notebooks show, and that their exercises run.

nbval compares their other outputs, and leaves the exercises out.
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

PATHS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
VERDICT = PATHS[-1]
by_name = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def outputs(path: Path, heading: str = "") -> str:
    """All that the cells after a heading print or show."""
    cells = nbformat.read(path, as_version=4).cells
    starts = [at for at, cell in enumerate(cells) if cell.source.startswith(heading)]
    shown = [output for cell in cells[starts[0] :] for output in cell.get("outputs", ())]
    return "\n".join(output.get("text", "") or output.data["text/plain"] for output in shown)


@pytest.mark.parametrize("path", PATHS[1:-1], ids=lambda path: path.stem)
def test_results_are_steps_or_points_without_intervals_of_two_runs(path: Path) -> None:
    """The profile under test has two seeds; the paper's tables have intervals of their own."""
    text = outputs(path, "## Results")
    assert not re.search(r"\bbit-xor(-2)?\b(?! \(fitting\)|-2)", text)
    assert not re.search(r"ln\(steps\)|logarithm", text)
    assert not re.search(r"\d ± \d|\[[+-]?\d[\d.,]*, [+-]?\d", text)


def test_the_verdict_has_no_table_without_records() -> None:
    """A table of dashes would look as if the lab had no records."""
    text = outputs(VERDICT)
    assert "holds no records" in text
    assert not re.search(r"\| undecided|0 of 12", text)


@by_name
def test_exercises_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a few steps in place of hundreds."""
    cells = nbformat.read(path, as_version=4).cells
    if not any("change" in cell.metadata.get("tags", ()) for cell in cells):
        pytest.skip("has no exercise")
    change = Study.change

    def shorter(study: Study, arm: str, task: str, **settings: Any) -> object:
        return change(study, arm, task, **(settings | {"steps": 4, "eval_every": 2}))

    monkeypatch.setattr(Study, "change", shorter)
    for name in ("dot_plot", "learning_curves", "line_plot"):
        monkeypatch.setattr(report, name, lambda *_, **__: None)
    variables: dict[str, Any] = {}
    for cell in cells:
        if cell.cell_type == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(cell.source, variables)
