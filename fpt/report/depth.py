"""How many layers it takes to mix tokens (section 3.10): ListOps with few trained parts."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ..analysis.cells import Cell, Cells, best_floor, cells, effect, section_tasks
from ..backbones import backbone
from ..sections.arms import ARMS
from ..sections.claims import points
from ..sections.comparison import Comparison
from ..sections.section import Section
from .basis import ACCURACY, coverage, remarks
from .style import LOOKS, MUTED, Look
from .table import NONE, Table, percent
from .tables import cell_text, compared
from .trends import Series, trends

STARTS = {"pretrained": "fpt", "random": "random"}  # of a body, and the row of tables 11 and 12
LINES = {  # in no arm's colour: each depth is an arm of its own, hollow where its body is random
    "pretrained": Look(MUTED, "o", "", LOOKS["fpt"].line),
    "random": Look(MUTED, "o", "", LOOKS["random"].line, hollow=True),
}


def layers(section: Section, arm: str) -> int:
    """How many layers the frozen body of an arm has."""
    return backbone(section.profile.bodies[ARMS[arm].body]).layers


def task_shown(section: Section, comparison: Comparison) -> str:
    """The paper's task, or the first one on which the section has runs of a comparison."""
    tasks = [run.task for run in section.runs if run.arm in comparison.arms]
    return tasks[0] if tasks and comparison.task not in tasks else str(comparison.task)


def by_depth(section: Section, comparison: Comparison, start: str) -> dict[int, str]:
    """The arms of a comparison whose body starts so, by their number of layers, fewest first."""
    arms = [arm for arm in compared(section, comparison) if ARMS[arm].init == start]
    return {layers(section, arm): arm for arm in sorted(arms, key=lambda a: layers(section, a))}


def printed(comparison: Comparison, start: str, task: str) -> dict[int, tuple[str, float]]:
    """What the paper printed for a start on `task`: arms and their percents by number of layers."""
    found = {}
    for arm in comparison.arms:
        value = comparison.printed(arm, task)
        if comparison.row(arm) == STARTS[start] and value is not None:
            found[int(comparison.columns[arm].removeprefix("layers-"))] = (arm, value)
    return found


def depth_table(section: Section, comparison: Comparison) -> Table:
    """Layers across; pretrained and random bodies, their difference, and what the paper printed."""
    task = task_shown(section, comparison)
    section = section.part([task], comparison.arms)
    found = cells(section.frame())
    arms = {start: by_depth(section, comparison, start) for start in STARTS}
    theirs = {
        start: {depth: value for depth, (_, value) in printed(comparison, start, task).items()}
        for start in STARTS
    }
    columns = sorted({depth for start in STARTS for depth in (*arms[start], *theirs[start])})
    shown: dict[str, list[str]] = {}
    numbers: list[dict[str, object]] = []
    for start, mine in arms.items():
        shown[start] = [
            cell_text(found.get((mine[depth], task))) if depth in mine else NONE
            for depth in columns
        ]
        numbers += [_numbers(start, depth, found.get((arm, task))) for depth, arm in mine.items()]
    pretrained, random = arms.values()
    shown["pretrained minus random"] = [
        _difference(found, pretrained[depth], random[depth], task)
        if depth in pretrained and depth in random
        else NONE
        for depth in columns
    ]
    for start, values in theirs.items():
        if not values:
            continue
        name = f"paper, {comparison.tables[0]}: {STARTS[start]}"
        shown[name] = [f"{values[depth]:.3g}" if depth in values else NONE for depth in columns]
        numbers += [
            {"of": "paper", "start": start, "layers": depth, "mean": value / 100}
            for depth, value in values.items()
        ]
    floor = best_floor(section_tasks(section)[task])
    frame = pd.DataFrame.from_dict(shown, orient="index", columns=[str(n) for n in columns])
    notes = (
        coverage(section),
        f"On {task}, by number of layers. {ACCURACY} Parameters chosen on validation.",
        f"Best trivial floor: {NONE if floor is None else percent(floor)}.",
        "The paper's bodies are GPT-2, with 12 layers or cut, and its medium size with 24.",
        *remarks(section),
    )
    return Table(comparison.name, comparison.title, frame, pd.DataFrame(numbers), notes)


def _numbers(start: str, depth: int, cell: Cell | None) -> dict[str, object]:
    row: dict[str, object] = {"of": "ours", "start": start, "layers": depth}
    if cell is not None and cell.interval is not None:
        row |= {name: getattr(cell.interval, name) for name in ("mean", "low", "high", "sd")}
        row["runs"] = len(cell.values)
    return row


def _difference(found: Cells, a: str, b: str, task: str) -> str:
    seen = effect(found, a, b, task)
    return "not run" if seen is None else points(seen)


def depth_figure(section: Section, comparisons: Sequence[Comparison]) -> Figure:
    """Test accuracy against the number of layers, a panel per comparison, beside the paper's."""
    found = cells(section.frame())
    tasks = section_tasks(section)
    panels, floors = {}, {}
    marks = set()
    for comparison in comparisons:
        task = task_shown(section, comparison)
        title = f"{task}: {comparison.title.partition(', ')[2]}"
        series = []
        for start, look in LINES.items():
            mine, theirs = by_depth(section, comparison, start), printed(comparison, start, task)
            ours = [(depth, found.get((arm, task))) for depth, arm in mine.items()]
            papers = [(depth, arm, value) for depth, (arm, value) in theirs.items()]
            series.append(Series(f"{start} body", look, ours, papers))
            marks |= {*mine, *theirs}
        panels[title] = series
        floors[title] = best_floor(tasks[task])
    return trends(panels, floors, "layers of the body", [(n, str(n)) for n in sorted(marks)])
