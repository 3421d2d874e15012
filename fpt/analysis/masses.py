"""How much attention the runs of a section pay to the tokens that their answers need (section 3.5).

Only runs whose parameters were kept can be looked at. Beside the trained runs stands each run of
FPT before its first step: the language body with new input and output nets.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd

from ..config import Run
from ..files import FptError
from ..records import Record, Store
from ..sections.arms import ARMS
from ..sections.section import Section
from ..spec import RunSpec
from ..tasks import Batch, Task
from ..training import device as devices
from ..training.kept import trained_model
from ..training.model import Model, assemble
from ..training.train import task_of
from .attention import attention_mass
from .cells import Cell, Cells
from .claim import Evidence, Measured, Test, above, versus

LABELS: Mapping[str, str] = {  # what is looked at, by source
    "fpt": "FPT, trained",
    "untrained": "FPT, before training",
    "random": "Frozen random, trained",
}
How = Literal["mean", "best"]
Where = Literal["first layer", "best head"]
HOW: Mapping[How, str] = {"mean": "mean over heads", "best": "best head"}
MAP_CELLS = 1 << 16  # of the maps of one head; bounds the examples that are looked at
LEAST_EXAMPLES = 8


@dataclass(frozen=True)
class Look:
    """One model to be looked at: of a source in LABELS, and from its record unless untrained."""

    source: str
    run: Run
    record: Record | None

    @property
    def known(self) -> bool:
        return self.source == "untrained" or (
            self.record is not None and self.record.status == "done"
        )


def looks(section: Section) -> Iterator[Look]:
    """Every model that the section asks for, whether it can be had or not."""
    present = section.records()
    for run in section.runs:
        if run.keep and run.arm in LABELS:
            yield Look(run.arm, run, present.get(run.spec.key))
            if run.arm == "fpt":
                yield Look("untrained", run, None)


def model_of(spec: RunSpec, record: Record | None, store: Store) -> Model:
    """The model of a record, or before training. FptError where its body's weights are not here."""
    if record is not None:
        return trained_model(record, store, devices.choose())
    return assemble([spec], task_of(spec), devices.choose())[0].eval()


def examples(task: Task) -> Batch:
    """The first test examples, fewer of long sequences."""
    size = max(LEAST_EXAMPLES, MAP_CELLS // task.length**2)
    return next(task.eval_batches("test", size, devices.choose()))


@cache
def _measured(spec: RunSpec, folder: Path, parameters: str | None) -> pd.DataFrame:
    """`attention_mass` of a run, trained or (without `parameters`) not; each is computed once, for
    its own page and for the verdict's."""
    store = Store(folder)
    record = None if parameters is None else store.read(spec.key)
    model = model_of(spec, record, store)
    return attention_mass(model, examples(model.task)).drop(columns="run")


def masses(section: Section) -> pd.DataFrame:
    """One row per source, task, seed, layer, head (each from 0) and part of the relevant tokens:
    `mass` and `chance`. No row of an arm that has a run missing on its task, or of a body whose
    weights are not here."""
    complete, folder = section.complete(), section.store.folder
    shown = []
    for look in looks(section):
        if not look.known or (look.source in ARMS and (look.source, look.run.task) not in complete):
            continue
        spec, parameters = look.run.spec, look.record.parameters if look.record else None
        with suppress(FptError):
            _measured(spec, folder, parameters)
            shown.append((look.source, look.run.task, spec, parameters))
    return _together(folder, *shown)


@cache
def _together(folder: Path, *shown: tuple[str, str, RunSpec, str | None]) -> pd.DataFrame:
    """What was measured of these sources on their tasks: each claim on attention asks for it."""
    columns = ["source", "task", "seed", "layer", "head", "part", "mass", "chance"]
    if not shown:
        return pd.DataFrame(columns=columns)
    tables = [
        _measured(spec, folder, parameters).assign(source=source, task=task, seed=spec.seed)
        for source, task, spec, parameters in shown
    ]
    return pd.concat(tables, ignore_index=True)[columns]


def by_layer(found: pd.DataFrame, how: How) -> pd.DataFrame:
    """The mass on what must be fetched (part `partner`): one row per source, task, seed and layer,
    the mean over heads or that of the best head."""
    partner = found[found["part"] == "partner"]
    groups = partner.groupby(["source", "task", "seed", "layer"], sort=False)
    function = "mean" if how == "mean" else "max"
    return groups.agg(mass=("mass", function), chance=("chance", "first")).reset_index()


def absent(section: Section, source: str, task: str) -> str:
    """Why there is nothing of `source` on `task`."""
    mine = [it for it in looks(section) if (it.source, it.run.task) == (source, task)]
    if any(look.record is None and look.source != "untrained" for look in mine):
        return "not run"
    return "weights not here" if any(look.known for look in mine) else "diverged"


def lifts(section: Section, where: Where) -> Cells:
    """Mass above chance by source and task, one value per seed: of the first layer, mean over
    heads, as in the paper's figures; or of the head with the most, of all layers."""
    found = masses(section)
    if where == "first layer":
        table = by_layer(found, "mean").query("layer == 0")
    else:
        groups = by_layer(found, "best").groupby(["source", "task", "seed"], sort=False)
        table = groups.max().reset_index()
    cells = {}
    for (source, task), rows in table.groupby(["source", "task"], sort=False):
        values = tuple(float(value) for value in rows["mass"] - rows["chance"])
        arm = "fpt" if source == "untrained" else source
        expected = sum((run.arm, run.task) == (arm, task) for run in section.runs)
        cells[source, task] = Cell(source, task, values, expected, expected - len(values))
    return cells


def attends(where: Where, a: str, b: str | None = None) -> Test:
    """Attention on the needed tokens: source `a` minus source `b`, or minus chance without one."""
    compare = above(a, 0.0) if b is None else versus(a, b)

    def test(seen: Evidence, task: str) -> Measured:
        cells = {} if seen.section is None else lifts(seen.section, where)
        return compare(Evidence(cells, {}), task)

    return test
