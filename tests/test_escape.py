"""One hostile text as the name of every task, the label of every arm, the device and the note of
every record: on each page it is read as a text."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt
from matplotlib.figure import Figure
from nbconvert.filters import markdown2html
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from fpt.analysis.study import section
from fpt.project import project
from fpt.records import Store
from fpt.report import attention_page, conclude, results_table, show_figure
from fpt.report.escape import in_html, in_markdown, in_script, prose_in_html, prose_in_markdown
from fpt.report.index import index
from fpt.report.page import page_of, text_page
from fpt.sections import arms

PROJECT = Path(__file__).parent / "project"
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


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The reports of the committed runs of `smoke`, all of whose names are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    content = yaml.safe_load(project().params.read_text())
    smoke = content["smoke"]
    names = {name: f"{name} {HOSTILE}" for name in smoke["tasks"]}
    smoke["tasks"] = {
        names[name]: {"name": name, **(block or {})} for name, block in smoke["tasks"].items()
    }
    for block in (block for blocks in smoke["sections"].values() for block in blocks):
        block["tasks"] = [names[name] for name in block["tasks"]]
    attention = smoke["sections"]["attention"][0]
    attention.update(tasks=attention["tasks"][:1], arms=["fpt"])
    for settings in smoke["arms"].values():
        if isinstance(settings.get("lr"), dict):
            settings["lr"] = {names[name]: lr for name, lr in settings["lr"].items()}
    (root / "params.yaml").write_text(yaml.safe_dump(content))
    records = root / "reports" / "smoke" / "records"
    shutil.copytree(PROJECT / "reports" / "smoke" / "records", records)
    store = Store(records)
    for key in sorted(store.keys()):
        record = store.read(key)
        environment = record.environment | {"device": HOSTILE}
        hostile = replace(record, environment=environment, notes=[HOSTILE])
        store.write(hostile, store.parameters(record))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FPT_ROOT", str(root))
        for name, own in list(arms.ARMS.items()):
            patch.setitem(arms.ARMS, name, replace(own, label=f"{own.label} {HOSTILE}"))
        yield root / "reports" / "smoke"


@pytest.fixture
def study(reports):
    return section("transfer", "smoke")


def cells_of_rows(page):
    """The numbers of cells that the rows of all tables have."""
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    return {len(re.findall(r"<t[dh]", row)) for row in rows}


def test_the_index_and_the_appendix(reports):
    index("smoke")
    for name in ("index.html", "appendix.html"):
        check_read_as_text((reports / name).read_text())
    check_read_as_text(COMMONMARK.render((reports / "README.md").read_text()))
    page = (reports / "appendix.html").read_text()
    text = Reader(page).text
    assert f"on {ON_A_LINE} (" in text  # the device
    assert f"Notes: {ON_A_LINE}" in text
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


def test_the_page_of_attention_maps(reports):
    page = attention_page.write("smoke").read_text()
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    assert "<" not in scripts[0]
    assert Reader(page).active == []
    assert all(HOSTILE in run["task"] and HOSTILE in run["model"] for run in json.loads(scripts[0]))


@pytest.mark.parametrize("text", [HOSTILE, "a|b", "`", "a\nb", "[1](2)", "<!--", "\\", "$x$ $y$"])
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
