"""Executed notebooks, their pages, and the report index.

`render` turns notebooks/NN_<section>.ipynb into reports/<profile>/notebooks/NN_<section>.ipynb
and .html; `index` links what reports/<profile> holds. A notebook itself writes tables/<section>/,
figures/<section>/, curves/<section>.csv, metrics/<section>.json and runs/<section>.json; the last
says how many runs are expected and present.
"""

import base64
import html
import json
import os
import sys
from pathlib import Path
from typing import Any

from .errors import FptError
from .files import read_json
from .paths import NOTEBOOKS, REPORTS

# A page of our own: nbconvert's is 300 kB and asks four outside hosts for scripts.
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: 0; padding: .6rem .8rem; overflow-x: auto; }
.highlight { background: #f6f8fa; border-radius: 4px; margin: .6rem 0; }
table { border-collapse: collapse; margin: .8rem 0; font-size: 14px; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .7rem; text-align: right; }
img { max-width: 100%; }
.jp-OutputArea-output { overflow-x: auto; }
"""

# A kernel announces that it talks over local sockets, each time.
QUIET_KERNEL = ["--IPKernelApp.log_level=50"]


def notebook(section: str) -> Path:
    """The notebook of `section`, notebooks/NN_<section>.ipynb."""
    found = {path.stem[3:]: path for path in notebooks()}
    if section not in found:
        raise FptError(f"There is no section {section!r}; the sections are {', '.join(found)}.")
    return found[section]


def notebooks() -> list[Path]:
    """Every notebook, in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def render(section: str, profile: str) -> Path:
    """Execute the notebook of `section` for `profile`; returns the path of the HTML page.

    What was executed is kept and shown also when a cell fails, which raises FptError.
    """
    # The library that checks a notebook's form would compile a grammar for identifiers of web
    # pages, which no notebook has; that takes longer than all other imports here.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError

    source = notebook(section)
    folder = REPORTS / profile / "notebooks"
    executed, page = folder / source.name, folder / f"{source.stem}.html"
    for kind in ("tables", "figures"):
        (REPORTS / profile / kind / section).mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    # The kernel inherits the environment. Data and weights are fetched by the stages before, never
    # by a page; and a backend of the caller's choice would keep figures out of the page.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("MPLBACKEND", None)
    failure = None
    try:
        papermill.execute_notebook(
            str(source),
            str(executed),
            parameters={"profile": profile},
            kernel_name="python3",
            progress_bar=False,
            extra_arguments=QUIET_KERNEL,
        )
    except papermill.PapermillExecutionError as error:
        failure = f"in cell [{error.exec_count}] with {error.ename}: {error.evalue}"
    except DeadKernelError:
        failure = "because its kernel died (out of memory?)"
    content = strip_timing(nbformat.read(executed, as_version=4))
    nbformat.write(content, executed)
    figures = REPORTS / profile / "figures" / section
    page.write_text(linked(to_html(content, title=source.stem), figures), encoding="utf-8")
    if failure:
        index(profile)
        raise FptError(f"Notebook {source.name} failed {failure}; see {shown(page)} up to there.")
    return page


def strip_timing(content: Any) -> Any:
    """The notebook without times and random ids: an unchanged result is an unchanged file."""
    content.metadata.pop("papermill", None)
    for cell in content.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
    return content


def to_html(content: Any, title: str) -> str:
    """A page with its figures embedded, no scripts, nothing fetched."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(
        template_name="basic",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    return html_page(exporter.from_notebook_node(content)[0], title)


def linked(page: str, figures: Path) -> str:
    """The page with links to the figures that lie beside it, instead of copies of them."""
    for path in figures.glob("*.png"):
        copy = base64.b64encode(path.read_bytes()).decode()
        page = page.replace(
            f"data:image/png;base64,{copy}", f"../figures/{figures.name}/{path.name}"
        )
    return page


def html_page(body: str, title: str) -> str:
    from pygments.formatters import HtmlFormatter

    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}{colours}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def index(profile: str) -> Path:
    """Write reports/<profile>/README.md and index.html from what lies there; returns the latter."""
    from nbconvert.filters import markdown2html

    folder = REPORTS / profile
    folder.mkdir(parents=True, exist_ok=True)
    text = index_markdown(profile)
    (folder / "README.md").write_text(text, encoding="utf-8")
    page = folder / "index.html"
    page.write_text(html_page(markdown2html(text), f"fpt: {profile}"), encoding="utf-8")
    return page


def index_markdown(profile: str) -> str:
    """The index as Markdown: a line per section, then its tables and figures."""
    folder = REPORTS / profile
    head = folder / "headline.md"
    lines = [
        f"# Report of profile `{profile}`",
        "",
        *([head.read_text(encoding="utf-8")] if head.exists() else []),
        "| section | runs present | page | notebook |",
        "|---|---|---|---|",
    ]
    details = []
    for path in notebooks():
        section = path.stem[3:]
        page, executed = (folder / "notebooks" / f"{path.stem}.{end}" for end in ("html", "ipynb"))
        runs = folder / "runs" / f"{section}.json"
        state = count(runs) if runs.exists() else "failed" if page.exists() else "not rendered"
        lines.append(
            f"| {title(path)} | {state} | {link(page, folder)} | {link(executed, folder)} |"
        )
        made = [
            f"- {kind}: " + ", ".join(link(file, folder) for file in files)
            for kind in ("tables", "figures")
            if (files := sorted(p for p in (folder / kind / section).glob("*") if p.is_file()))
        ]
        if made:
            details += ["", f"## {title(path)}", "", *made]
    return "\n".join(lines + details) + "\n"


def count(runs: Path) -> str:
    """`present of expected`, from a section's runs.json."""
    summary = read_json(runs)
    return f"{summary['present']} of {summary['expected']}"


def title(path: Path) -> str:
    """The first heading of a notebook."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith("# "):
                return line[2:].strip()
    return path.stem


def link(path: Path, folder: Path) -> str:
    return f"[{path.name}]({path.relative_to(folder).as_posix()})" if path.exists() else "-"


def shown(path: Path) -> str:
    """`path` as a reader of the checkout knows it."""
    return path.relative_to(REPORTS.parent).as_posix()
