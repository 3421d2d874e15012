"""A page is its notebook, executed on the records that are here."""

import json

import nbformat
import pytest
from made import LANGUAGE, fill, make_plan, tree
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from refusals import refuses

from fpt.reading.pages import render
from fpt.records import INDEX

CODE = """
from pathlib import Path
import matplotlib.pyplot as plt
print(6 * 7)
plt.plot([1, 2])
plt.show()
"""
LIVE = "Path('ran').touch()"
SCRIPT = "<script>alert(1)</script>"
MARKDOWN, PICTURES = "01_transfer.md", "figures/01_transfer"


def write_notebook(project, code=CODE):
    live = new_code_cell(LIVE, outputs=[new_output("stream", text="of another machine")])
    live.metadata["tags"] = ["live"]
    cells = [new_markdown_cell("# A title\n\nSome prose."), new_code_cell(code), live]
    path = project.root / "notebooks" / "01_transfer.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)


def page(project):
    render("transfer")
    return (project.reports / MARKDOWN).read_text()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A page sets variables for its kernel."""
    for name in ("MPLBACKEND", "TQDM_DISABLE"):
        monkeypatch.setenv(name, "")


def test_a_page_shows_what_its_cells_give_and_trains_nothing(planned):
    write_notebook(planned)
    text = page(planned)
    assert "# A title" in text
    assert "42" in text
    assert LIVE in text
    assert "of another machine" not in text
    assert not (planned.root / "notebooks" / "ran").exists()
    assert "Trained here" not in text
    (picture,) = (planned.reports / PICTURES).iterdir()
    assert f"{PICTURES}/{picture.name}" in text
    html = (planned.reports / "01_transfer.html").read_text()
    assert "42" in html
    assert 'src="http' not in html  # it fetches nothing
    # A cell that fails leaves the earlier page.
    before = tree(planned.reports)
    write_notebook(planned, "print(6 * 7)\nraise ValueError('no such thing.')")
    refuses(lambda: render("transfer"), "01_transfer.ipynb", "ValueError: no such thing")
    assert tree(planned.reports) == before
    # A picture that the page does not have any more is removed with it.
    write_notebook(planned, "print('another')")
    assert "another" in page(planned)
    assert not [*(planned.reports / PICTURES).iterdir()]


def test_runs_of_ones_own_are_below_a_page_and_their_names_are_no_markup(project):
    write_notebook(project, "print('the notebook')")
    whole = make_plan(project.root, "own", arms=[LANGUAGE], tasks=["bit-xor"], seeds=1)
    fill(whole, 0.8125)
    whole.write_index()
    text = page(project)
    below = text.partition("## Trained here")[2]
    assert "**81.2**" in below
    assert "nano GPT-2" in below
    # An index may come from somebody else.
    index = project.records("own") / INDEX
    rows = json.loads(index.read_text())
    index.write_text(json.dumps([{**row, "model": SCRIPT} for row in rows]))
    assert SCRIPT not in page(project)
    assert SCRIPT not in (project.reports / "01_transfer.html").read_text()


def test_a_section_without_a_notebook_is_not_known(planned):
    write_notebook(planned)
    refuses(lambda: render("modality"), "'modality' is not known", "transfer")
