"""Renew what is committed of params.yaml and of notebooks: `make notebooks`, or
`python -m lab.renew [NAME ...]`.

params.yaml is brought into the form that DVC writes, tests/project gets it with the tier
`smoke`, and each tier that is shown or checked gets the list of its runs. Then notebooks are
executed on the committed records, with their pictures.
"""

import base64
import io
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from fpt.files import write_json
from fpt.plan import plan
from fpt.project import OWN, TIERS, project, read_params
from fpt.records import INDEX

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
PROJECT = Path(__file__).parents[1] / "tests/project"


def rewrite(path: Path, tier: str) -> None:
    """Bring a params.yaml that names `tier` into the form that DVC writes, so that
    `dvc exp run -S` changes a line. Comments inside lists are lost, as they would be then."""
    from dvc.utils.hydra import apply_overrides

    apply_overrides(path, [f"tier={tier}"])


def write_plans() -> None:
    """Write index.json of each tier but `own`: the runs that it plans. Any other run belongs
    to `own`."""
    for name in TIERS:
        whole = plan(name)
        if name != OWN and whole.runs:
            path = project().records(name) / INDEX
            path.unlink(missing_ok=True)
            write_json(path, whole.rows()[name])


def refresh(path: Path) -> None:
    """Execute the notebook at `path` in place, and store it clean."""
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(path, as_version=4)
    NotebookClient(
        content,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        timeout=None,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=50"],
    ).execute()
    nbformat.write(clean(content), path)


def clean(content: Any) -> Any:
    """The notebook with what a reader sees and nothing else; cleaning it again changes nothing."""
    content["metadata"] = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in content["cells"]:
        tags = cell["metadata"].get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
        for output in cell.get("outputs", ()):
            if "data" in output:
                output["metadata"] = {}
            picture = output.get("data", {}).get("image/png")
            if picture:
                small = with_few_colours(base64.b64decode(picture))
                output["data"]["image/png"] = base64.b64encode(small).decode()
    return content


def with_few_colours(image: bytes, colours: int = 64) -> bytes:
    """A PNG without transparency and with few colours, so that it is small."""
    opened = Image.open(io.BytesIO(image))
    if opened.mode == "P":
        return image
    content = io.BytesIO()
    drawn = opened.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    drawn.save(content, "PNG", optimize=True)
    return content.getvalue()


def main() -> None:
    checkout = project()
    rewrite(checkout.params, read_params(checkout.params)["tier"])
    shutil.copy(checkout.params, PROJECT)
    rewrite(PROJECT / "params.yaml", "smoke")  # what tests train, whatever the checkout has
    write_plans()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    only = sys.argv[1:]
    for path in checkout.notebooks:
        if not only or path.stem in only:
            print(f"notebooks: executing {path.name}", flush=True)
            refresh(path)


if __name__ == "__main__":
    main()
