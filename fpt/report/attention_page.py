"""One page on which a reader looks at attention maps (paper section 3.5): pick task,
backbone, example, layer and head, and see them before and after training. The page needs no
network."""

import base64
from pathlib import Path
from string import Template
from typing import Any

import torch

from ..analysis.attention import maps, needed
from ..analysis.study import Study, section
from ..errors import FptError
from ..files import write_atomic
from ..project import project
from ..records import Record
from ..sections.arms import label
from ..tasks import Batch
from ..training.kept import trained_model
from ..training.model import Model, assemble
from .escape import in_html, in_script

CPU = torch.device("cpu")
EXAMPLES = 6
BYTES = 1 << 19  # of the maps of one run, at most, unless one example has more


def write(profile: str) -> Path:
    """Write reports/<profile>/attention.html: of each arm and task of the section
    `attention`, the first run whose parameters were kept. FptError if there is none."""
    study = section("attention", profile)
    records = study.records()
    # One run for each arm and task: the others differ in their seed alone.
    trained: dict[tuple[str, str], Record] = {}
    for run in study.runs:
        record = records.get(run.key)
        if record is not None and study.store.parameters(record) is not None:
            trained.setdefault((run.task, run.arm), record)
    if not trained:
        raise FptError(
            f"Profile {profile!r} has no trained model of section 'attention': fpt run "
            "attention."
        )
    runs = [_run(study, task, arm, record) for (task, arm), record in trained.items()]
    page = Template(Path(__file__).with_name("attention.html").read_text(encoding="utf-8"))
    text = page.substitute(profile=in_html(profile), data=in_script(runs))
    path = project().reports / profile / "attention.html"
    write_atomic(path, text.encode())
    return path


def _run(study: Study, task: str, arm: str, record: Record) -> dict[str, Any]:
    """A run as the page reads it: its examples and, before and after training, their
    maps."""
    after: Any = trained_model(record, study.store)
    before, _, _ = assemble([record.spec], after.task, CPU)
    config = after.backbone.gpt2.config
    size = config.n_layer * config.n_head * after.task.length**2
    # Maps grow with the square of the length; the page has to load in a browser.
    count = min(EXAMPLES, max(1, 2 * BYTES // size))
    batch = next(after.task.eval_batches("test", count, CPU, count))
    bits = {1.0: "1", float(after.task.zero): "0"}  # else it is hidden
    return {
        "task": study.title(task),
        "model": label(arm),
        "layers": config.n_layer,
        "heads": config.n_head,
        "tokens": [
            ["".join(bits.get(value, "?") for value in token) for token in sequence]
            for sequence in batch.inputs[0].tolist()
        ],
        "needed": needed(after.task, batch).argmax(-1).tolist(),
        "before": {"text": _packed(before, batch)},
        "after": {"text": _packed(after, batch)},
    }


def _packed(model: Model, batch: Batch) -> str:
    """The maps as bytes in base64: example, layer, head, and the lower triangle row by
    row."""
    stacked = torch.stack(maps(model, batch), 1)  # (N, layers, heads, T, T)
    rows, columns = torch.tril_indices(*stacked.shape[-2:])
    # A byte for each weight: nobody sees a finer grey.
    levels = (stacked[..., rows, columns] * 255).round().to(torch.uint8)
    return base64.b64encode(levels.numpy().tobytes()).decode()
