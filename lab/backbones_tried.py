"""The architectures that people use most, each tried as a backbone.

`python -m lab.backbones_tried` writes docs/backbones-tried.md, of the architectures in
backbones_tried.yaml. Each is a tiny model with random weights, saved by transformers in a folder,
loaded from it by transformers and as a backbone here.
"""

import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from fpt.backbones import Backbone, backbone
from fpt.backbones.base import is_norm
from fpt.backbones.generic.skeleton import class_of, hidden_states, quiet
from fpt.errors import FptError
from fpt.files import read_yaml, write_atomic
from fpt.project import project
from fpt.report.table import markdown_table
from fpt.spec import RunSpec, canonical
from fpt.tasks import get_task
from fpt.training.model import Model, assemble
from fpt.training.packing import PackedParameters

TRIED: Mapping[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
CPU = torch.device("cpu")
LENGTH = 10
TASK = get_task("bit-xor", n=LENGTH // 2)
ROUNDING = 1e-4  # of a difference in float32, in standard deviations


@dataclass(frozen=True)
class Row:
    """What became of one architecture: why it was refused, or its largest differences in standard
    deviations by what was compared, and the groups whose gradients are zero or not finite."""

    kind: str
    refusal: str = ""
    differences: Mapping[str, float] = field(default_factory=dict)
    causal: bool = False
    groups: tuple[str, ...] = ()
    without_gradient: frozenset[str] = frozenset()

    @property
    def holds(self) -> bool:
        """Whether it gives transformers' numbers, masks padding and trains, or is refused."""
        is_exact = all(difference <= ROUNDING for difference in self.differences.values())
        return is_exact and not self.without_gradient


def config_of(kind: str) -> Any:
    """The configuration of a tiny model of a type of transformers."""
    config_class = transformers.CONFIG_MAPPING[kind]
    aliases: Mapping[str, str] = config_class.attribute_map
    names = {*config_class().to_dict(), *aliases}
    sizes = {name: value for name, value in TRIED["sizes"].items() if name in names}
    # Of two names of one setting, the configuration's own.
    sizes = {name: value for name, value in sizes.items() if aliases.get(name) not in sizes}
    return config_class(**{**sizes, **TRIED["of_type"].get(kind, {})})


def save(kind: str, folder: Path) -> Any:
    """A model of transformers with random weights far from the initial ones, so that each of them
    matters, as transformers loads it from `folder`, where it is saved."""
    config = config_of(kind)
    _, model_class = class_of({"model_type": kind, **config.to_dict()})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = model_class(config)
        for part in model.modules():
            gain = float(is_norm(part) or "Norm" in type(part).__name__)
            for name, parameter in part.named_parameters(recurse=False):
                noise = 0.3 * torch.randn(parameter.shape)
                # bfloat16, to which every backbone is rounded, holds them exactly
                parameter.copy_((noise + gain * (name == "weight")).bfloat16())
    with quiet():
        model.save_pretrained(folder)
        return model_class.from_pretrained(folder, dtype=torch.float32).eval()


def run_of(architecture: Backbone, groups: Iterable[str], seed: int = 0) -> RunSpec:
    """A run on a pretrained backbone that trains `groups`."""
    return RunSpec(
        data=canonical(TASK.identity),
        backbone=architecture.name,
        weights=architecture.name,
        init="pretrained",
        trainable=tuple(sorted(groups)),
        dropout=0.0,
        lr=0.01,
        batch=4,
        steps=4,
        eval_every=2,
        seed=seed,
    )


@cache
def row_of(kind: str) -> Row:
    """The row of a type of model."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / kind
        theirs = save(kind, folder)
        try:
            architecture = backbone(str(folder))
        except FptError as error:
            return Row(kind, refusal=str(error))
        run = run_of(architecture, architecture.groups)
        ours, rows, _ = assemble([run], TASK, CPU, architecture)
        differences = compared(ours.eval(), theirs) | {"packs": of_pack(architecture)}
        without_gradient = groups_without_gradient(ours, rows)
        return Row(
            kind, "", differences, architecture.causal, architecture.groups, without_gradient
        )


def vectors(width: int) -> tuple[Tensor, Tensor]:
    """Random token vectors (3, T, width), and a mask (3, T) that pads all but the first."""
    x = torch.randn(3, LENGTH, width, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([LENGTH, LENGTH - 3, LENGTH - 6])
    return x, torch.arange(LENGTH) < lengths[:, None]


@torch.no_grad()
def compared(ours: Model, theirs: Any) -> dict[str, float]:
    """The largest difference from the hidden states of transformers, with and without padding, and
    the largest influence of padding, in standard deviations."""
    x, mask = vectors(ours.width)
    moved = x if ours.positions is None else x + ours.positions[0, :LENGTH]
    full = hidden_states(theirs, x, torch.ones_like(mask))
    hidden = ours.backbone(moved, mask)
    padded = (hidden - hidden_states(theirs, x, mask))[mask]
    alone = [
        ours.backbone(moved[row : row + 1, :length], None)[0] - hidden[row, :length]
        for row, length in enumerate(mask.sum(1).tolist())
    ]
    differences = {"transformers": [ours.backbone(moved, None) - full, padded], "padding": alone}
    return {name: largest(tensors) / full.std().item() for name, tensors in differences.items()}


def largest(differences: Iterable[Tensor]) -> float:
    return max(difference.abs().max().item() for difference in differences)


def of_pack(architecture: Backbone) -> float:
    """The largest difference of the gradients of two packed runs from those of each alone, in
    standard deviations: norms with other values in each run, sequences of different lengths."""
    norms = {"layernorm"} & {*architecture.groups} or {"input"}
    runs = [run_of(architecture, norms, seed) for seed in (0, 1)]
    together = gradients(runs, architecture)
    alone = torch.cat([gradients([run], architecture) for run in runs])
    return largest([together - alone]) / (together.std().item() or 1.0)


def gradients(runs: Sequence[RunSpec], architecture: Backbone) -> Tensor:
    """The gradients of packed runs, (K, P)."""
    model, rows, _ = assemble(runs, TASK, CPU, architecture)
    for values, run in zip(rows.values, runs, strict=True):
        draw = torch.Generator().manual_seed(run.seed)
        values += 0.1 * torch.randn(values.shape, generator=draw)
    x, mask = vectors(model.width)
    masks = mask.repeat(len(runs), 1)
    hidden = model.backbone(x.repeat(len(runs), 1, 1), masks)[masks]
    assert rows.grads is not None
    if hidden.requires_grad:  # else there are no norms to train
        rows.differentiate(hidden.square().sum())
    return rows.grads.clone()


def groups_without_gradient(model: Model, rows: PackedParameters) -> frozenset[str]:
    """The trained groups whose gradients in a training step are all zero or not finite."""
    model.train()
    batch = TASK.train_batch([0], 0, 4, CPU)
    rows.differentiate(TASK.losses(model(batch), batch.targets).mean())
    moved = set()
    for part, columns in rows.parts():
        gradient = rows.grads[:, columns]
        if gradient.isfinite().all() and gradient.any():
            moved.add(part.group)
    return frozenset({part.group for part in rows.slices} - moved)


def page() -> str:
    """docs/backbones-tried.md."""
    rows = {name: row_of(kind) for name, kind in TRIED["families"].items()}
    taken = [cells(name, row) for name, row in rows.items() if not row.refusal]
    refused = [
        {"architecture": name, "type": f"`{row.kind}`", "why": reason(row)}
        for name, row in rows.items()
        if row.refusal
    ]
    return PAGE_TEXT.format(
        version=transformers.__version__,
        count=len(rows),
        taken_count=len(taken),
        refused_count=len(refused),
        taken=markdown_table(taken),
        refused=markdown_table(refused),
    )


def cells(name: str, row: Row) -> dict[str, str]:
    """The cells of an architecture that is taken, by column."""
    assert row.holds, row
    return {
        "architecture": name,
        "type": f"`{row.kind}`",
        "attention": "causal" if row.causal else "both ways",
        **{name: f"{difference:.1g}" for name, difference in row.differences.items()},
        "trainable groups": ", ".join(row.groups),
    }


def reason(row: Row) -> str:
    """Why an architecture is refused, from the sentence."""
    return row.refusal.partition("(")[2].rpartition("); what fits")[0]


PAGE_TEXT = """# Backbones that were tried

{count} architectures that people use most, as transformers {version} has them: {taken_count} are
taken, and {refused_count} are refused before training, each in one sentence. Each was a tiny model
with random weights, saved by transformers and loaded twice: by transformers, and as a backbone.
`python -m lab.backbones_tried` tries them again and writes this page. A ViT, which takes images
instead of token vectors, is compared by the tests.

Any other architecture is tried when you name it, by one forward pass with random weights. It is
refused unless its hidden states are those of the whole model, unless neither padding nor the other
sequences of a batch have influence on them, and unless its gradients are finite.

## Taken

Differences are the largest of any hidden state or gradient, in standard deviations. Rounding in
float32 leaves some 1e-6:

* **transformers**: from the hidden states of transformers, on sequences of equal and of different
  lengths.
* **padding**: of a padded sequence from the same sequence alone.
* **packs**: of the gradients of two runs trained as one pack from those of each run alone.

In a training step every trainable group that is listed has a gradient.

{taken}

## Refused

{refused}
"""


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    write_atomic(project().root / "docs/backbones-tried.md", page().encode())
