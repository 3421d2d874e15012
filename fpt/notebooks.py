"""Keep notebooks/ ready for comparison: `python -m fpt.notebooks` (or `make notebooks`).

A notebook in notebooks/ is the source of its section and carries the outputs that `pytest --nbval`
compares on every machine. Only what is compared is stored, so a diff shows what changed: cells
tagged `nbval-ignore-output` (trained, timed) keep no output; pictures, never compared, stay out.
"""

from pathlib import Path
from typing import Any

from .pages import notebooks
from .report import shown

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def refresh(path: Path) -> None:
    """Execute the notebook at `path` in place, as its parameters cell says, and store it clean."""
    import nbformat
    from nbclient import NotebookClient

    from .execution import KERNEL_OPTIONS

    content = nbformat.read(path, as_version=4)
    NotebookClient(
        content,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        timeout=None,
        coalesce_streams=True,
        extra_arguments=KERNEL_OPTIONS,
    ).execute()
    nbformat.write(clean(content), path)


def clean(content: Any) -> Any:
    """The notebook with what is compared and nothing else; cleaning it again changes nothing."""
    content["metadata"] = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    for cell in content["cells"]:
        tags = cell["metadata"].get("tags", [])
        cell["metadata"] = {"tags": tags} if tags else {}
        if cell["cell_type"] != "code":
            continue
        if "nbval-ignore-output" in tags:
            cell["outputs"], cell["execution_count"] = [], None
        for output in cell["outputs"]:
            if "data" in output:
                output["metadata"] = {}
                output["data"] = {
                    kind: value
                    for kind, value in output["data"].items()
                    if not kind.startswith("image/")
                }
    return content


def main() -> None:
    for path in notebooks():
        print(f"notebooks: executing {shown(path)}")
        refresh(path)


if __name__ == "__main__":
    main()
