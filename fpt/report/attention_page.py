"""One page on which a reader looks at attention maps (paper section 3.5): pick task, backbone,
example, layer and head, and see them before and after training. The page needs no network."""

import base64
from pathlib import Path
from string import Template
from typing import Any

import torch

from ..analysis.attention import maps, needed
from ..analysis.study import Study, section
from ..files import REPORTS, FptError, write_atomic
from ..sections.arms import label
from ..tasks import Batch
from ..training.kept import trained_model
from ..training.model import Model, assemble
from .escape import in_html, in_script

EXAMPLES = 6
BYTES = 1 << 19  # of the maps of one run, at most, unless one example has more


def write(profile: str) -> Path:
    """Write reports/<profile>/attention.html: of each arm and task of the section `attention`, the
    first run whose parameters were kept. FptError if there is none."""
    study = section("attention", profile)
    present = study.records()
    kept: dict[tuple[str, str], Any] = {}
    for run in study.runs:
        record = present.get(run.key)
        if record is not None and study.store.parameters(record) is not None:
            kept.setdefault((run.task, run.arm), record)
    if not kept:
        raise FptError(
            f"Profile {profile!r} has no trained model of section 'attention': fpt run attention."
        )
    shown = [_shown(study, task, arm, record) for (task, arm), record in kept.items()]
    page = Template(Path(__file__).with_name("attention.html").read_text(encoding="utf-8"))
    text = page.substitute(profile=in_html(profile), data=in_script(shown))
    path = REPORTS / profile / "attention.html"
    write_atomic(path, text.encode())
    return path


def _shown(study: Study, task: str, arm: str, record: Any) -> dict[str, Any]:
    """A run as the page reads it: its examples and, before and after training, their maps."""
    after: Any = trained_model(record, study.store)
    before, _, _ = assemble([record.spec], after.task, torch.device("cpu"))
    backbone, length = after.backbone.gpt2.config, after.task.length
    layers, heads = backbone.n_layer, backbone.n_head
    count = min(EXAMPLES, max(1, 2 * BYTES // (layers * heads * length**2)))
    batch = next(after.task.eval_batches("test", count, torch.device("cpu"), count))
    bits = {1.0: "1", float(after.task.zero): "0"}  # else it is hidden
    tokens = [
        ["".join(bits.get(it, "?") for it in token) for token in sequence]
        for sequence in batch.inputs[0].tolist()
    ]
    return {
        "task": study.title(task),
        "model": label(arm),
        "layers": layers,
        "heads": heads,
        "tokens": tokens,
        "needed": needed(after.task, batch).argmax(-1).tolist(),
        "before": {"text": _packed(before, batch)},
        "after": {"text": _packed(after, batch)},
    }


def _packed(model: Model, batch: Batch) -> str:
    """The maps as bytes in base64: example, layer, head, and the lower triangle row by row."""
    stacked = torch.stack(maps(model, batch), 1)  # (N, layers, heads, T, T)
    rows, columns = torch.tril_indices(*stacked.shape[-2:])
    levels = (stacked[..., rows, columns] * 255).round().to(torch.uint8)
    return base64.b64encode(levels.numpy().tobytes()).decode()
