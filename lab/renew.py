"""Keep notebooks/ ready for comparison: `make notebooks`, or `python -m lab.renew [NAME ...]`.

A notebook in notebooks/ is the source of its section and carries the outputs that `pytest --nbval`
compares on every machine. They are those of tests/project, the checkout that tests run in: the
parameters as they were when this was last called, and the records of their profile `smoke`. What
is missing of these is trained. Pictures and HTML, never compared, stay out of them.

The exercises are executed too, and what each prints is folded into the answer under it, so no
number of an answer is typed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from fpt.project import project, read_params

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
PROJECT = Path(__file__).parents[1] / "tests/project"
RECORDS = Path("reports/smoke/records")
INDEX = Path("reports/smoke/index")
PRINTED = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def rewrite(path: Path, profile: str) -> None:
    """Bring a params.yaml that names `profile` into the form that DVC writes, so that
    `dvc exp run -S` changes a line. Comments inside lists are lost, as they would be then."""
    from dvc.utils.hydra import apply_overrides

    apply_overrides(path, [f"profile={profile}"])


def refresh(path: Path) -> None:
    """Execute the notebook at `path` in place, as its parameters cell says, and store it clean."""
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(path, as_version=4)
    NotebookClient(
        content,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        timeout=None,
        coalesce_streams=True,
        skip_cells_with_tag="",  # pages skip exercises
        extra_arguments=["--IPKernelApp.log_level=50"],
    ).execute()
    nbformat.write(clean(answered(content)), path)


def answered(content: Any) -> Any:
    """The executed notebook with what each exercise printed in the answer that follows it."""
    for exercise, answer in pairwise(content["cells"]):
        if "answer" in answer["metadata"].get("tags", ()):
            texts = [output["text"] for output in exercise["outputs"] if "text" in output]
            printed = "".join(texts)
            answer["source"] = PRINTED.sub(lambda _, text=printed: text, answer["source"])
            exercise["outputs"] = []
            exercise["execution_count"] = None
    return content


def clean(content: Any) -> Any:
    """The notebook with what is compared and nothing else; cleaning it again changes nothing."""
    content["metadata"] = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in content["cells"]:
        tags = cell["metadata"].get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["metadata"] = {}
                output["data"] = {"text/plain": output["data"]["text/plain"]}
    return content


def train(root: Path) -> None:
    """Train what is missing of the project at `root`, and keep in PROJECT its parameters and the
    records that its sections have, no others."""
    command = [sys.executable, "-m", "fpt", "run", "--all", "--profile", "smoke"]
    subprocess.run(command, check=True)
    indexes = [json.loads(path.read_bytes()) for path in (root / INDEX).iterdir()]
    keys = set().union(*indexes)
    shutil.rmtree(PROJECT / RECORDS)
    (PROJECT / RECORDS).mkdir()
    for path in (root / RECORDS).iterdir():
        if path.stem in keys:
            shutil.copy(path, PROJECT / RECORDS)
    shutil.copy(root / "params.yaml", PROJECT)


def main() -> None:
    checkout = project()
    rewrite(checkout.params, read_params(checkout.params)["profile"])
    with tempfile.TemporaryDirectory(prefix="fpt-") as folder:
        root = Path(shutil.copytree(PROJECT, Path(folder) / "project"))
        shutil.copy(checkout.params, root)
        rewrite(root / "params.yaml", "smoke")  # what tests train, whatever the checkout has
        # Of the training and of the kernels: nothing is read of this checkout but the package.
        os.environ |= {"FPT_ROOT": str(root), "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": folder}
        # As of `make notebooks` and of pages: the last bits of a run depend on it.
        os.environ["OMP_NUM_THREADS"] = "1"
        for name in ("FPT_BACKBONES", "FPT_CORPORA"):
            os.environ.pop(name, None)
        train(root)
        only = sys.argv[1:]
        for path in checkout.notebooks:
            if not only or path.stem in only:
                print(f"notebooks: executing {path.name}")
                refresh(path)


if __name__ == "__main__":
    main()
