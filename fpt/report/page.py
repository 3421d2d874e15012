"""A rendered notebook as a page: the conclusion first, code folded, nothing fetched."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .escape import in_html

# In the environment of a kernel that `fpt render` started: that it did, and the folder in which a
# report is complete before it takes the place of the earlier one.
RENDERS, STAGED = "FPT_RENDERS", "FPT_STAGED"
TOP = '<p class="note"><a href="#result">shown at the top of the page</a></p>'
STYLE = Path(__file__).with_name("page.css")


def html_page(body: str, title: str) -> str:
    """A page with its style and the colours of its code, for light and dark screens."""
    # Imported here: the process that renders needs it, and `fpt --help` should not wait for it.
    from pygments.formatters import HtmlFormatter

    light, dark = (
        re.sub(r"pre \{[^}]*\}", "", HtmlFormatter(style=style).get_style_defs("pre"))
        for style in ("default", "github-dark")
    )
    colours = f"{light}@media (prefers-color-scheme: dark) {{{dark}}}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{in_html(title)}</title>\n<style>\n{STYLE.read_text()}{colours}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def notebook_page(content: Any, links: Mapping[str, str]) -> str:
    """The page of an executed notebook. What the cells tagged `result` show stands at the top,
    after the title and the question; `links` are those of the navigation."""
    first, *rest = (
        cell
        for cell in content.cells
        if not _is_tagged(cell, "parameters") and not _is_tagged(cell, "injected-parameters")
    )
    body = "".join(_cell(cell) for cell in rest)
    result = "".join(_outputs(cell) for cell in rest if _is_tagged(cell, "result"))
    if result:
        result = f'<section class="result" id="result">\n{result}</section>\n'
    menu = " ".join(f'<a href="{in_html(to)}">{in_html(text)}</a>' for text, to in links.items())
    heads = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body)
    contents = " ".join(f'<a href="#{name}">{text}</a>' for name, text in heads)
    return html_page(
        f"<nav>{menu}</nav>\n{markdown(first.source)}\n{result}"
        f'<nav aria-label="contents">{contents}</nav>\n{body}',
        title=first.source.splitlines()[0].lstrip("# "),
    )


def markdown(text: str) -> str:
    """Markdown as HTML, with plain ids at the headings; tables and figures scroll by themselves."""
    from nbconvert.filters import markdown2html

    # nbconvert's ids and links at headings are for Jupyter's own pages.
    page = re.sub(r'<a class="anchor-link".*?</a>', "", markdown2html(text))
    page = re.sub(r'<h\d id="[^"]*">', lambda head: head[0].lower(), page)
    page = re.sub(r"<img [^>]*>", r'<span class="figure">\g<0></span>', page)
    return re.sub(r"<table>.*?</table>", r'<div class="table">\g<0></div>', page, flags=re.DOTALL)


def _is_tagged(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", ())


def _cell(cell: Any) -> str:
    """A cell as HTML, its code folded unless it is the idea of the notebook."""
    if cell.cell_type == "markdown":
        return markdown(cell.source)
    output = TOP if _is_tagged(cell, "result") else _outputs(cell)
    if not cell.source.strip():
        return output
    is_open = " open" if _is_tagged(cell, "idea") else ""
    return f"<details{is_open}><summary>code</summary>{_code(cell.source)}</details>\n{output}"


def _code(source: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return f"<pre>{highlight(source, PythonLexer(), HtmlFormatter(nowrap=True))}</pre>"


def _outputs(cell: Any) -> str:
    return "".join(_output(output) for output in cell.get("outputs", ()))


def _output(output: Any) -> str:
    # What a browser shows best comes first.
    data = output.get("data", {})
    if "text/html" in data:
        return f"{data['text/html']}\n"
    if "text/markdown" in data:
        return markdown(data["text/markdown"])
    text = output.get("text", data.get("text/plain", ""))
    if output.output_type == "error":
        text = f"{output.ename}: {output.evalue}"
    return f"<pre>{in_html(text)}</pre>\n"
