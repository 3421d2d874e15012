"""Executed notebooks, pages and index."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from made import fill, make_record, make_section, spread
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from refusals import check_said, refusal

from fpt import config
from fpt.files import PACKAGE, FptError
from fpt.records import Store, store
from fpt.report import figures, headline, outputs, tables
from fpt.report import index as front
from fpt.report import render as report
from fpt.report.notebooks import clean, refresh

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
    monkeypatch.setattr("fpt.files.NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr("fpt.config.notebooks", list)  # the profiles have more sections than these
    for module in ("report.render", "report.index", "records"):
        monkeypatch.setattr(f"fpt.{module}.REPORTS", tmp_path / "reports")
    return tmp_path


def test_a_page_holds_what_the_notebook_shows(project: Path) -> None:
    write_notebook(
        project / "notebooks/01_toy.ipynb",
        new_code_cell("from fpt.report.outputs import renders\n\nprint('in', profile, renders())"),
        new_code_cell(FIGURE),
    )
    page = report.render("toy", "lab")
    assert page == project / "reports/lab/notebooks/01_toy.html"
    text = page.read_text()
    assert "in lab True" in text
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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notebooks/01_toy.ipynb", "{", "is not valid JSON"),
        ("notebooks/01_toy.ipynb", '{"nbformat": 4}', "is damaged: it has no cells"),
        ("notebooks/01_toy.ipynb", '{"cells": [1]}', "is damaged: it has no cells"),
        ("reports/smoke/runs/toy.json", "[1, 2]", "holds no values by name"),
        ("reports/smoke/runs/toy.json", '{"runs": [[1]]}', "is damaged; render its section again"),
        ("reports/smoke/runs/toy.json", '{"present": "a"}', "is damaged; render its section again"),
    ],
)
def test_a_damaged_file_is_named_in_one_sentence(
    name: str, content: str, said: str, project: Path
) -> None:
    write_notebook(project / "notebooks/01_toy.ipynb")
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    refused = [lambda: front.index("smoke")]
    if path.suffix == ".ipynb":
        refused.append(lambda: report.render("toy", "smoke"))
    for action in refused:
        check_said(refusal(action), [str(path), said])


@pytest.mark.parametrize("place", ["notebooks", "reports/smoke/notebooks"])
def test_a_notebook_that_cannot_be_read_or_written_is_one_sentence(
    place: str, tmp_path: Path
) -> None:
    """As a process, since a library that is loaded meanwhile must not be cut off at its end."""
    (tmp_path / "notebooks").mkdir()
    write_notebook(tmp_path / "notebooks/01_toy.ipynb")
    path = tmp_path / place / "01_toy.ipynb"
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "FPT_ROOT": str(tmp_path)}
    command = [sys.executable, "-m", "fpt", "render", "toy", "--profile", "smoke"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert str(path) in done.stderr


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
    assert "| About 00_first | not rendered | – |" in text
    assert "| About 01_second | 4 of 6 | [01_second.html](notebooks/01_second.html) |" in text
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
        new_code_cell("from fpt.report.outputs import renders\n\nrenders()"),
    )
    refresh(path)
    first = path.read_bytes()
    _, _, compared, picture, by_hand = nbformat.read(path, as_version=4).cells
    assert compared.outputs[0].data == {"text/plain": "42"}
    assert set(picture.outputs[0].data) == {"text/plain"}
    assert by_hand.outputs[0].data == {"text/plain": "False"}
    refresh(path)
    assert path.read_bytes() == first


def test_by_hand_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = make_section(tmp_path, monkeypatch)
    fill(section, spread)
    before = sorted(tmp_path.rglob("*"))
    assert "FPT" in outputs.save_table(section, tables.transfer_table(section)).markdown()
    assert outputs.save_figure(section, "bars", figures.transfer_bars(section)).png
    outputs.save_numbers(section)
    assert headline.save(section, [])
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_there_in_html_is_not_there_as_text_too() -> None:
    both, text = {"text/plain": "| a |", "text/html": "<table>"}, {"text/plain": "42"}
    cell = new_code_cell("1", outputs=[new_output("display_data", it) for it in (both, text)])
    kept = report.strip(new_notebook(cells=[cell])).cells[0].outputs
    assert [output.data for output in kept] == [{"text/html": "<table>"}, {"text/plain": "42"}]
