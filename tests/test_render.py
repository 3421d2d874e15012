"""Notebooks that are executed for a page, and what goes wrong with them: a report is there as a
whole, as it was before or as it is after."""

import errno
import subprocess

import nbformat
import pytest
import yaml
from made import PARAMS, tree
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from refusals import refuses

from fpt.files import read_yaml, write_atomic
from fpt.report.render import render
from lab import pages

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
# What a notebook does in place of `fpt.report.show`, whose import takes seconds.
DRAW = """
import os; from pathlib import Path
folder = Path(os.environ['FPT_STAGED']) / 'figures' / 'transfer'
folder.mkdir(parents=True)
(folder / '{name}.png').write_text('{name}')
{then}
"""
PAGES = [f"notebooks/01_transfer.{ending}" for ending in ("html", "ipynb", "md")]


def notebook(last):
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


def write(project, content):
    nbformat.write(content, project / "notebooks/01_transfer.ipynb")


def draw(project, name, then=""):
    write(project, notebook(DRAW.format(name=name, then=then)))


@pytest.fixture
def project(project, tmp_path):
    """A project with two notebooks, the first of which draws a figure called `first`."""
    (tmp_path / "notebooks").mkdir()
    params = read_yaml(PARAMS)
    for profile in ("language", "smoke", "lab", "paper"):
        sections = params[profile]["sections"]
        params[profile]["sections"] = {name: sections[name] for name in ("transfer", "modality")}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    draw(tmp_path, "first")
    nbformat.write(notebook("1"), tmp_path / "notebooks/02_modality.ipynb")
    return tmp_path


@pytest.fixture
def report(project):
    """The report of a section that was rendered once."""
    render("transfer", "smoke")
    return project / "reports" / "smoke"


def test_a_page_has_its_result_on_top_and_is_the_same_again(project):
    page = render("transfer", "smoke").read_text()
    body = page[page.index("<body>") :]
    assert body.index("smoke!") < body.index('<h2 id="Results">')
    assert '<a href="02_modality.html">next: Title</a>' in body
    assert "http" not in body
    # What a Git host shows, too, without the cells of parameters.
    text = (project / "reports/smoke/notebooks/01_transfer.md").read_text()
    assert text.index("smoke!") < text.index("## Results")
    assert "profile =" not in text
    assert text.count("smoke!") == 1
    before = tree(project / "reports")
    render("transfer", "smoke")
    assert tree(project / "reports") == before


def test_a_page_without_planned_runs_ends_before_its_training(project):
    content = notebook("1 / 0")
    content.cells.insert(3, new_markdown_cell("## Training"))
    nbformat.write(content, project / "notebooks/02_modality.ipynb")
    page = render("modality", "language").read_text()  # whose plan has no such runs
    assert "plans no runs" in page
    assert '<a href="01_transfer.html">previous: Title</a>' in page
    assert "<code>lab</code>" in page
    assert "language!" not in page


def test_the_html_of_committed_reports_is_made_again(project, monkeypatch):
    indexed = []
    monkeypatch.setattr(pages, "index", indexed.append)
    render("transfer", "lab")
    render("transfer", "smoke")
    before = tree(project / "reports")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "add", "reports/lab/notebooks/01_transfer.md"], cwd=project, check=True)
    for profile in ("lab", "smoke"):
        (project / "reports" / profile / "notebooks/01_transfer.html").unlink()
    pages.main()
    assert before.pop("smoke/notebooks/01_transfer.html")
    assert tree(project / "reports") == before
    assert indexed == ["lab"]


def test_a_page_takes_the_place_of_the_earlier_one(project, report):
    assert sorted(tree(report)) == ["figures/transfer/first.png", *PAGES]
    (report / ".transfer.rendering" / "notebooks").mkdir(parents=True)  # of a killed process
    draw(project, "second")
    render("transfer", "smoke")
    assert sorted(tree(report)) == ["figures/transfer/second.png", *PAGES]
    assert (report / "tables" / "transfer").is_dir()  # an output of the pipeline, even if empty
    assert not (report / ".transfer.rendering").exists()


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("1 / 0", "failed in cell [5] with ZeroDivisionError"),
        ("os.kill(os.getpid(), 9)", "failed because its kernel died"),
    ],
)
def test_a_notebook_that_fails_leaves_the_report_and_shows_why(project, report, then, words):
    before = tree(report)
    draw(project, "second", then)
    refuses(lambda: render("transfer", "smoke"), words, "notebooks/01_transfer.failed.html")
    after = tree(report)
    assert b"smoke!" in after.pop("notebooks/01_transfer.failed.html")
    assert after == before
    draw(project, "first")
    render("transfer", "smoke")
    assert tree(report).keys() == before.keys()


def end(*_):
    raise KeyboardInterrupt


def full(path, content):
    """The disk is full after the notebook, the tables and the figures."""
    if path.suffix == ".html":
        raise OSError(errno.ENOSPC, "No space left on device")
    write_atomic(path, content)


# A full disk once left half of a page, after the tables and figures of the old one were deleted.
def test_whatever_goes_wrong_with_a_page_leaves_the_report(project, report, monkeypatch):
    before = tree(report)
    draw(project, "second")
    with monkeypatch.context() as patch:
        patch.setattr("fpt.report.render.page_of", end)
        with pytest.raises(KeyboardInterrupt):
            render("transfer", "smoke")
    assert tree(report) == before
    monkeypatch.setattr("fpt.report.render.write_atomic", full)
    refuses(lambda: render("transfer", "smoke"), "Cannot write", "No space left")
    assert tree(report) == before


# Papermill takes braces in a path for a parameter.
def test_a_notebook_of_an_older_format_in_a_folder_with_braces_is_rendered(project, monkeypatch):
    content = notebook("1")
    content.nbformat_minor = 4  # its cells have no ids
    for cell in content.cells:
        del cell["id"]
    write(project, content)
    braces = project.rename(project.with_name("{profile} of {0}"))
    monkeypatch.setenv("FPT_ROOT", str(braces))
    assert "lab!" in render("transfer", "lab").read_text()


NO_CELLS = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not valid JSON"),
        (NO_CELLS, "[] have such tags and [] set it"),
    ],
)
def test_a_damaged_notebook_is_refused_before_anything_is_written(project, content, words):
    (project / "notebooks/01_transfer.ipynb").write_text(content)
    refuses(lambda: render("transfer", "smoke"), "01_transfer.ipynb", words)
    refuses(lambda: render("nonsense", "smoke"), "'nonsense'", "transfer")
    assert not (project / "reports").exists()


def tag(index, *tags):
    return lambda content: content.cells[index].metadata.update(tags=list(tags))


def set_profile(source):
    return lambda content: content.cells[5].update(source=source)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (tag(1), "[] have such tags and [1] set it"),
        (tag(4, "parameters"), "[1, 4] have"),
        (set_profile('profile = "smoke"'), "[1] have such tags and [1, 5] set it"),
    ],
)
def test_a_notebook_that_would_not_take_its_profile_is_refused(project, change, words):
    content = notebook("profile == 'lab'")
    change(content)
    write(project, content)
    refuses(lambda: render("transfer", "lab"), "01_transfer.ipynb", words)
    assert not (project / "reports").exists()
