"""The cells of a notebook, and how a page looks."""

import html
from pathlib import Path

from ..files import FptError, read_json

RENDERS = "FPT_RENDERS"  # in the environment of a kernel that `fpt render` started

# A page of our own: nbconvert's is 300 kB and asks four outside hosts for scripts.
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: 0; padding: .6rem .8rem; overflow-x: auto; }
.highlight { background: #f6f8fa; border-radius: 4px; margin: .6rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-size: 14px; display: block;
  overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .7rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.anchor-link { display: none; }
img { max-width: 100%; }
.jp-OutputArea-output { overflow-x: auto; }
"""


def read_cells(path: Path) -> list[tuple[str, str]]:
    """Type and source of each cell of a notebook; FptError if it cannot be read or is damaged."""
    try:
        return [(it["cell_type"], "".join(it["source"])) for it in read_json(path)["cells"]]
    except (KeyError, TypeError) as error:
        raise FptError(f"{path} is damaged: it has no cells of a notebook; restore it.") from error


def html_page(body: str, title: str) -> str:
    from pygments.formatters import HtmlFormatter

    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}{colours}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
