"""A rendered notebook as a page: the conclusion first, code folded, nothing fetched."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .escape import in_html

# In the environment of a kernel that `fpt render` started: that it did, and the folder in which a
# report is complete before it takes the place of the earlier one.
RENDERS, STAGED = "FPT_RENDERS", "FPT_STAGED"
TOP = '<p class="note"><a href="#result">shown at the top of the page</a></p>'
STYLE = Path(__file__).with_name("page.css")


def html_page(body: str, title: str) -> str:
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    colours = re.sub(r"pre \{[^}]*\}", "", light)
    colours += "@media (prefers-color-scheme: dark) {" + re.sub(r"pre \{[^}]*\}", "", dark) + "}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{in_html(title)}</title>\n<style>\n{STYLE.read_text()}{colours}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def notebook_page(content: Any, links: Mapping[str, str]) -> str:
    """The page of an executed notebook. What the cells tagged `result` show stands at the top,
    after the title and the question; `links` are those of the navigation."""
    hidden = {"parameters", "injected-parameters"}
    cells = [cell for cell in content.cells if hidden.isdisjoint(_tags(cell))]
    first, rest = cells[0], cells[1:]
    title = first.source.splitlines()[0].lstrip("# ")
    found = "".join(_outputs(cell) for cell in rest if "result" in _tags(cell))
    body = "".join(_cell(cell) for cell in rest)
    parts = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body)
    menu = " ".join(f'<a href="{in_html(to)}">{in_html(text)}</a>' for text, to in links.items())
    contents = " ".join(f'<a href="#{name}">{text}</a>' for name, text in parts)
    return html_page(
        f"<nav>{menu}</nav>\n{markdown(first.source)}\n"
        + (f'<section class="result" id="result">\n{found}</section>\n' if found else "")
        + f'<nav aria-label="contents">{contents}</nav>\n{body}',
        title,
    )


def markdown(text: str) -> str:
    """Markdown as HTML, with plain ids at the headings; tables and figures scroll by themselves."""
    from nbconvert.filters import markdown2html

    made = re.sub(r'<a class="anchor-link".*?</a>', "", markdown2html(text))
    made = re.sub(r'<h(\d) id="([^"]*)">', lambda it: f'<h{it[1]} id="{it[2].lower()}">', made)
    made = re.sub(r"<img [^>]*>", r'<span class="figure">\g<0></span>', made)
    return re.sub(r"<table>.*?</table>", r'<div class="table">\g<0></div>', made, flags=re.DOTALL)


def _tags(cell: Any) -> Sequence[str]:
    tags: Sequence[str] = cell.metadata.get("tags", ())
    return tags


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return markdown(cell.source)
    shown = TOP if "result" in _tags(cell) else _outputs(cell)
    if not cell.source.strip():
        return shown
    is_open = " open" if "idea" in _tags(cell) else ""
    return f"<details{is_open}><summary>code</summary>{_code(cell.source)}</details>\n{shown}"


def _code(source: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return f"<pre>{highlight(source, PythonLexer(), HtmlFormatter(nowrap=True))}</pre>"


def _outputs(cell: Any) -> str:
    return "".join(_output(it) for it in cell.get("outputs", ()))


def _output(output: Any) -> str:
    if output.output_type == "error":
        return f"<pre>{in_html(f'{output.ename}: {output.evalue}')}</pre>\n"
    if output.output_type == "stream":
        return f"<pre>{in_html(output.text)}</pre>\n"
    data = output.data
    if "text/html" in data:
        return f"{data['text/html']}\n"
    if "text/markdown" in data:
        return markdown(data["text/markdown"])
    return f"<pre>{in_html(data.get('text/plain', ''))}</pre>\n"
