"""Notebooks that are executed for a page, and what goes wrong with them."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from refusals import check_said, refusal

from fpt.files import FptError
from fpt.report.page import markdown, notebook_page
from fpt.report.render import render

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
PARAMETERS, PRINTED, RESULT = 1, 3, 4  # cells of `notebook`


def notebook(last: str = "import os; print(os.environ['FPT_RENDERS'])") -> Any:
    """A notebook whose last cell that is executed is `last`."""
    cells = [
        new_markdown_cell("# Title\n\n**Is it so?**\n\nIn short."),
        new_code_cell('profile = "smoke"', metadata={"tags": ["parameters"]}),
        new_markdown_cell("## Results"),
        new_code_cell("print(1 < 2)"),
        new_code_cell("print(profile + '!')", metadata={"tags": ["result"]}),
        new_code_cell(last),
        new_code_cell("raise SystemError", metadata={"tags": ["nbval-skip", "skip-execution"]}),
    ]
    return new_notebook(cells=cells, metadata=KERNEL)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr("fpt.files.NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr("fpt.report.render.REPORTS", tmp_path / "reports")
    nbformat.write(notebook(), tmp_path / "notebooks/01_transfer.ipynb")
    nbformat.write(notebook("1 / 0"), tmp_path / "notebooks/02_modality.ipynb")
    return tmp_path


def test_a_page_has_its_result_on_top_and_code_folded(project: Path) -> None:
    old = project / "reports/smoke/figures/transfer/old.png"
    old.parent.mkdir(parents=True)
    old.touch()
    page = render("transfer", "smoke").read_text()
    assert not old.exists()
    body = page[page.index("<body>") :]
    assert body.index("smoke!") < body.index('<h2 id="results">')
    assert "injected" not in body
    assert body.count("<details>") == 4
    assert '<a href="#results">Results</a>' in body
    assert '<a href="02_modality.html">next: modality</a>' in body
    assert "<pre>1\n</pre>" in body  # of FPT_RENDERS: what was executed wrote the report
    assert not re.search(r"(src|href)=\"https?:", page)
    executed = project / "reports/smoke/notebooks/01_transfer.ipynb"
    before = executed.read_bytes()
    render("transfer", "smoke")
    assert executed.read_bytes() == before


def test_a_failing_cell_is_named_and_its_page_kept(project: Path) -> None:
    with pytest.raises(FptError, match=r"02_modality.ipynb failed in cell \[5\] with ZeroDivision"):
        render("modality", "smoke")
    page = (project / "reports/smoke/notebooks/02_modality.html").read_text()
    assert "ZeroDivisionError: division by zero" in page
    check_said(refusal(lambda: render("nonsense", "smoke")), ["'nonsense'", "transfer"])


def test_a_notebook_whose_kernel_dies_is_kept_up_to_there(project: Path) -> None:
    dying = notebook("import os; os.kill(os.getpid(), 9)")
    nbformat.write(dying, project / "notebooks/02_modality.ipynb")
    with pytest.raises(FptError, match=r"02_modality.ipynb failed because its kernel died"):
        render("modality", "smoke")
    assert "smoke!" in (project / "reports/smoke/notebooks/02_modality.html").read_text()


def test_a_notebook_of_an_older_format_in_a_folder_with_braces_is_rendered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = notebook()
    content.nbformat_minor = 4  # its cells have no ids
    for cell in content.cells:
        del cell["id"]
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    scratch = project / "{scratch} 0%"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr("fpt.report.render.REPORTS", project / "{profile} of {0}" / "reports")
    assert "lab!" in render("transfer", "lab").read_text()


NO_CELLS = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *[(text, "is not valid JSON") for text in ("", "{", "[]")],
        *[(text, "is not a notebook") for text in ("{}", '{"cells": 3, "nbformat": 4}')],
        (NO_CELLS.replace("[]", '[{"cell_type": "code"}]'), "is not a notebook"),
        (NO_CELLS, "[] have such tags and [] set it"),
    ],
)
def test_a_damaged_notebook_is_refused_before_anything_is_written(
    project: Path, content: str, words: str
) -> None:
    (project / "notebooks/01_transfer.ipynb").write_text(content)
    check_said(refusal(lambda: render("transfer", "smoke")), ["01_transfer.ipynb", words])
    assert not (project / "reports").exists()


@pytest.mark.parametrize(
    ("tagged", "words"),
    [
        ([], "[] have such tags and [1] set it"),
        ([PARAMETERS, RESULT], "[1, 4] have"),
        ([0], "[0] have"),
        ([PRINTED], "[3] have"),
    ],
)
def test_a_notebook_with_misplaced_tags_is_refused_before_anything_is_written(
    project: Path, tagged: list[int], words: str
) -> None:
    content = notebook()
    for index, cell in enumerate(content.cells):
        cell.metadata["tags"] = ["parameters"] if index in tagged else []
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    check_said(refusal(lambda: render("transfer", "lab")), ["01_transfer.ipynb", "tags", words])
    assert not (project / "reports").exists()


@pytest.mark.parametrize(
    "last", ['profile = "smoke"', "profile, x = 'smoke', 1", "for profile in (1,): 2"]
)
def test_a_notebook_that_sets_its_own_profile_is_refused(project: Path, last: str) -> None:
    nbformat.write(notebook(last), project / "notebooks/01_transfer.ipynb")
    error = refusal(lambda: render("transfer", "lab"))
    check_said(error, ["01_transfer.ipynb", "[1] have such tags and [1, 5] set it"])
    assert not (project / "reports").exists()


def test_an_executed_copy_in_place_of_a_notebook_is_refused(project: Path) -> None:
    content = notebook("profile == 'lab'")
    content.cells[0].metadata["tags"] = ["injected-parameters"]
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")
    check_said(refusal(lambda: render("transfer", "lab")), ["[0, 1] have such tags and [1] set it"])


def test_a_table_in_markdown_scrolls_by_itself() -> None:
    page = notebook_page(
        new_notebook(cells=[new_markdown_cell("# T"), new_markdown_cell("|a|\n|-|\n|1|")]), {}
    )
    assert '<div class="table"><table>' in page
    assert '<span class="figure"><img src="a.png" alt="b"' in markdown("![b](a.png)")
