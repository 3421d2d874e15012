"""How a page's notebook is executed, by papermill. Imported when there is one to execute."""

from pathlib import Path
from typing import Any

import papermill
from nbclient.exceptions import DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines

from .pages import RENDERS

KERNEL_OPTIONS = [
    # A kernel announces that it talks over local sockets, each time.
    "--IPKernelApp.log_level=50",
    # Imports and figures make so many objects that Python, as it is, looks for unused ones among
    # all of torch's a thousand times: a tenth of a page's time.
    "--IPKernelApp.exec_lines=import gc; gc.set_threshold(20_000, 20, 100)",
]
WRITE = f"--IPKernelApp.exec_lines=import os; os.environ[{RENDERS!r}] = '1'"


class SavedAtEnd(NBClientEngine):
    """Papermill's own engine writes the notebook, pictures included, twice for every cell; this one
    once, when all are executed, one failed, or the kernel died."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
        nb_man.output_path, path = None, nb_man.output_path
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.output_path = path


papermill_engines.register("saved at end", SavedAtEnd)


def execute(source: Path, executed: Path, profile: str) -> str | None:
    """Write the notebook `source`, executed for `profile`, to `executed`, and let it write its
    part of the report; returns why that ended before the last cell, None if it did not."""
    try:
        papermill.execute_notebook(
            str(source),
            str(executed),
            parameters={"profile": profile},
            engine_name="saved at end",
            kernel_name="python3",
            progress_bar=False,
            extra_arguments=[*KERNEL_OPTIONS, WRITE],
            shutdown_kernel="immediate",  # nothing is left to wait for
        )
    except papermill.PapermillExecutionError as error:
        return f"in cell [{error.exec_count}] with {error.ename}: {error.evalue}"
    except DeadKernelError:
        return "because its kernel died (out of memory?)"
    return None
