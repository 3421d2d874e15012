"""A rendered notebook as a page: the conclusion first, code folded, nothing fetched."""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

RENDERS = "FPT_RENDERS"  # in the environment of a kernel that `fpt render` started
TOP = '<p class="note"><a href="#result">shown at the top of the page</a></p>'
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #f4f5f7; --line: #d8dade;
  --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181b; --soft: #22252a;
  --line: #3a3e45; --link: #8ab8f0; } }
body { font: 17px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 52rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .9rem; }
blockquote { border: 1px solid var(--line); margin: 1rem 0; padding: 0 1rem; }
.result { border-left: 4px solid var(--link); background: var(--soft); padding: .4rem 1rem; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; }
details > summary { cursor: pointer; font-size: .8rem; opacity: .75; }
.table, table { overflow-x: auto; }
.table { margin: 1rem 0 .2rem; }
table { border-collapse: collapse; font-size: 14px; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
caption span { display: block; position: sticky; left: 0; max-width: min(50rem, 92vw); }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.numbers td, .numbers thead th, .dataframe td, .dataframe thead th { text-align: right;
  white-space: nowrap; }
.numbers th:first-child { text-align: left; min-width: 9rem; }
.dataframe { display: block; overflow-x: auto; border: 0; }
.note { font-size: .85rem; opacity: .85; margin-top: 0; }
h1 code { font: inherit; }
.figure { display: block; }
img { max-width: 100%; height: auto; background: #fff; }
@media (max-width: 40rem) { .figure { overflow-x: auto; } .figure img { max-width: none;
  width: 44rem; } }
"""


def html_page(body: str, title: str) -> str:
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    colours = re.sub(r"pre \{[^}]*\}", "", light)
    colours += "@media (prefers-color-scheme: dark) {" + re.sub(r"pre \{[^}]*\}", "", dark) + "}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}{colours}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def notebook_page(content: Any, links: Mapping[str, str]) -> str:
    """The page of an executed notebook. What the cells tagged `result` show stands at the top,
    after the title and the question; `links` are those of the navigation."""
    cells = [cell for cell in content.cells if "parameters" not in _tags(cell)]
    cells = [cell for cell in cells if "injected-parameters" not in _tags(cell)]
    first, rest = cells[0], cells[1:]
    title = first.source.splitlines()[0].lstrip("# ")
    found = "".join(_outputs(cell) for cell in rest if "result" in _tags(cell))
    body = "".join(_cell(cell) for cell in rest)
    parts = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body)
    menu = " ".join(f'<a href="{html.escape(to)}">{text}</a>' for text, to in links.items())
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
        return f"<pre>{html.escape(f'{output.ename}: {output.evalue}')}</pre>\n"
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>\n"
    data = output.data
    if "text/html" in data:
        return f"{data['text/html']}\n"
    if "text/markdown" in data:
        return markdown(data["text/markdown"])
    return f"<pre>{html.escape(data.get('text/plain', ''))}</pre>\n"
