"""Executed notebooks and their pages.

`render` turns notebooks/NN_<section>.ipynb into reports/<profile>/notebooks/NN_<section>.ipynb and
.html. Executed here, and only here, a notebook writes its tables and figures (`fpt.report.show`).
"""

import base64
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..files import REPORTS, FptError, check_names, notebooks, read_json
from .page import RENDERS, notebook_page

QUESTION = "which-profile"  # tag of the cell that shows the profile in the end


def notebook(section: str) -> Path:
    """The notebook of `section`, notebooks/NN_<section>.ipynb."""
    found = {path.stem[3:]: path for path in notebooks()}
    check_names("section", [section], found)
    return found[section]


def render(section: str, profile: str) -> Path:
    """Execute the notebook of `section` for `profile`; returns the path of the HTML page.

    What was executed is kept and shown also when a cell fails, which raises FptError. So does a
    notebook that is damaged or does not take its profile, and then no page is written.
    """
    import nbformat

    source = notebook(section)
    asking = with_question(read_source(source))
    folder = REPORTS / profile / "notebooks"
    executed, page = folder / source.name, folder / f"{source.stem}.html"
    for kind in ("tables", "figures"):  # nothing of an earlier page stays
        shutil.rmtree(REPORTS / profile / kind / section, ignore_errors=True)
        (REPORTS / profile / kind / section).mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="fpt-") as scratch:
        failure = execute(asking, Path(scratch) / source.name, profile)
        content = strip(nbformat.read(Path(scratch) / source.name, as_version=4))
    seen = pop_answer(content)
    if not failure and seen != repr(profile):
        raise FptError(
            f"Notebook {source.name} ended with profile {seen}, not {profile!r}, so no page was "
            "written: only its cell tagged `parameters` may set `profile`, before it is used."
        )
    nbformat.write(content, executed)
    text = linked(notebook_page(content, neighbours(source)), REPORTS / profile / "figures")
    page.write_text(text, encoding="utf-8")
    if failure:
        shown = page.relative_to(REPORTS.parent).as_posix()
        raise FptError(f"Notebook {source.name} failed {failure}; see {shown} up to there.")
    return page


def read_source(path: Path) -> Any:
    """The notebook at `path`. FptError if it is damaged, or if its tag `parameters` is lost or
    stands elsewhere: papermill would set the profile above the cell that sets its default."""
    import nbformat

    read_json(path)
    try:
        content = nbformat.v4.upgrade(nbformat.read(path, as_version=4))
        nbformat.validate(content)
    except Exception as error:  # of many kinds, by which part of the notebook is missing
        reason = str(error).split("\n")[0].rstrip(".")
        raise FptError(f"{path} is not a notebook ({reason}); restore it.") from error
    tagged = [cell for cell in content.cells if "parameters" in cell.metadata.get("tags", ())]
    setting = [
        cell
        for cell in tagged
        if cell.cell_type == "code" and re.search(r"^profile\b.*=", cell.source, re.MULTILINE)
    ]
    if len(tagged) != 1 or not setting:
        shown = " and ".join(repr(cell.source.split("\n")[0]) for cell in tagged) or "none"
        raise FptError(
            f"Notebook {path.name} needs exactly one cell tagged `parameters`, the one that sets "
            f"`profile`, and has {shown}: restore the tags of its cells."
        )
    return content


def with_question(content: Any) -> Any:
    """The notebook with a last cell that shows the profile, for `pop_answer`."""
    from nbformat.v4 import new_code_cell

    content.cells.append(new_code_cell("profile", metadata={"tags": [QUESTION]}))
    return content


def pop_answer(content: Any) -> str | None:
    """Take the cell of `with_question` out of an executed notebook; returns what it shows, None if
    it was not reached."""
    (cell,) = (cell for cell in content.cells if QUESTION in cell.metadata.get("tags", ()))
    content.cells.remove(cell)
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    return shown[-1] if shown else None


def execute(content: Any, executed: Path, profile: str) -> str | None:
    """Write the notebook `content`, executed by papermill for `profile`, to `executed`; returns why
    that ended before the last cell, None if it did not."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    # The kernel inherits the environment. Data and weights are fetched by the stages before, never
    # by a page; and a backend of the caller's choice would keep figures out of the page.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("MPLBACKEND", None)
    os.environ[RENDERS] = os.environ["TQDM_DISABLE"] = "1"
    try:
        papermill.execute_notebook(
            content,
            # papermill formats the path with the parameters.
            str(executed).replace("{", "{{").replace("}", "}}"),
            parameters={"profile": profile},
            kernel_name="python3",
            progress_bar=False,
            shutdown_kernel="immediate",  # nothing is left to tidy up
            coalesce_streams=True,  # what one cell prints is one output, however it arrives
            extra_arguments=["--IPKernelApp.log_level=50"],
        )
    except papermill.PapermillExecutionError as error:
        return f"in cell [{error.exec_count}] with {error.ename}: {error.evalue}"
    except DeadKernelError:
        return "because its kernel died (out of memory?)"
    finally:
        del os.environ[RENDERS]
    return None


def neighbours(source: Path) -> Mapping[str, str]:
    """The links of a page: the index, and the pages before and after it."""
    pages = notebooks()
    at = pages.index(source)
    links = {"index": "../index.html"}
    for text, index in (("previous", at - 1), ("next", at + 1)):
        if 0 <= index < len(pages):
            links[f"{text}: {pages[index].stem[3:]}"] = f"{pages[index].stem}.html"
    return links


def strip(content: Any) -> Any:
    """The notebook without times and random ids, so that an unchanged result is an unchanged file,
    and without the plain text of what is there in HTML."""
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


def linked(page: str, figures: Path) -> str:
    """The page with links to the figures that lie beside it, instead of copies of them."""
    for path in figures.glob("*/*.png"):
        copy = base64.b64encode(path.read_bytes()).decode()
        target = f"../figures/{path.parent.name}/{path.name}"
        page = page.replace(f"data:image/png;base64,{copy}", target)
    return page
