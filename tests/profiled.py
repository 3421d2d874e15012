"""Sections of the project's own profiles, on an empty store of a test."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from made import make_record
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from fpt.analysis.cells import Cell
from fpt.analysis.claim import Claim, Evidence
from fpt.report.style import styled
from fpt.sections import claims
from fpt.sections.section import Section, section


def section_of(name: str, profile: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Section:
    """The section `name` of params.yaml; its reports go to `folder`."""
    monkeypatch.setattr(sys.modules["fpt.sections.section"], "REPORTS", folder)
    monkeypatch.setattr("fpt.records.REPORTS", folder)
    return section(name, profile)


def fill(section: Section, levels: Mapping[str, float]) -> None:
    """Records of the runs of the arms in `levels`, whose accuracies lie close around it."""
    for run in section.runs:
        if run.arm in levels:
            section.store.write(make_record(run, levels[run.arm] + 0.002 * run.spec.seed))


def texts(figure: Figure) -> list[Text]:
    """The visible texts of a figure, drawn; a legend may not leave it."""
    with styled():
        FigureCanvasAgg(figure).draw()
    found = [
        text
        for text in dict.fromkeys(figure.findobj(Text))
        if text.get_text().strip() and text.get_visible()
    ]
    names = [text for legend in figure.legends for text in legend.get_texts()]
    assert not [it.get_text() for it in names if it.get_window_extent().x1 > figure.bbox.x1]
    return found


def lines(figure: Figure) -> list[str]:
    """Every line of text of a figure."""
    return [line for text in texts(figure) for line in text.get_text().splitlines()]


def clashes(found: list[Text]) -> list[tuple[str, str]]:
    """The pairs of texts that lie on each other."""
    boxes = [(text.get_text(), text.get_window_extent().shrunk(0.9, 0.8)) for text in found]
    return [
        (first, second)
        for index, (first, box) in enumerate(boxes)
        for second, other in boxes[:index]
        if box.overlaps(other)
    ]


def verdicts(
    judged: list[Claim], levels: Mapping[str, float], task: str, shift: float = 0.001
) -> dict[str, str]:
    """Verdicts on one task where every arm's three runs lie close around its level."""
    cells = {
        (arm, task): Cell(arm, task, (at - shift, at, at + shift), 3) for arm, at in levels.items()
    }
    found = claims.examine(judged, Evidence(cells, {task: 0.1}), [task])
    return {finding.claim.id: finding.verdict.label for finding in found}
