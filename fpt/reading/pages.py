"""A page for each section: its notebook, executed by papermill on the records that are
here, as Markdown with pictures and as HTML.

Cells that train while a reader watches are shown without being run, because their last
digits depend on the processor.
"""

import os
import re
from pathlib import Path
from typing import Any

from ..errors import FptError, check_names
from ..files import lock, write_atomic
from ..project import TIERS, project
from .results import results

LIVE = "live"  # the tag of cells that train
STYLE = re.compile(r"<style.*?</style>", re.DOTALL)  # a Git host would print it
# A cell below the last one, on the page of a section that has runs of its own here.
MADE_HERE = 'from fpt.reading.made import made_here\n\nmade_here("{section}")'


def render(section: str) -> Path:
    """Execute the notebook of a section, and write reports/NN_<section>.md, its pictures
    and its HTML; returns the path of the first. FptError if a cell fails; the earlier page
    stays then."""
    paths = {path.stem[3:]: path for path in project().notebooks}
    check_names("section", [section], paths)
    source = paths[section]
    reports = project().reports
    reports.mkdir(parents=True, exist_ok=True)
    with lock(project().cache / "rendering" / f"{section}.lock", wait=True):
        content = executed(source, section)
        write_page(content, source.stem, reports)
    return reports / f"{source.stem}.md"


def has_own_runs(section: str) -> bool:
    """Whether tiers of params.yaml have trained runs of a section here."""
    runs = results(role=None)
    is_shown = (runs["section"] == section) & (runs["role"] == "reported")
    return bool(runs.loc[is_shown, "experiment"].isin(TIERS).any())


def executed(source: Path, section: str) -> Any:
    """The notebook with the outputs of its cells. FptError if one fails, and why."""
    import nbformat
    import papermill

    content = nbformat.read(source, as_version=4)
    if has_own_runs(section):
        content.cells += [
            nbformat.v4.new_markdown_cell("## Trained here", id="trained-here"),
            nbformat.v4.new_code_cell(MADE_HERE.format(section=section), id="made-here"),
        ]
    # The kernel inherits the environment. Data and weights are fetched by the stages
    # before, never by a page; and a backend of the caller's choice would keep figures out
    # of it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("MPLBACKEND", None)
    os.environ["TQDM_DISABLE"] = "1"
    try:
        return papermill.execute_notebook(
            content,
            None,
            cwd=str(source.parent),
            kernel_name="python3",
            progress_bar=False,
            skip_cells_with_tag=LIVE,
            shutdown_kernel="immediate",
            coalesce_streams=True,
            extra_arguments=["--IPKernelApp.log_level=50"],
        )
    except papermill.PapermillExecutionError as error:
        raise FptError(
            f"Notebook {source.name} failed in cell [{error.exec_count}] with "
            f"{error.ename}: {error.evalue}"
        ) from error


def write_page(content: Any, stem: str, reports: Path) -> None:
    """The page of an executed notebook: its text last, so that it never shows a picture
    that is not there yet."""
    from nbconvert import HTMLExporter, MarkdownExporter
    from traitlets.config import Config

    for cell in content.cells:
        if LIVE in cell.metadata.get("tags", ()):
            cell.outputs, cell.execution_count = [], None
        for output in cell.get("outputs", ()):
            html = output.get("data", {}).get("text/html")
            if html:
                output["data"]["text/html"] = STYLE.sub("", html)
    settings = {
        "NbConvertBase": {
            "display_data_priority": [
                "text/markdown",
                "image/png",
                "text/html",
                "text/plain",
            ]
        }
    }
    resources = {"unique_key": stem, "output_files_dir": f"figures/{stem}"}
    text, extracted = MarkdownExporter(config=Config(settings)).from_notebook_node(
        content, resources
    )
    # Without a network: pages have no formulas and no widgets.
    offline = {"HTMLExporter": {"mathjax_url": "", "require_js_url": "", "jquery_url": ""}}
    page, _ = HTMLExporter(config=Config(offline)).from_notebook_node(content)
    figures = reports / "figures" / stem
    figures.mkdir(parents=True, exist_ok=True)
    names = set()
    for name, picture in extracted["outputs"].items():
        write_atomic(reports / name, picture)
        names.add(Path(name).name)
    write_atomic(reports / f"{stem}.html", page.encode())
    lines = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    write_atomic(reports / f"{stem}.md", f"[Index](README.md)\n\n{lines}\n".encode())
    for path in figures.glob("*.png"):
        if path.name not in names:
            path.unlink()
