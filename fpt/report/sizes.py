"""How large the frozen body is (section 3.7): its sizes as a table, accuracy against them."""

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from ..analysis.cells import best_floor, cells, section_arms, section_tasks, titles
from ..backbones import Backbone, backbone, build
from ..paper import reader as paper
from ..sections.comparisons import COMPARISONS, SCALED, SCALES
from ..sections.section import Section
from ..training.flops import paper_count
from .protocol import trained_parameters
from .style import LOOKS
from .table import NONE, Table, label, si
from .trends import Series, trends

STARTS = ("fpt", "random")


def total_parameters(spec: Backbone) -> int:
    """Parameters of the whole language model on a body, by which the paper calls a size: with the
    table of words, which no task uses, and all rows of the positions."""
    body = sum(parameter.numel() for parameter in build(spec).parameters())
    return body + (spec.positions + spec.vocabulary) * spec.width


def section_sizes(section: Section) -> dict[str, Backbone]:
    """The bodies of a section by the part of their arms' names that says the size, small first."""
    bodies = {run.arm: run.spec.backbone for run in section.runs}
    return {
        size: backbone(bodies[f"{start}{size}"])
        for size in SCALED
        for start in STARTS[::-1]
        if f"{start}{size}" in bodies
    }


def sizes_table(section: Section) -> Table:
    """The bodies of the section beside the paper's Table 8, from params.yaml alone."""
    printed = paper.table("T8")
    tasks = section_tasks(section)
    names = titles(tasks)
    rows = {}
    for size, spec in section_sizes(section).items():
        total, counted = total_parameters(spec), paper_count(spec.layers, spec.width)
        rows[spec.name] = {
            "layers": spec.layers,
            "width": spec.width,
            "heads": spec.heads,
            "total": total,
            "trained": counted,
        }
        specs = {run.task: run.spec for run in section.runs if run.arm == f"fpt{size}"}
        for task in tasks:
            if task in specs:
                rows[spec.name][f"trained on {names[task]}"] = trained_parameters(specs[task])[0]
    for row in printed.rows:
        values = {name: printed.cells[row, name].value for name in printed.columns}
        known = {name: value for name, value in values.items() if value is not None}
        rows[f"paper, T8: {row}"] = {
            name: int(known[name]) for name in ("layers", "width", "heads", "total", "trained")
        }
    numbers = pd.DataFrame.from_dict(rows, orient="index")
    shown = numbers.map(lambda v: NONE if pd.isna(v) else f"{v:,.0f}")
    notes = [
        "Total: the whole language model, with its table of words and all positions.",
        "Trained: by the paper's own count, with CIFAR-10 tokens of 16 numbers at 64 positions, no "
        "final norm and no output bias; its table rounds it.",
        *(
            f"{row}, {column}: {cell.note}."
            for (row, column), cell in printed.cells.items()
            if cell.note
        ),
    ]
    if len(tasks) > 0:
        notes.insert(2, "Trained on a task: what our runs train, on the tokens that they have.")
    tidy = numbers.rename_axis("body").reset_index()
    return Table("sizes", "Sizes of the frozen body", shown, tidy, tuple(notes))


def sizes_figure(section: Section) -> Figure:
    """Test accuracy against total parameters, a panel per task, beside the paper's points."""
    comparison, found = COMPARISONS["scaling"], cells(section.frame())
    sizes, arms, tasks = section_sizes(section), section_arms(section), section_tasks(section)
    totals = {size: total_parameters(spec) for size, spec in sizes.items()}
    printed = paper.table("T8")
    panels = {}
    for task in tasks:
        series = []
        for start in STARTS:
            theirs = []
            for size, row in SCALES.items():
                value = comparison.printed(f"{start}{size}", task)
                if value is not None:
                    total = printed.cells[row, "total"].value
                    assert total is not None  # T8 has all of them
                    theirs.append((total, f"{start}{size}", value))
            ours = [
                (total, found.get((f"{start}{size}", task)))
                for size, total in totals.items()
                if f"{start}{size}" in arms
            ]
            look = replace(LOOKS[start], marker="")  # each size has one of its own
            series.append(Series(label(start), look, ours, theirs))
        panels[task] = series
    floors = {name: best_floor(task) for name, task in tasks.items()}
    marks = [(float(total), f"{sizes[size].name}\n{si(total)}") for size, total in totals.items()]
    for row in printed.rows:
        place = printed.cells[row, "total"].value or 0.0
        if all(abs(place - total) > 0.2 * total for total, _ in marks):
            marks.append((place, f"{row}\n{si(place)}"))
    return trends(panels, floors, "body, and parameters of the whole language model", marks)
