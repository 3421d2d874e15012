"""One hostile text as the name of every task, the label of every arm, the device and the note of
every record: on each page it is read as a text."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from fpt.analysis.study import Study, section
from fpt.files import PARAMS
from fpt.records import Store
from fpt.report import attention_page, conclude, results_table, show_figure
from fpt.report.escape import in_html, in_markdown, in_script, prose_in_html, prose_in_markdown
from fpt.report.index import index
from fpt.report.page import html_page, markdown, notebook_page
from fpt.sections import arms

PROJECT = Path(__file__).parent / "project"
HOSTILE = (
    "</script><img src=x onerror=alert(1)><!-- & &amp; | `a` *b* __c__ ~~d~~ $e$ \\| "
    "[f](javascript:g) ![h](i.png) \"j' \n\n# k\n- l <b>m</b>"
)
ON_A_LINE = " ".join(HOSTILE.split())
COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKUP = {"img", "script", "b", "em", "strong", "s", "del", "code"}  # what it would be


class Reader(HTMLParser):
    """What a browser makes of a page: tags by their number, handlers and addresses, the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.active: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        addresses = [value for name, value in attrs if name in ("href", "src")]
        self.active += [name for name, _ in attrs if name.startswith("on")]
        self.active += [it for it in addresses if re.match("javascript:|x$|i.png$", it)]
        self.texts += [value for name, value in attrs if name == "alt"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def check_read_as_text(page: str) -> None:
    read = Reader(page)
    assert read.active == []
    assert ON_A_LINE in read.text
    assert not re.search(r"<b>m|<!-- &", page)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The reports of the committed runs of `smoke`, all of whose names are hostile."""
    root = tmp_path_factory.mktemp("hostile")
    content = yaml.safe_load(PARAMS.read_text())
    smoke = content["smoke"]
    names = {name: f"{name} {HOSTILE}" for name in smoke["tasks"]}
    smoke["tasks"] = {
        names[name]: {"name": name, **(given or {})} for name, given in smoke["tasks"].items()
    }
    for block in (block for blocks in smoke["sections"].values() for block in blocks):
        block["tasks"] = [names[name] for name in block["tasks"]]
    smoke["sections"]["attention"][0]["tasks"] = smoke["sections"]["attention"][0]["tasks"][:1]
    smoke["sections"]["attention"][0]["arms"] = ["fpt"]
    for given in smoke["arms"].values():
        if isinstance(given.get("lr"), dict):
            given["lr"] = {names[name]: lr for name, lr in given["lr"].items()}
    (root / "params.yaml").write_text(yaml.safe_dump(content))
    records = root / "smoke" / "records"
    shutil.copytree(PROJECT / "reports" / "smoke" / "records", records)
    store = Store(records)
    for key in sorted(store.keys()):
        record = store.read(key)
        assert record is not None
        environment = record.environment | {"device": HOSTILE}
        store.write(
            replace(record, environment=environment, notes=[HOSTILE]), store.parameters(record)
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpt.files.PARAMS", root / "params.yaml")
        for place in ("records", "analysis.study", "report.attention_page", "report.index"):
            patch.setattr(f"fpt.{place}.REPORTS", root)
        for name, own in list(arms.ARMS.items()):
            patch.setitem(arms.ARMS, name, replace(own, label=f"{own.label} {HOSTILE}"))
        arms.arm.cache_clear()
        yield root / "smoke"
    arms.arm.cache_clear()


@pytest.fixture
def study(reports: Path) -> Study:
    return section("transfer", "smoke")


@pytest.mark.parametrize("name", ["index.html", "appendix.html", "README.md"])
def test_the_index_and_the_appendix(reports: Path, name: str) -> None:
    if not (reports / name).exists():
        index("smoke")
    text = (reports / name).read_text()
    page = COMMONMARK.render(text) if name == "README.md" else text
    check_read_as_text(page)
    if name == "appendix.html":
        shown = Reader(page).text
        assert f"on {ON_A_LINE} (" in shown  # the device
        assert f"Notes: {ON_A_LINE}" in shown
        rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
        assert {row.count("<t") - row.count("<tr") for row in rows} == {9}  # cells stay cells


def test_a_table(study: Study) -> None:
    table = results_table(study, study.declared.comparisons[0])
    table = replace(table, title=HOSTILE, caption=f"One of `nano`. {HOSTILE}", notes=HOSTILE)
    check_read_as_text(table._repr_html_())
    for page in (markdown(table.markdown()), COMMONMARK.render(table.markdown())):
        check_read_as_text(page)
        rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
        cells = 1 + len(table.shown.columns)
        assert {row.count("<t") - row.count("<tr") for row in rows} == {cells}
        assert "<code>nano</code>" in page


def test_the_page_of_a_notebook(study: Study) -> None:
    outputs = [
        ("text/markdown", conclude(study).text),
        ("text/html", show_figure(study, "results", Figure((2, 1)), HOSTILE)._repr_html_()),
        ("text/plain", HOSTILE),
    ]
    cells = [nbformat.v4.new_markdown_cell("# T")]
    for kind, text in outputs:
        shown = nbformat.v4.new_output("display_data", {kind: text})
        cells.append(nbformat.v4.new_code_cell(outputs=[shown]))
    for kind, values in (
        ("stream", {"text": HOSTILE}),
        ("error", {"ename": "E", "evalue": HOSTILE}),
    ):
        cells.append(nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output(kind, **values)]))
    for cell in cells[1:]:
        page = notebook_page(nbformat.v4.new_notebook(cells=[cells[0], cell]), {"i": "i.html"})
        check_read_as_text(page)
    check_read_as_text(notebook_page(nbformat.v4.new_notebook(cells=cells[:1]), {HOSTILE: "i"}))
    check_read_as_text(html_page("", HOSTILE))
    assert ON_A_LINE in Reader(markdown(conclude(study).text)).text


def test_the_page_of_attention_maps(reports: Path) -> None:
    page = attention_page.write("smoke").read_text()
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    assert "<" not in scripts[0]
    assert Reader(page).active == []
    for run in json.loads(scripts[0]):
        assert HOSTILE in run["task"]
        assert HOSTILE in run["model"]


@pytest.mark.parametrize("text", [HOSTILE, "a|b", "`", "a\nb", "[1](2)", "<!--", "\\", "$x$ $y$"])
def test_each_function_gives_the_text_back(text: str) -> None:
    plain = " ".join(text.split())
    assert Reader(f'<p title="{in_html(text)}">{in_html(text)}</p>').text == plain
    assert Reader(prose_in_html(f"a {text}")).tags in ([], ["code"])
    cell = in_markdown(text)
    for page in (markdown, COMMONMARK.render):
        table = page(f"| x | y |\n|---|---|\n| {cell} | z |\n")
        assert Reader(table).text == " ".join(f"x y {plain} z".split())
        assert MARKUP.isdisjoint(Reader(table).tags)
        assert MARKUP - {"code"} & {*Reader(page(prose_in_markdown(f"a {text}"))).tags} == set()
    assert json.loads(in_script([text])) == [text]
    assert not set("<>&") & {*in_script([text])}
