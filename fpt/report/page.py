"""A notebook as a page: its results first, code folded, nothing fetched."""

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# In the environment of a kernel that `fpt render` started: the folder in which a report is
# complete before it takes the place of the earlier one.
STAGED = "FPT_STAGED"
TEMPLATE = Path(__file__).with_name("page.html")
MARKDOWN = Path(__file__).with_name("page.md.j2")
STYLESHEET = Path(__file__).with_name("page.css")


def with_results_first(content: Any) -> Any:
    """An executed notebook with a cell `result`, after its title and question, that holds
    the outputs of its cells tagged `result`. In those, a note takes their place."""
    from nbformat.v4 import new_code_cell, new_output

    page = copy.deepcopy(content)
    tagged = [cell for cell in page.cells if "result" in cell.metadata.get("tags", ())]
    results = [output for cell in tagged for output in cell.outputs]
    if not results:
        return page
    note = {"text/markdown": "*Shown at the top of the page.*"}
    for cell in tagged:
        cell.outputs = [new_output("display_data", note)]
    page.cells.insert(1, new_code_cell(outputs=results, id="result"))
    return page


def page_of(content: Any, links: Mapping[str, str] | None = None) -> str:
    """The page of an executed notebook in HTML; `links` are those of the navigation."""
    # Imported here: the process that renders needs them, and `fpt --help` should not wait
    # for them.
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    light, dark = (
        HtmlFormatter(style=style).get_style_defs(".highlight")
        for style in ("default", "github-dark")
    )
    exporter = HTMLExporter(template_file=str(TEMPLATE))
    resources = {"links": links or {}, "parts": _parts, "light": light, "dark": dark}
    page = with_results_first(content)
    text: str = exporter.from_notebook_node(page, resources)[0]
    return text


def markdown_of(content: Any) -> str:
    """The page of an executed notebook in Markdown, which a Git host shows with its
    figures."""
    from nbconvert import MarkdownExporter
    from traitlets.config import Config

    # Tables and figures have a Markdown form; a host would strip the style of their HTML.
    config = Config(
        {"NbConvertBase": {"display_data_priority": ["text/markdown", "text/plain"]}}
    )
    exporter = MarkdownExporter(config=config, template_file=str(MARKDOWN))
    text: str = exporter.from_notebook_node(with_results_first(content))[0]
    # Blank lines say nothing, and templates leave many.
    lines = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))
    return f"[Index](../README.md)\n\n{lines.strip()}\n"


def text_page(text: str, links: Mapping[str, str] | None = None) -> str:
    """The page of a text in Markdown that begins with its title."""
    from nbformat.v4 import new_markdown_cell, new_notebook

    title, _, body = text.partition("\n")
    return page_of(
        new_notebook(cells=[new_markdown_cell(title), new_markdown_cell(body)]), links
    )


def _parts(page: str) -> list[tuple[str, str]]:
    """The id and the text of each heading of the second level."""
    return re.findall(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link"', page)
