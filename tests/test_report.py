"""Executed notebooks, pages and index."""

import json
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from made import make_record
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fpt import config, front, report
from fpt.errors import FptError
from fpt.notebooks import clean, refresh
from fpt.records import Store, store

FIGURE = """
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(1, 1))
fig
"""


def write_notebook(path: Path, *cells: nbformat.NotebookNode) -> None:
    parameters = new_code_cell('profile = "smoke"', metadata={"tags": ["parameters"]})
    cells = (new_markdown_cell(f"# About {path.stem}"), parameters, *cells)
    nbformat.write(clean(new_notebook(cells=list(cells))), path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project: notebooks/ and reports/."""
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr("fpt.pages.NOTEBOOKS", tmp_path / "notebooks")
    for module in ("report", "front", "records"):
        monkeypatch.setattr(f"fpt.{module}.REPORTS", tmp_path / "reports")
    return tmp_path


def test_a_page_holds_what_the_notebook_shows(project: Path) -> None:
    write_notebook(
        project / "notebooks/01_toy.ipynb",
        new_code_cell("print('in', profile)"),
        new_code_cell(FIGURE),
    )
    page = report.render("toy", "lab")
    assert page == project / "reports/lab/notebooks/01_toy.html"
    text = page.read_text()
    assert "in lab" in text
    assert "data:image/png;base64" in text
    assert "<script" not in text
    assert 'src="http' not in text
    first = page.with_suffix(".ipynb").read_bytes()
    report.render("toy", "lab")
    assert page.with_suffix(".ipynb").read_bytes() == first  # nothing in it tells the time


def test_a_failing_notebook_is_kept_and_named(project: Path) -> None:
    write_notebook(
        project / "notebooks/01_toy.ipynb", new_code_cell("print('seen')"), new_code_cell("1 / 0")
    )
    with pytest.raises(FptError, match=r"01_toy.ipynb failed in cell \[4\] with ZeroDivisionError"):
        report.render("toy", "smoke")
    assert "seen" in (project / "reports/smoke/notebooks/01_toy.html").read_text()
    assert "| About 01_toy | failed |" in (project / "reports/smoke/README.md").read_text()


def test_what_ran_before_its_kernel_died_is_kept(project: Path) -> None:
    write_notebook(
        project / "notebooks/01_toy.ipynb",
        new_code_cell("print('seen')"),
        new_code_cell("import os\n\nos._exit(1)"),
    )
    with pytest.raises(FptError, match="01_toy.ipynb failed because its kernel died"):
        report.render("toy", "smoke")
    assert "seen" in (project / "reports/smoke/notebooks/01_toy.html").read_text()


def test_an_unknown_section_lists_the_known(project: Path) -> None:
    write_notebook(project / "notebooks/01_toy.ipynb")
    with pytest.raises(FptError, match="no section 'tyo'; the sections are toy"):
        report.render("tyo", "smoke")


def test_the_index_links_what_is_there(project: Path) -> None:
    write_notebook(project / "notebooks/00_first.ipynb")
    write_notebook(project / "notebooks/01_second.ipynb")
    made = {
        "runs/second.json": json.dumps({"expected": 6, "present": 4, "runs": {}}),
        "notebooks/01_second.html": "page",
        "tables/second/table1.md": "table",
        "figures/second/bars.png": "figure",
    }
    for name, content in made.items():
        path = project / "reports/lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    page = front.index("lab").read_text()
    text = (project / "reports/lab/README.md").read_text()
    assert "| About 00_first | not rendered | – | – |" in text
    assert "| About 01_second | 4 of 6 | [01_second.html](notebooks/01_second.html) | – |" in text
    assert "[table1.md](tables/second/table1.md)" in text
    assert '<a href="figures/second/bars.png">' in page


def test_the_first_page_reads_like_a_paper(project: Path, tiny: Path) -> None:
    """Question, findings, method, claims that have a verdict, sections, what all runs took."""
    first, second = (
        "# Transfer\n\n**Does it\ncompute?**\n\nMore.",
        "# Scaling\n\n**Is more better?**",
    )
    for name, text in (("01_transfer", first), ("06_scaling", second), ("12_verdict", "# Verdict")):
        cells = [new_markdown_cell(text), new_code_cell("1")]
        nbformat.write(new_notebook(cells=cells), project / f"notebooks/{name}.ipynb")
    runs = config.expand(config.load("smoke"), "transfer")[:2]
    for run in runs:
        store("smoke").write(make_record(run, 0.5))
    extra = replace(runs[0], spec=replace(runs[0].spec, lr=0.1))
    record = make_record(extra, 0.5)
    timed = replace(record, cost=record.cost | {"process_seconds": 1800.0})
    Store(project / "reports/smoke/records/exploratory").write(timed)
    listed = {run.key: "digest" for run in runs}
    made = {
        "runs/transfer.json": json.dumps({"expected": 6, "present": 2, "runs": listed}),
        "runs/scaling.json": json.dumps({"expected": 4, "present": 0, "runs": {}}),
        "runs/verdict.json": json.dumps({"expected": 6, "present": 2, "runs": listed}),
        "tables/transfer/transfer.md": "**FPT against other bodies**",
        "tables/scaling/scaling.md": "**Sizes**",
        "tables/verdict/ledger.md": "**The ledger**\n\n| | verdict |\n| --- | ---: |\n"
        "| it computes | supported |\n| it sings | not run | – |\n\n- 2 claims.",
        "figures/transfer/transfer_bars.png": "figure",
        "headline.md": "It computes.",
    }
    for name, content in made.items():
        path = project / "reports/smoke" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    front.index("smoke")
    text = (project / "reports/smoke/README.md").read_text()
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads[1:] == [
        "## Findings", "## Method", "## Claims", "## Transfer", "## Scaling", "## Cost", "## Pages",
    ]  # fmt: skip
    assert "It computes." in text
    assert "Does it compute?" in text
    assert text.count("(figures/transfer/transfer_bars.png)") == 3  # twice shown, once linked
    assert "**FPT against other bodies**" in text
    assert "| it computes | supported |" in text
    assert "it sings" not in text
    assert "1 of 2 claims are decided, 0 inconclusive, 1 not run." in text
    assert "Not run: 0 of 4 runs are here." in text
    assert "**Sizes**" not in text
    # Each record once, though two pages have it; the exploratory ones for themselves.
    assert "| planned | cpu | 2 | – | 2 M | 4 T |" in text
    assert "| exploratory | cpu | 1 | 0.5 | 1 M | 2 T |" in text


def test_a_stored_notebook_holds_what_is_compared(project: Path) -> None:
    path = project / "notebooks/01_toy.ipynb"
    write_notebook(
        path,
        new_code_cell("6 * 7"),
        new_code_cell(FIGURE),
        new_code_cell("import time; time.time()", metadata={"tags": ["nbval-ignore-output"]}),
    )
    refresh(path)
    first = path.read_bytes()
    _, _, compared, picture, ignored = nbformat.read(path, as_version=4).cells
    assert compared.outputs[0].data == {"text/plain": "42"}
    assert set(picture.outputs[0].data) == {"text/plain"}
    assert (ignored.outputs, ignored.execution_count) == ([], None)
    refresh(path)
    assert path.read_bytes() == first


def test_what_is_there_in_html_is_not_there_as_text_too() -> None:
    both, text = {"text/plain": "| a |", "text/html": "<table>"}, {"text/plain": "42"}
    cell = new_code_cell("1", outputs=[new_output("display_data", it) for it in (both, text)])
    kept = report.strip(new_notebook(cells=[cell])).cells[0].outputs
    assert [output.data for output in kept] == [{"text/html": "<table>"}, {"text/plain": "42"}]
