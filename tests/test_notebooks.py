"""The exercises of the notebooks run. nbval compares their other outputs, and leaves these out."""

import contextlib
import io
from pathlib import Path

import nbformat
import pytest

from fpt import report
from fpt.analysis.study import Study

PATHS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_exercises_run(path, monkeypatch):
    """With a few steps in place of hundreds."""
    cells = nbformat.read(path, as_version=4).cells
    if not any("change" in cell.metadata.get("tags", ()) for cell in cells):
        pytest.skip("has no exercise")
    change = Study.change

    def shorter(study, arm, task, **settings):
        return change(study, arm, task, **(settings | {"steps": 4, "eval_every": 2}))

    monkeypatch.setattr(Study, "change", shorter)
    for name in ("dot_plot", "learning_curves", "line_plot"):
        monkeypatch.setattr(report, name, lambda *_, **__: None)
    variables = {}
    for cell in cells:
        if cell.cell_type == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(cell.source, variables)
