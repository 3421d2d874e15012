"""What a notebook made: shown, and written to reports/<profile>/ if `fpt render` executes it.

tables/<section>/ (.md, .csv), figures/<section>/ (.png), metrics/<section>.json (for
`dvc metrics show`), curves/<section>.csv (for `dvc plots show`), runs/<section>.json. A notebook
that is executed by hand shows the same and leaves the report as it is.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from ..analysis.cells import cells, section_tasks
from ..analysis.tuning import tuned
from ..files import write_atomic, write_json
from ..sections.section import Section
from .pages import RENDERS
from .pictures import packed
from .style import styled
from .table import Table

CURVE_COLUMNS = ["task", "arm", "seed", "step", "accuracy", "train_loss", "valid_loss", "clipped"]


def renders() -> bool:
    """Whether the report is written: whether `fpt render` executes this."""
    return RENDERS in os.environ


@dataclass(frozen=True)
class Picture:
    """A drawn figure, shown in a notebook as PNG; its text names it and never varies."""

    name: str
    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"<figure {self.name}>"


def save_table(section: Section, table: Table) -> Table:
    """Write `table` if this `renders`, and return it, to be shown. Its numbers name tasks as
    params.yaml does, and say beside that whether they are fitting."""
    if renders():
        folder, numbers = section.folder / "tables" / section.name, table.numbers
        if "task" in numbers and "fitting" not in numbers:
            fitting = {name: task.fitting for name, task in section_tasks(section).items()}
            numbers = numbers.assign(fitting=numbers["task"].map(fitting))
        write_atomic(folder / f"{table.name}.md", table.markdown().encode())
        # Twelve digits: those beyond are the rounding of this machine's sums.
        text = numbers.to_csv(index=False, float_format="%.12g")
        write_atomic(folder / f"{table.name}.csv", text.encode())
    return table


def save_figure(section: Section, name: str, figure: Figure) -> Picture:
    """Write `figure` as PNG, equal bytes for equal results, if this `renders`; return it, to be
    shown."""
    with styled():
        png = drawn(figure)
    if renders():
        write_atomic(section.folder / "figures" / section.name / f"{name}.png", png)
    return Picture(name, png)


def drawn(figure: Figure) -> bytes:
    """`figure` as PNG. The layout is found once, where `savefig` finds it twice: drawing is most of
    a page's own time."""
    raster = FigureCanvasAgg(figure)
    raster.draw()
    return packed(Image.fromarray(np.asarray(raster.buffer_rgba())))


def save_numbers(section: Section, extra: Mapping[str, Any] | None = None) -> None:
    """Write metrics (means in percent by task and arm, and `extra`), learning curves and runs, if
    this `renders`; of several learning rates, at the chosen one."""
    if not renders():
        return
    summary = section.summary()
    metrics: dict[str, Any] = {name: summary[name] for name in ("present", "expected")}
    shown = tuned(section)
    for (arm, task), cell in cells(shown.frame()).items():
        if cell.interval is not None:
            metrics.setdefault(task, {})[arm] = round(100 * cell.interval.mean, 2)
    write_json(section.folder / "metrics" / f"{section.name}.json", metrics | dict(extra or {}))
    curves = shown.curves().rename(columns={"valid_accuracy": "accuracy"})
    text = curves.reindex(columns=CURVE_COLUMNS).to_csv(index=False)
    write_atomic(section.folder / "curves" / f"{section.name}.csv", text.encode())
    write_json(section.folder / "runs" / f"{section.name}.json", summary)
