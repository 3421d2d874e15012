"""Executed notebooks and their pages.

`render` turns notebooks/NN_<section>.ipynb into reports/<profile>/notebooks/NN_<section>.ipynb
and .html. Executed here, and only here, a notebook writes tables/<section>/, figures/<section>/,
curves/<section>.csv, metrics/<section>.json and runs/<section>.json; the last says how many runs
are expected and present. `fpt.report.index` puts the first page together from that.
"""

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from ..files import REPORTS, FptError, notebooks
from .pages import html_page, read_cells

# What the libraries here load where it is installed, and no notebook needs: checks of addresses
# and durations on web pages, and a file system on clusters. It takes longer than all the rest.
NEEDLESS = ("rfc3987_syntax", "isoduration", "pyarrow")


def notebook(section: str) -> Path:
    """The notebook of `section`, notebooks/NN_<section>.ipynb."""
    found = {path.stem[3:]: path for path in notebooks()}
    if section not in found:
        raise FptError(f"There is no section {section!r}; the sections are {', '.join(found)}.")
    return found[section]


def render(section: str, profile: str) -> Path:
    """Execute the notebook of `section` for `profile`; returns the path of the HTML page.

    What was executed is kept and shown also when a cell fails, which raises FptError.
    """
    with without(NEEDLESS):
        import nbformat

        from .execution import execute

    source = notebook(section)
    read_cells(source)  # FptError if it is damaged
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
    beside = Thread(target=import_module, args=("nbconvert",))  # for `to_html`
    beside.start()
    try:
        failure = execute(source, executed, profile)
    finally:
        beside.join()  # at the end of the process, its import would fail
    content = strip(nbformat.read(executed, as_version=4))
    nbformat.write(content, executed)
    figures = REPORTS / profile / "figures" / section
    page.write_text(linked(to_html(content, title=source.stem), figures), encoding="utf-8")
    if failure:
        from .index import index

        index(profile)
        raise FptError(f"Notebook {source.name} failed {failure}; see {shown(page)} up to there.")
    return page


@contextmanager
def without(names: tuple[str, ...]) -> Iterator[None]:
    """As if these modules were not installed, as far as they are not imported yet."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def strip(content: Any) -> Any:
    """The notebook without times and random ids, so that an unchanged result is an unchanged file,
    and without the plain text of what is there in HTML: that is a seventh of the file."""
    content.metadata.pop("papermill", None)
    for cell in content.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data.pop("text/plain", None)
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


def shown(path: Path) -> str:
    """`path` as a reader of the checkout knows it."""
    return path.relative_to(REPORTS.parent).as_posix()
