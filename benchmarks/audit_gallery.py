"""The audits of the gallery at full size: verdict, arms and minutes of each, on all cores.

    python benchmarks/audit_gallery.py            # each audit has 30 minutes at most, so 4 hours
    python benchmarks/audit_gallery.py digits     # the data sets that are named

Executes the notebooks of examples/ and stores their outputs in place. The verdicts are written to
results/audit_gallery.json and to docs/own-data.md as each notebook ends. Call it again if it was
stopped: an audit goes on with the runs that it has, and one that is done is read. Nothing else
should run on the machine, because an audit plans its steps by what they cost at its start.
"""

import argparse
import base64
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from blocks import RESULTS, ROOT, write
from nbclient import NotebookClient
from PIL import Image

from fpt.auditing.arms import CONTROLS, NO_TRANSFORMER, PROBE
from fpt.names import MODELS

GALLERY = ("digits", "gunpoint", "symbols", "forecasting")
# Appended to a notebook while it is executed.
REPORT = "import json; print(json.dumps({name: audit.to_dict() for name, audit in audits.items()}))"
Audits = dict[str, dict[str, Any]]  # the numbers of an audit by backbone


def shrink_image(data: dict[str, Any]) -> None:
    """Give the figure of an output few colours, since it is committed."""
    if "image/png" in data:
        image = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
        content = io.BytesIO()
        image.quantize(256, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
        data["image/png"] = base64.b64encode(content.getvalue()).decode()


def executed(path: Path) -> Audits:
    """Execute the notebook, store its outputs, and return its audits."""
    notebook = nbformat.read(path, as_version=4)
    report = nbformat.v4.new_code_cell(REPORT)
    notebook.cells.append(report)
    settings = {"metadata": {"path": str(path.parent)}}
    # An audit takes half an hour, so no cell has a time limit.
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources=settings,
        coalesce_streams=True,
        record_timing=False,
    )
    client.execute()
    notebook.cells.remove(report)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shrink_image(output.get("data", {}))
    nbformat.write(notebook, path)
    return json.loads(report.outputs[0]["text"])


def kept(audit: Mapping[str, Any]) -> dict[str, Any]:
    """What the results keep of an audit: not its single runs and curves."""
    names = ("verdict", "reason", "advice", "cuts", "facts", "table")
    return {name: audit[name] for name in names}


def line(name: str, backbone: str, audit: Mapping[str, Any]) -> str:
    """A row of the table, with the best control, the linear probe of the pretrained features and
    the best arm without a transformer. A verdict has a star if more steps may change it, as its
    advice says then."""
    facts = audit["facts"]
    scores = {row["arm"]: row["score"] for row in audit["table"]}
    labels = {row["arm"]: row["label"] for row in audit["table"]}
    gaps = {row["arm"]: row["most"] for row in audit["table"]}
    star = "\\*" if gaps.get(PROBE, 0) < 0 else ""
    model = next((row.name for row in MODELS.values() if row.backbone == backbone), backbone)
    columns = [name, model, f"**{audit['verdict']}**{star}"]
    columns.append(f"{scores['pretrained']:.3f}")
    for arms in (CONTROLS, (PROBE,), NO_TRANSFORMER):
        trained = [arm for arm in arms if arm in scores]
        best = max(trained, key=lambda arm: scores[arm], default=None)
        name_of_best = f" ({labels[best]})" if best and len(arms) > 1 else ""
        columns.append("–" if best is None else f"{scores[best]:.3f}{name_of_best}")
    columns += [f"{facts['steps']}", f"{facts['draws']}", f"{facts['minutes_taken']:.0f}"]
    return f"| {' | '.join(columns)} |"


def table(results: Mapping[str, Audits]) -> list[str]:
    """The table of docs/own-data.md."""
    head = "| data | model | verdict | pretrained | best control | probe of its features "
    return [
        f"{head}| best without a transformer | steps | draws | minutes |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(
            line(name, backbone, audit)
            for name, audits in results.items()
            for backbone, audit in audits.items()
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *GALLERY], metavar="NAME")
    names = parser.parse_args().names or GALLERY
    # Of the kernels: no bars among the outputs, and one thread for each pack.
    os.environ |= {"FPT_EXAMPLES": "full", "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    path = RESULTS / "audit_gallery.json"
    results: dict[str, Audits] = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        print(f"{name}: at most 30 minutes for each backbone", flush=True)
        audits = executed(ROOT / "examples" / f"{name}.ipynb")
        results[name] = {backbone: kept(audit) for backbone, audit in audits.items()}
        results = {done: results[done] for done in GALLERY if done in results}
        write("gallery", results, table(results))
        print(*table({name: results[name]}), sep="\n", flush=True)


if __name__ == "__main__":
    main()
