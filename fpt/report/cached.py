"""What training the output net on cached features costs, and where the paper's numbers for it are.

The probe (`fpt.training.probe`) sends every example through the body once and then passes over the
features. The paper gives a speed-up per epoch after the first (section 3.9), and two accuracies of
the same arm (conflict E).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.claim import Evidence, Measured, Test
from ..analysis.stats import difference
from ..backbones import backbone
from ..paper import reader as paper
from ..records import Record
from ..sections.section import Section
from ..spec import RunSpec
from ..training.flops import forward_flops
from ..training.train import task_of

PROBES = {"probe": "output", "random-probe": "random-output"}  # and the same on a budget of steps
# Table, row and, where a column is no task, the task and the column. T10 caches features.
PRINTED = {
    "probe": (("T10", "output"), ("T12", "fpt", "listops", "layers-12"), ("T15", "output")),
    "random-probe": (("T12", "random", "listops", "layers-12"), ("T20", "output")),
}


@dataclass(frozen=True)
class Epochs:
    """Seconds of the epoch through the body and of one over its cached features, and the number of
    those; of one run."""

    first: float
    cached: float
    count: int

    @property
    def speedup(self) -> float:
        return self.first / self.cached


def epochs(records: Sequence[Record]) -> list[Epochs]:
    """Of each run of a probe that is done."""
    return [
        Epochs(
            record.cost["first_epoch_seconds"],
            record.cost["cached_epoch_seconds"],
            int(record.cost["epochs"]),
        )
        for record in records
        if record.status == "done"
    ]


def probes(section: Section, arm: str, task: str) -> list[Record]:
    """The records of a probe on a task, in the order of seeds; none where one is missing."""
    if (arm, task) not in section.complete():
        return []
    present = section.records()
    keys = [run.spec.key for run in section.runs if (run.arm, run.task) == (arm, task)]
    return [present[key] for key in dict.fromkeys(keys)]


def flops_ratio(spec: RunSpec) -> float:
    """FLOPs of the body's forward pass on one example over those of a step of the output net on its
    features (forward and gradient by the weights): the speed-up where computing is all that takes
    time. Only the last positions are read, so it grows with the sequence."""
    task, body = task_of(spec), backbone(spec.backbone)
    outputs = task.answers * task.classes
    return forward_flops(body, task.length) * task.length / (4 * body.width * outputs * task.reads)


def printed(arm: str, task: str) -> dict[str, float]:
    """The paper's accuracies of the output net alone, in percent, by table."""
    found = {}
    for name, row, *place in PRINTED[arm]:
        known, column = place or (task, task)
        cell = paper.table(name).cells.get((row, column)) if known == task else None
        if cell is not None and cell.value is not None:
            found[name] = cell.value
    return found


def printed_speedup() -> tuple[float, float]:
    """The least and the most that the paper gives for an epoch after the first."""
    least, most = (
        paper.cell("Text", f"cached-epoch-speed-up-{end}", "value").value
        for end in ("least", "most")
    )
    assert least is not None
    assert most is not None
    return least, most


def cheap_epochs(arm: str) -> Test:
    """Cost of a cached epoch as a share of what the paper's least speed-up allows, minus one."""

    def test(seen: Evidence, task: str) -> Measured:
        made = probes(seen.section, arm, task) if seen.section is not None else []
        shares = [printed_speedup()[0] / it.speedup for it in epochs(made)]
        return Measured(difference(shares, 1.0) if shares else None, (len(shares),))

    return test
