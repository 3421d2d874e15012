"""One page on which a reader looks at attention maps (paper section 3.5): pick task,
backbone, example, layer and head, and see them before and after training. The page needs no
network."""

import base64
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from ...analysis.attention import maps, needed, strongest_head
from ...analysis.study import Study, section
from ...errors import FptError
from ...files import write_atomic
from ...project import project
from ...records import Record
from ...sections.arms import label
from ...training.kept import trained_model
from ...training.model import assemble
from ..escape import in_html, in_script

CPU = torch.device("cpu")
EXAMPLES = 6
BYTES = 1 << 19  # of the maps of one run, at most, unless one example has more


def write(profile: str) -> Path:
    """Write reports/<profile>/attention.html: of each arm and task of the section
    `attention`, the first run whose parameters were kept. The page names the arms whose
    backbones' weights are not here. FptError if there is nothing to show."""
    study = section("attention", profile)
    records = study.records()
    # One run for each arm and task: the others differ in their seed alone.
    trained: dict[tuple[str, str], Record] = {}
    for run in study.runs:
        record = records.get(run.key)
        if record is not None and study.store.parameters(record) is not None:
            trained.setdefault((run.task, run.arm), record)
    if not trained:
        remedy = (
            "train it with fpt run attention" if study.runs else "choose another profile"
        )
        raise FptError(
            f"Profile {profile!r} has no trained model of section 'attention'; {remedy}."
        )
    runs = []
    absent: dict[str, FptError] = {}  # why an arm is not shown
    for (task, arm), record in trained.items():
        try:
            runs.append(_run(study, task, arm, record))
        except FptError as error:
            absent[label(arm)] = error
    if not runs:
        raise next(iter(absent.values()))
    names = " and ".join(absent)
    reason = f"Not shown, since the frozen weights are not on this machine: {names}."
    page = Template(Path(__file__).with_name("attention.html").read_text(encoding="utf-8"))
    text = page.substitute(
        profile=in_html(profile),
        absent=in_html(reason if absent else ""),
        data=in_script(runs),
    )
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
    trained = maps(after, batch)
    tokens = needed(after.task, batch)
    layer, head = strongest_head(trained, tokens)  # at which the page opens
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
        "opens": {"layer": layer, "head": head},
        "needed": tokens.argmax(-1).tolist(),
        "before": {"text": _packed(maps(before, batch))},
        "after": {"text": _packed(trained)},
    }


def _packed(layers: list[Tensor]) -> str:
    """The maps as bytes in base64: example, layer, head, and the lower triangle row by
    row."""
    stacked = torch.stack(layers, 1)  # (N, layers, heads, T, T)
    rows, columns = torch.tril_indices(*stacked.shape[-2:])
    # A byte for each weight: nobody sees a finer grey.
    levels = (stacked[..., rows, columns] * 255).round().to(torch.uint8)
    return base64.b64encode(levels.numpy().tobytes()).decode()
