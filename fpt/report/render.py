"""Executed notebooks and their pages.

`render` turns notebooks/NN_<section>.ipynb into
reports/<profile>/notebooks/NN_<section>.ipynb, .html and .md. Executed here, and only here,
a notebook writes its tables and figures (`fpt.report.show`). All of it is written beside
the report first, and takes the place of the earlier files when it is complete: whatever
goes wrong before, be it a full disk, leaves them as they were.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import FptError, check_names
from ..files import lock, read_json, write_atomic
from ..project import PROFILES, project, read_params
from .page import STAGED, markdown_of, page_of

PROFILE_IS_SET = re.compile(r"^\s*(for\s+)?profile\b[^=(]*(=[^=]|\bin\b)", re.MULTILINE)
TRAINING = re.compile("## Training$", re.MULTILINE)  # the heading above the first results
# Cells of a page whose profile plans no runs of its section (`fpt.report.lent`), and their
# tags: a page shows what cells tagged `result` say at its top.
LENT = {"conclusion": ["result"], "results": []}
# Tags of the cell that sets the profile, and of the one that papermill adds after it.
OF_PARAMETERS = {"parameters", "injected-parameters"}


def render(section: str, profile: str) -> Path:
    """Execute the notebook of `section` for `profile`; returns the path of the HTML page.

    FptError if a cell fails; what was executed is shown up to there, beside an earlier
    page. So it is if the notebook is damaged or does not take its profile, and then no page
    is written.
    """
    import nbformat

    paths = {path.stem[3:]: path for path in project().notebooks}
    check_names("section", [section], paths)
    source = paths[section]
    content = read_source(source)
    planned = profiles_with_runs(section)
    # No profile plans runs of a page that only reads those of other pages.
    if planned and profile not in planned:
        content.cells = without_results(content.cells, section, profile, planned)
    report = project().reports / profile
    page = report / "notebooks" / f"{source.stem}.html"
    failed_page = page.with_name(f"{source.stem}.failed.html")
    with staging(report, section) as staged:
        executed = staged / "notebooks" / source.name
        failure = execute(content, executed, profile, staged)
        content = without_times(nbformat.read(executed, as_version=4))
        # Where no section lends a run, the line above these cells is all there is to say.
        content.cells = [
            cell
            for cell in content.cells
            if failure or cell.get("outputs") or not cell.id.startswith("lent-")
        ]
        text = page_of(content, neighbours(source))
        # An earlier page that is complete is worth more than a new one that is not.
        if failure:
            place = failed_page if page.exists() else page
            write_atomic(place, text.encode())
            name = place.relative_to(project().root).as_posix()
            raise FptError(
                f"Notebook {source.name} failed {failure}; see {name} up to there."
            )
        write_atomic(executed, f"{nbformat.writes(content).rstrip()}\n".encode())
        write_atomic(executed.with_suffix(".html"), text.encode())
        write_atomic(executed.with_suffix(".md"), markdown_of(content).encode())
        publish(staged, report, section)
        failed_page.unlink(missing_ok=True)
    return page


def profiles_with_runs(section: str) -> list[str]:
    """The profiles that plan runs of a section."""
    # Read as it stands: `fpt.config` would import torch, which this process does without.
    params = read_params(project().params)
    blocks = {name: params.get(name, {}).get("sections", {}) for name in PROFILES}
    return [name for name in PROFILES if blocks[name].get(section)]


def without_results(
    cells: list[Any], section: str, profile: str, others: Sequence[str]
) -> list[Any]:
    """The cells of a notebook up to its training, a line that says that the profile plans
    no runs of the section, though `others` do, and cells that show what the runs of other
    sections say about its question."""
    import nbformat

    starts = [index for index, cell in enumerate(cells) if TRAINING.match(cell.source)]
    names = ", ".join(f"`{other}`" for other in others)
    line = (
        f"## Results\n\nThe profile `{profile}` plans no runs of its own for this section. "
        "What follows, if anything, are runs of other sections. These profiles plan some: "
        f"{names}."
    )
    before = cells[: starts[0]] if starts else cells
    lent = [
        nbformat.v4.new_code_cell(
            f'from fpt.report import lent\n\nlent.{name}("{section}", profile)',
            id=f"lent-{name}",
            metadata={"tags": tags},
        )
        for name, tags in LENT.items()
    ]
    return [*before, nbformat.v4.new_markdown_cell(line, id="no-runs"), *lent]


@contextmanager
def staging(report: Path, section: str) -> Iterator[Path]:
    """A folder for a page of a report, on its disk, while no other process renders the
    same."""
    staged = report / f".{section}.rendering"
    with lock(report / f".{section}.lock", wait=True):
        shutil.rmtree(staged, ignore_errors=True)  # of a process that was killed
        try:
            (staged / "notebooks").mkdir(parents=True)
            yield staged
        except OSError as error:
            raise FptError(
                f"Cannot write in {report}: {error.strerror}; the report is as it was."
            ) from error
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def publish(staged: Path, report: Path, section: str) -> None:
    """Put a page, its tables and figures in the place of the earlier ones. Each file is
    moved as a whole, which needs no space on the disk, and the page last."""
    own = [Path("figures", section), Path("tables", section)]
    new: list[Path] = []
    for folder in (*own, Path("notebooks")):
        (report / folder).mkdir(parents=True, exist_ok=True)
        new += sorted(path.relative_to(staged) for path in (staged / folder).glob("*"))
    for name in new:
        os.replace(staged / name, report / name)
    # Only then does what the earlier page alone had go: a page never shows a figure that is
    # gone.
    for folder in own:
        for path in (report / folder).iterdir():
            if path.relative_to(report) not in new:
                path.unlink()


def read_source(path: Path) -> Any:
    """The notebook at `path`. FptError if it is damaged, or if anything but its one cell
    tagged `parameters` sets the profile: a page would show another profile than its own."""
    import nbformat

    read_json(path)
    try:
        content = nbformat.v4.upgrade(nbformat.read(path, as_version=4))
        nbformat.validate(content)
    except Exception as error:  # of many kinds, by which part of the notebook is missing
        reason = str(error).split("\n")[0].rstrip(".")
        raise FptError(f"{path} is not a notebook ({reason}); restore it.") from error
    cells = list(enumerate(content.cells))
    tagged = [
        index for index, cell in cells if OF_PARAMETERS & set(cell.metadata.get("tags", ()))
    ]
    setting = [
        index
        for index, cell in cells
        if cell.cell_type == "code" and PROFILE_IS_SET.search(cell.source)
    ]
    if len(tagged) != 1 or tagged != setting:
        raise FptError(
            f"Notebook {path.name} needs exactly one cell tagged `parameters`, which alone "
            f"sets `profile`, but of its cells {tagged} have such tags and {setting} set "
            "it: restore the tags of its cells."
        )
    return content


def execute(content: Any, executed: Path, profile: str, staged: Path) -> str | None:
    """Write the notebook `content`, executed by papermill for `profile`, to `executed`, and
    its tables and figures into the folder `staged`; returns why that ended before the last
    cell, None if it did not."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    # The kernel inherits the environment. Data and weights are fetched by the stages
    # before, never by a page; and a backend of the caller's choice would keep figures out
    # of the page.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.pop("MPLBACKEND", None)
    os.environ["TQDM_DISABLE"] = "1"
    os.environ[STAGED] = str(staged)
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
        del os.environ[STAGED]
    return None


def title_of(path: Path) -> str:
    """The title of a notebook, which is its first line."""
    lines = "".join(read_json(path)["cells"][0]["source"]).splitlines()
    return lines[0].removeprefix("# ")


def neighbours(source: Path) -> Mapping[str, str]:
    """The links of a page: the index, and the pages before and after it."""
    stems = ["", *(path.stem for path in project().notebooks), ""]
    index = stems.index(source.stem)
    around = {"previous": stems[index - 1], "next": stems[index + 1]}
    pages = {
        f"{text}: {title_of(source.with_name(f'{stem}.ipynb'))}": f"{stem}.html"
        for text, stem in around.items()
        if stem
    }
    return {"index": "../index.html", **pages}


def without_times(content: Any) -> Any:
    """The notebook without times and random ids, so that an unchanged result is an
    unchanged file."""
    content.metadata.pop("papermill", None)
    for cell in content.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if "injected-parameters" in cell.metadata.get("tags", ()):
            cell["id"] = "injected-parameters"
    return content
