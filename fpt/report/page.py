"""A notebook as a page: code folded, nothing fetched; in HTML, the conclusion first."""

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


def page_of(content: Any, links: Mapping[str, str] | None = None) -> str:
    """The page of an executed notebook. What the cells tagged `result` show stands at the
    top, after the title and the question; `links` are those of the navigation."""
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
    text: str = exporter.from_notebook_node(content, resources)[0]
    return text


def markdown_of(content: Any) -> str:
    """The page of an executed notebook in Markdown, which a Git host shows with its
    figures. What the cells tagged `result` show follows the title and the question, as on
    the page in HTML."""
    from nbconvert import MarkdownExporter
    from nbformat.v4 import new_code_cell, new_output
    from traitlets.config import Config

    # Tables and figures have a Markdown form; a host would strip the style of their HTML.
    config = Config(
        {"NbConvertBase": {"display_data_priority": ["text/markdown", "text/plain"]}}
    )
    exporter = MarkdownExporter(config=config, template_file=str(MARKDOWN))
    page = copy.deepcopy(content)
    title, *cells = page.cells
    results = []
    for cell in cells:
        if "result" in cell.metadata.get("tags", ()):
            results.append(new_code_cell(outputs=cell.outputs))
            note = {"text/markdown": "*Shown at the top of the page.*"}
            cell.outputs = [new_output("display_data", note)]
    page.cells = [title, *results, *cells]
    text: str = exporter.from_notebook_node(page)[0]
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
