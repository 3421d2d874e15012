"""One hostile text as the name of every task, the label of every arm, the device and the note of
every record: on each page it is read as a text."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from made import make_record, make_study
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from nbconvert.filters import markdown2html
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fpt.report import conclude, results_table, show_figure
from fpt.report.escape import in_html, in_markdown, in_script, prose_in_html, prose_in_markdown
from fpt.report.index import appendix_paragraphs
from fpt.report.page import page_of, text_page
from fpt.sections import arms

HOSTILE = (
    "</script><img src=x onerror=alert(1)><!-- & &amp; | `a` *b* __c__ ~~d~~ $e$ \\| "
    "[f](javascript:g) ![h](i.png) \"j' \n\n# k\n- l <b>m</b>"
)
ON_A_LINE = " ".join(HOSTILE.split())
COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])
RENDERERS = (markdown2html, COMMONMARK.render)  # that of our pages, and that of a Git host
MARKUP = {"img", "script", "b", "em", "strong", "s", "del", "code"}  # what it would be


class Reader(HTMLParser):
    """What a browser makes of a page: its tags, active parts (handlers and addresses) and text."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.active = []
        self.texts = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            address = name in ("href", "src") and re.match("javascript:|x$|i.png$", value)
            if name.startswith("on") or address:
                self.active.append(value)
            if name == "alt":
                self.texts.append(value)

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())


def check_read_as_text(page):
    reader = Reader(page)
    assert reader.active == []
    assert ON_A_LINE in reader.text
    assert not re.search(r"<b>m|<!-- &", page)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Two arms on one task; everything that can have a name has a hostile one."""
    for name in ("fpt", "random"):
        own = replace(arms.ARMS[name], label=f"{name} {HOSTILE}")
        monkeypatch.setitem(arms.ARMS, name, own)
    task = {f"digits {HOSTILE}": {"name": "digits"}}
    study = make_study(tmp_path, arms=("fpt", "random"), tasks=task)
    for run in study.runs:
        record = make_record(run, 0.9)
        environment = record.environment | {"device": HOSTILE}
        study.store.write(replace(record, environment=environment, notes=[HOSTILE]))
    return study


def cells_of_rows(page):
    """The numbers of cells that the rows of all tables have."""
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    return {len(re.findall(r"<t[dh]", row)) for row in rows}


# A merged record comes from another machine: its device once stood in the appendix, tags and all.
def test_the_appendix(study):
    text = "\n\n".join(appendix_paragraphs([study]))
    for page in (text_page(text), COMMONMARK.render(text)):
        check_read_as_text(page)
        read = Reader(page).text
        assert f"on {ON_A_LINE} (" in read  # the device
        assert f"Notes: {ON_A_LINE}" in read
        assert cells_of_rows(page) == {9}  # cells stay cells


def test_a_table(study):
    table = results_table(study, study.declared.comparisons[0])
    table = replace(table, title=HOSTILE, caption=f"One of `nano`. {HOSTILE}", notes=HOSTILE)
    check_read_as_text(table._repr_html_())
    for render in RENDERERS:
        page = render(table.markdown())
        check_read_as_text(page)
        assert cells_of_rows(page) == {1 + len(table.texts.columns)}
        assert "<code>nano</code>" in page


def test_the_page_of_a_notebook(study):
    picture = show_figure(study, "results", Figure((2, 1)), HOSTILE)
    outputs = [
        new_output("display_data", {"text/markdown": conclude(study).text}),
        new_output("display_data", {"text/html": picture._repr_html_()}),
        new_output("display_data", {"text/plain": HOSTILE}),
        new_output("stream", text=HOSTILE),
        new_output("error", ename="E", evalue=HOSTILE),
    ]
    for output in outputs:
        cells = [new_markdown_cell("# T"), new_code_cell(outputs=[output])]
        check_read_as_text(page_of(new_notebook(cells=cells)))
    check_read_as_text(text_page("# T", {HOSTILE: "index.html"}))


@pytest.mark.parametrize("text", [HOSTILE, "a|b", "$x$ $y$"])
def test_each_function_gives_the_text_back(text):
    plain = " ".join(text.split())
    assert Reader(f'<p title="{in_html(text)}">{in_html(text)}</p>').text == plain
    assert Reader(prose_in_html(f"a {text}")).tags in ([], ["code"])
    for render in RENDERERS:
        table = Reader(render(f"| x | y |\n|---|---|\n| {in_markdown(text)} | z |\n"))
        assert table.text == " ".join(f"x y {plain} z".split())
        assert MARKUP.isdisjoint(table.tags)
        prose = Reader(render(prose_in_markdown(f"a {text}")))
        assert (MARKUP - {"code"}).isdisjoint(prose.tags)
    assert json.loads(in_script([text])) == [text]
    assert set("<>&").isdisjoint(in_script([text]))
